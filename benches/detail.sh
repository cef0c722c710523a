#!/bin/sh
# Detail on demand of a busy node: 32 ranks with cells each 100 ms, ports, GPUs. How long after the request its last ten minutes are
# in the database, whether they are exactly what the recorder has, processor time, the agent's memory, and how long what is
# measured meanwhile waits. Ends with status 2 where a goal is missed.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p throughline-cli -p throughline-agent -p throughline-benches --bin throughline --bin throughline-agent --bin bench-detail
exec target/release/bench-detail "$@"
