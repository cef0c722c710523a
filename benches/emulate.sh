#!/bin/sh
# Shares of links against counters of each flow, on an emulated fabric: 13 steps of two jobs and an unmonitored sender, once
# measured and once modelled, 18 minutes. Status 2 where a share is off by more than 3 points, 77 where namespaces are not
# allowed. Options: --hosts, --leaves, --spines, --link-mbit, --seconds, --only, --kind, --verbose, --windows.
set -eu
cd "$(dirname "$0")/.."
cargo build --release -q -p throughline-benches --bin bench-emulate
cargo build --release -q --bins -p throughline-cli -p throughline-agent -p throughline-fabric -p throughline-mpit-bridge \
    -p throughline-demo
make -s -C crates/mpit-bridge/shim OUT="$PWD/target/release/lib/throughline"
make -s -C crates/gpu/testdouble OUT="$PWD/target/release/lib/throughline"
exec target/release/bench-emulate "$@"
