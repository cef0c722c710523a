#!/bin/sh
# Twelve programs that hang, each in one known way, and twenty-five healthy ones that are silent for a minute, with Open MPI and MPICH in
# turn. Seconds from a hang's cause to its open call's being shown and to its verdict; whether a healthy program is ever said to hang. Some
# 15 minutes. Ends with status 2 where a goal is missed.
#   benches/hangs.sh [--only TEXT] [--all] [--kind hang|healthy] [--silence N] [--keep]
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p throughline-benches --bin bench-hangs
cargo build --release --quiet --bins -p throughline-cli -p throughline-agent -p throughline-mpit-bridge
make -s -C crates/mpit-bridge/shim OUT="$PWD/target/release/lib/throughline"
exec target/release/bench-hangs "$@"
