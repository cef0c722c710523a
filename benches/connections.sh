#!/bin/sh
# 10,000 agents' connections with TLS on one machine: what is delivered, in what time, and what they cost the server.
# Options go to the program: benches/connections.sh --agents 1000 --seconds 30
# Both programs need an open file for each agent (`ulimit -Hn`). DEBUG=1 measures the debug build, for a quick look.
set -eu
cd "$(dirname "$0")/.."
profile=release
[ -n "${DEBUG:-}" ] && profile=debug
flag=--release
[ "$profile" = debug ] && flag=
cargo build $flag --quiet -p throughline-cli -p throughline-benches --bin throughline --bin bench-connections
exec "target/$profile/bench-connections" --throughline "target/$profile/throughline" "$@"
