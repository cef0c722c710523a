#!/bin/sh
# The linker of all Rust programs: the system's compiler, but xtask/user-cc.sh for throughline-exec, which enters users' containers.
# A linker for each program cannot be configured, and a cargo command of its own would compile its dependencies once more.
#   xtask/cc.sh ARGUMENTS    as rustc gives them
set -eu
case " $* " in
*/throughline_exec-*) exec "$(dirname "$0")/user-cc.sh" "$@" -Wl,--build-id=sha1 ;;
*) exec cc "$@" ;;
esac
