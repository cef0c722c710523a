#!/bin/sh
# The same samples of ports and NVLinks in Throughline, Prometheus 3 and single-node VictoriaMetrics: bytes a sample, processor time
# of ingest, time of five queries, side by side (benches/samples/main.rs). One in SCALE (30) of site A's ports and GPUs for an hour at 1 s;
# then the ports alone, for the goal of 0.7 bytes a sample. Builds both peers from their Go modules into the prefix the first time (Go
# 1.24 or later, some minutes); PROMETHEUS and VICTORIA_METRICS name programs that are there. A peer that can't be had is left out
# and named.
set -eu
cd "$(dirname "$0")/.."
throughline=${THROUGHLINE:-target/release/throughline} profile=${PROFILE:-release} scale=${SCALE:-30}
victoria_version=${VICTORIA_VERSION:-v1.136.23}
prefix=$(cargo xtask prefix fabric | tail -n 1)
prometheus=${PROMETHEUS:-$prefix/prometheus3/prometheus}
victoria=${VICTORIA_METRICS:-$prefix/victoriametrics/victoria-metrics}
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
    prometheus=$prefix/fabric/wrappers/prometheus
    echo "Prometheus 3 can't be built here: Debian's instead"
fi
[ -n "$victoria" ] || echo "left out: VictoriaMetrics can't be built here, and VICTORIA_METRICS names none"
cargo build --profile "$profile" --quiet -p throughline-cli -p throughline-benches --bin throughline --bin bench-samples
bench=$(dirname "$throughline")/bench-samples
for only in "" --ports-only; do
    # shellcheck disable=SC2086 # nothing is no argument
    "$bench" --scale "$scale" --throughline "$throughline" --prometheus "$prometheus" \
        ${victoria:+--victoria-metrics "$victoria"} $only
done
