#!/bin/sh
# The same samples of ports and NVLinks in Throughline, Prometheus 3 and single-node VictoriaMetrics: bytes a sample, processor time
# of ingest, time of five queries, side by side (benches/samples/main.rs). One in SCALE (30) of site A's ports and GPUs for an hour at 1 s;
# then the ports alone, for the goal of 0.7 bytes a sample. Both peers by benches/receivers.sh.
set -eu
cd "$(dirname "$0")/.."
throughline=${THROUGHLINE:-target/release/throughline} profile=${PROFILE:-release} scale=${SCALE:-30}
. benches/receivers.sh
cargo build --profile "$profile" --quiet -p throughline-cli -p throughline-benches --bin throughline --bin bench-samples
bench=$(dirname "$throughline")/bench-samples
for only in "" --ports-only; do
    # shellcheck disable=SC2086 # nothing is no argument
    "$bench" --scale "$scale" --throughline "$throughline" --prometheus "$prometheus" \
        ${victoria:+--victoria-metrics "$victoria"} $only
done
