#!/bin/sh
# The fabric crawler against infiniband-diags on ibsim, and on the simulated fabric. Options and a part go to the
# bench: --hosts, --runs, …; ibsim, simulated, large, soak. `--help` lists them.
set -eu
cd "$(dirname "$0")/.."
cargo build --release -q -p throughline-benches -p throughline-fabric -p throughline-simfabric -p throughline-cli
exec target/release/bench-fabric "$@"
