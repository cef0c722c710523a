#!/bin/sh
# Thirty-one programs with one known fault each, and healthy ones, that measure themselves; quiet, and beside one busy loop a processor; with
# Open MPI (spinning, yielding) and MPICH. Where their time went, as it is shown, is compared with their own clocks (3 points), how old that is
# while they run (15 s), and what is said of them with the fault. Some 35 minutes. Ends with status 2 where a goal is missed.
#   benches/account.sh [--only TEXT] [--all] [--load quiet|loaded] [--seconds N] [--keep]
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p throughline-benches --bin bench-account
cargo build --release --quiet --bins -p throughline-cli -p throughline-agent -p throughline-mpit-bridge
make -s -C crates/mpit-bridge/shim OUT="$PWD/target/release/lib/throughline"
exec target/release/bench-account "$@"
