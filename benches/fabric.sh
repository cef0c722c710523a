#!/bin/sh
# The fabric crawler against infiniband-diags on a simulated fabric. Options go to the bench: --hosts, --runs, …
set -eu
cd "$(dirname "$0")/.."
cargo build --release -q -p throughline-benches -p throughline-fabric -p throughline-cli
exec target/release/bench-fabric "$@"
