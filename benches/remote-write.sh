#!/bin/sh
# Remote write to real receivers while `serve`, a receiver's storage and whole receivers die (benches/remote_write/main.rs): every sample
# once, and the PromQL of all dashboards and alert rules with the same answers. Receivers: VictoriaMetrics' cluster where VICTORIA_CLUSTER
# names a folder with vminsert, vmstorage and vmselect (its releases have them in one archive, named *-cluster); single-node
# VictoriaMetrics and Prometheus 3, by benches/receivers.sh. What can't be had is left out and named.
# SECONDS_OF_SAMPLES (180), AWAY_SECONDS (60), SCALE (100).
set -eu
cd "$(dirname "$0")/.."
throughline=${THROUGHLINE:-target/release/throughline} profile=${PROFILE:-release}
. benches/receivers.sh
cluster=${VICTORIA_CLUSTER:-}
[ -n "$cluster" ] || echo "left out: VictoriaMetrics' cluster: VICTORIA_CLUSTER names no folder with vminsert, vmstorage and vmselect"
cargo build --profile "$profile" --quiet -p throughline-cli -p throughline-benches --bin throughline --bin bench-remote-write
exec "$(dirname "$throughline")/bench-remote-write" --seconds "${SECONDS_OF_SAMPLES:-180}" --away-seconds "${AWAY_SECONDS:-60}" \
    --scale "${SCALE:-100}" --throughline "$throughline" --prometheus "$prometheus" --protocol "$protocol" \
    --reader "$prefix/fabric/wrappers/prometheus" ${victoria:+--victoria-metrics "$victoria"} ${cluster:+--cluster "$cluster"}
