#!/bin/sh
# Cells of MPI operations a second through gRPC, the collector and a private TimescaleDB. With a second build's program as the argument, the
# builds run in turn and their ratio is printed: benches/ingest.sh OTHER/target/release/throughline
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p throughline-cli -p throughline-benches --bin throughline --bin bench-ingest
if [ $# -gt 0 ]; then
    exec target/release/bench-ingest --throughline "$1" --throughline target/release/throughline
fi
exec target/release/bench-ingest
