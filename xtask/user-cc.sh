#!/bin/sh
# The C compiler and linker of all that enters users' programs: clang for glibc 2.17, whatever glibc this machine has. The
# dynamic loader ends a program whose preloaded object requires a later one, before anything of ours runs.
#   xtask/user-cc.sh ARGUMENTS    THROUGHLINE_ARCH=aarch64 in the environment for another architecture than this machine's
# It is the zig that pip brings into the prefix, with the machine's own configuration, on first use; ZIG=PROGRAM in the
# environment is another one, for machines without pip or a package index.
set -eu
glibc=2.17
version=0.17.1
if [ -z "${ZIG:-}" ]; then
    if [ -n "${THROUGHLINE_PREFIX:-}" ]; then
        prefix=$THROUGHLINE_PREFIX
    elif [ "$(id -u)" = 0 ]; then
        prefix=/var/lib/throughline/prefix
    else
        prefix=${XDG_STATE_HOME:+$XDG_STATE_HOME/throughline}
        prefix=${prefix:-$HOME/.local/state/throughline}/prefix
    fi
    wheel=$prefix/wheels/ziglang-$version
    ZIG=$wheel/ziglang/zig
    if [ ! -d "$wheel" ]; then
        echo "user-cc: downloading ziglang $version (100 MB) with pip" >&2
        mkdir -p "$prefix/wheels"
        new=$(mktemp -d "$wheel.XXXXXX")
        trap 'rm -rf "$new"' EXIT
        cat >"$new/requirements" <<-EOF
			ziglang==$version \
			  --hash=sha256:ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54 \
			  --hash=sha256:b7c5f02fccd40f89b999ee16a1f5ddced56e6182370f8affe494bcf8a28cf07e
		EOF
        if ! python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-compile --no-deps \
            --only-binary=:all: --require-hashes --target "$new/wheel" --requirement "$new/requirements" >&2; then
            echo "user-cc: install python3-pip and let it reach a package index (pip.conf), or name a zig $version by ZIG" >&2
            exit 69
        fi
        chmod 755 "$new/wheel"
        # The first one stays.
        mv -T "$new/wheel" "$wheel" 2>/dev/null || [ -d "$wheel" ]
        rm -rf "$new"
        trap - EXIT
    fi
    # What zig makes of glibc's source lies with it.
    : "${ZIG_GLOBAL_CACHE_DIR:=$wheel/cache}"
    export ZIG_GLOBAL_CACHE_DIR
fi
exec "$ZIG" cc -target "${THROUGHLINE_ARCH:-$(uname -m)}-linux-gnu.$glibc" "$@"
