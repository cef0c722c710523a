# Prometheus 3 and single-node VictoriaMetrics for benches that are sourced into: built from their Go modules into the prefix the first
# time (Go 1.24 or later, some minutes), or those that PROMETHEUS and VICTORIA_METRICS name. Sets prefix; prometheus and its newest
# protocol of remote write, Debian's where 3 can't be built; victoria, empty where it can't be had. What is left out is named.
# shellcheck shell=sh disable=SC2034 # what it sets
victoria_version=${VICTORIA_VERSION:-v1.136.23} protocol=2
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
    prometheus=$prefix/fabric/wrappers/prometheus protocol=1
    echo "Prometheus 3 can't be built here: Debian's instead, with protocol 1"
fi
[ -n "$victoria" ] || echo "left out: single-node VictoriaMetrics can't be built here, and VICTORIA_METRICS names none"
