#!/bin/sh
# A whole site against `throughline serve` with a private TimescaleDB: rows a second, lag, bytes and disk by table beside the
# prediction, processor time. CLUSTER is A (the papers': 1,428 nodes of 32 ranks), B (AI: 1,000 nodes of 8 GPUs), C (8,008
# hosts), E (5,000 jobs of 8 ranks) or F (one job of 45,696); --no-account leaves out where ranks' time went: what that costs is the
# difference. benches/site/main.rs lists the rest and what is left out. Ends with status 2 where the lag grows or something is left in a
# spool.
#   benches/site.sh A --seconds 1800
#   benches/site.sh C --scale 8
# Full scale takes two processors; PUSH (5) is how often ranks push, in seconds, which the driver folds; rows are the same.
set -eu
cd "$(dirname "$0")/.."
throughline=${THROUGHLINE:-target/release/throughline}
cargo build --release --quiet -p throughline-cli -p throughline-benches --bin throughline --bin bench-site
exec target/release/bench-site --push-seconds "${PUSH:-5}" --throughline "$throughline" "$@"
