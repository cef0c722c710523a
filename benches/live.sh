#!/bin/sh
# The live request at a site's size: 1,400 simulated nodes of 64 ranks in nine jobs, twenty viewers of eight of them, and one of the
# ninth, who is refused; benches/live/main.rs lists what is measured. Ends with status 2 where a goal is missed.
#   benches/live.sh
#   benches/live.sh --scale 10 --seconds 30
set -eu
cd "$(dirname "$0")/.."
throughline=${THROUGHLINE:-target/release/throughline}
cargo build --release --quiet -p throughline-cli -p throughline-benches --bin throughline --bin bench-live
exec target/release/bench-live --throughline "$throughline" "$@"
