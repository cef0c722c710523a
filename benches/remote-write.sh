#!/bin/sh
# Remote write to real receivers while `serve`, a receiver's storage and whole receivers die (benches/remote_write/main.rs): every sample
# once, and the PromQL of all dashboards and alert rules with the same answers. Receivers: VictoriaMetrics' cluster where VICTORIA_CLUSTER
# names a folder with vminsert, vmstorage and vmselect (its releases have them in one archive, named *-cluster); single-node
# VictoriaMetrics and Prometheus 3, which benches/samples.sh and benches/promql.sh build from their Go modules into the prefix too, or
# VICTORIA_METRICS and PROMETHEUS. What can't be had is left out and named. SECONDS_OF_SAMPLES (180), AWAY_SECONDS (60), SCALE (100).
set -eu
cd "$(dirname "$0")/.."
throughline=${THROUGHLINE:-target/release/throughline} profile=${PROFILE:-release}
victoria_version=${VICTORIA_VERSION:-v1.136.23} protocol=2
prefix=$(cargo xtask prefix fabric | tail -n 1)
prometheus=${PROMETHEUS:-$prefix/prometheus3/prometheus}
victoria=${VICTORIA_METRICS:-$prefix/victoriametrics/victoria-metrics}
cluster=${VICTORIA_CLUSTER:-}
build() { # PROGRAM COMMAND...
    [ ! -x "$1" ] || return 0
    command -v go >/dev/null || return 1
    shift
    "$@"
}
# shellcheck disable=SC2016 # the inner shell expands it
build "$prometheus" sh -c 'cd benches/prometheus3 && go build -trimpath -ldflags "-s -w" -o "$0" \
    github.com/prometheus/prometheus/cmd/prometheus' "$prefix/prometheus3/" || prometheus=
build "$victoria" env GOBIN="$prefix/victoriametrics" go install -trimpath -ldflags "-s -w" \
    "github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics@$victoria_version" || victoria=
if [ -z "$prometheus" ]; then
    prometheus=$prefix/fabric/wrappers/prometheus protocol=1
    echo "Prometheus 3 can't be built here: Debian's instead, with protocol 1"
fi
[ -n "$victoria" ] || echo "left out: single-node VictoriaMetrics can't be built here, and VICTORIA_METRICS names none"
[ -n "$cluster" ] || echo "left out: VictoriaMetrics' cluster: VICTORIA_CLUSTER names no folder with vminsert, vmstorage and vmselect"
cargo build --profile "$profile" --quiet -p throughline-cli -p throughline-benches --bin throughline --bin bench-remote-write
exec "$(dirname "$throughline")/bench-remote-write" --seconds "${SECONDS_OF_SAMPLES:-180}" --away-seconds "${AWAY_SECONDS:-60}" \
    --scale "${SCALE:-100}" --throughline "$throughline" --prometheus "$prometheus" --protocol "$protocol" \
    --reader "$prefix/fabric/wrappers/prometheus" ${victoria:+--victoria-metrics "$victoria"} ${cluster:+--cluster "$cluster"}
