#!/bin/sh
# Sixteen programs that write down what they call (constant, on and off, a ramp, bursts; 30 s to 20 minutes; 1, 4 and 24 ranks; one agent
# and two; Open MPI and MPICH), each surface read each second while they run, and all compared with their logs. Some 37 minutes; with --busy
# beside a busy loop a processor. Ends with status 2 where anything is false.
#   benches/now.sh [--busy] [--only TEXT] [--keep]
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p throughline-benches --bin bench-now
cargo build --release --quiet --bins -p throughline-cli -p throughline-agent -p throughline-mpit-bridge
make -s -C crates/mpit-bridge/shim OUT="$PWD/target/release/lib/throughline"
exec target/release/bench-now "$@"
