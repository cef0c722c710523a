#!/bin/sh
# Real programs with one known fault each, on an emulated fabric: is the fault named, and do the seconds in MPI agree with
# the programs' own clocks within 5 %? About 20 minutes on an idle machine of two cores. Status 2 where one is not named right, 77
# where namespaces are not allowed. Options: --seconds, --only, --show FOLDER.
# Then precision and recall over generated jobs: cargo bench -p throughline-verdicts.
set -eu
cd "$(dirname "$0")/.."
cargo build --release -q -p throughline-benches --bin bench-verdicts
cargo build --release -q --bins -p throughline-cli -p throughline-agent -p throughline-fabric -p throughline-mpit-bridge \
    -p throughline-demo
make -s -C crates/mpit-bridge/shim OUT="$PWD/target/release/lib/throughline"
make -s -C crates/gpu/testdouble OUT="$PWD/target/release/lib/throughline"
exec target/release/bench-verdicts "$@"
