#!/bin/sh
# PromQL over long ranges by remote-read: PORTS (50) ports with DAYS (30) days of minutes, and a day of readings at 10 s that upkeep packs, an
# hour's gap and a new epoch among them. Seconds that Prometheus needs for each query, the median of RUNS (5); with a second build's program
# as the argument both builds run in turn and the ratio is printed: benches/long-ranges.sh OTHER/target/release/throughline. Ends with
# status 2 where a ratio is above GOAL (2).
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d' && exit 0 ;; esac
ports=${PORTS:-50} days=${DAYS:-30} runs=${RUNS:-5} goal=${GOAL:-2}
this=${THROUGHLINE:-target/release/throughline} other=${1:-}
prefix=$(cargo xtask prefix fabric | tail -n 1)
prometheus=${PROMETHEUS:-$prefix/fabric/usr/bin/prometheus}
all=$(mktemp -d) started=''
chmod 755 "$all"
# shellcheck disable=SC2317 # the trap calls it
finish() {
    for process in $started; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    for build in this other; do
        [ ! -d "$all/$build" ] || "$(cat "$all/$build.program")" db stop --state-dir "$all/$build" >/dev/null 2>&1 || true
    done
    rm -rf "$all"
}
trap finish EXIT
trap 'exit 1' INT TERM
. benches/wait.sh


# On a whole hour, a while ago: the last hour is packed too.
end=$(($(date +%s) / 3600 * 3600 - 7200))
begin=$((end - days * 86400)) packed=$((end - 86400))
# The counter at a second, SQL: rates differ from port to port, and change by the hour; each fifth port counts anew within the last day.
counter() {
    echo "((1000000 + k.id * 1000) * ($1 - CASE WHEN k.id % 5 = 0 AND $1 >= $packed + 43200 THEN $packed + 43200 ELSE $begin END) + (($1 / 3600) % 7) * 100000)::bigint"
}
epoch() { echo "to_timestamp(CASE WHEN k.id % 5 = 0 AND $1 >= $packed + 43200 THEN $packed + 43200 ELSE $begin END)"; }

# A database of a build, filled and packed, and its server.
prepare() {
    build=$1 program=$2
    echo "$program" >"$all/$build.program"
    mkdir "$all/$build"
    "$program" db start --state-dir "$all/$build" >/dev/null
    psql=$("$program" db status --state-dir "$all/$build" | sed -n 's/^psql *//p' | sed 's/-U throughline_read/-U throughline/')
    $psql -q -v ON_ERROR_STOP=1 <<SQL
INSERT INTO internal.fabric (name, guids) VALUES ('0xfe80000000000000', ARRAY['0xfe80000000000000']);
INSERT INTO internal.ib_node_key (fabric_id, guid) SELECT 1, '0x' || lpad(to_hex(g), 16, '0') FROM generate_series(1, $ports) g;
INSERT INTO internal.ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, valid_from)
SELECT id, guid, 'ca', 'host' || id, id, 1, 1, guid, 1, to_timestamp($begin) FROM internal.ib_node_key;
INSERT INTO internal.ib_port_key (ib_node_id, port) SELECT id, 1 FROM internal.ib_node_key ORDER BY id;
INSERT INTO internal.ib_port_minutes (time, port_id, epoch, seconds, transmit_bytes_per_second, receive_bytes_per_second,
    transmit_peak_bytes_per_second, receive_peak_bytes_per_second, rate_bytes_per_second, last_time, transmit_data_bytes, receive_data_bytes)
SELECT to_timestamp(t), k.id, to_timestamp($begin), 60, 1e6, 1e6, 1e6, 1e6, 12500000000, to_timestamp(t + 59), $(counter "(t + 59)"), 0
FROM generate_series($begin, $packed - 60, 60) t, internal.ib_port_key k;
-- Each seventh port is not read for an hour.
INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes, receive_data_bytes, rate_bytes_per_second)
SELECT to_timestamp(t), k.id, $(epoch t), 'mad', $(counter t), 0, 12500000000
FROM generate_series($packed, $end, 10) t, internal.ib_port_key k WHERE NOT (k.id % 7 = 0 AND t BETWEEN $packed + 20000 AND $packed + 23600);
UPDATE internal.minute_state SET made_until = to_timestamp($packed);
ANALYZE;
SQL
    THROUGHLINE__QUERY__ENABLED=false THROUGHLINE__COLLECT__ENABLED=false "$program" db clock accept --state-dir "$all/$build" >/dev/null
    # The Prometheus that reads scrapes nothing. Older builds leave nothing out and don't know the key.
    unset THROUGHLINE__QUERY__PROMETHEUS_URLS
    ! THROUGHLINE__QUERY__PROMETHEUS_URLS='[]' "$program" check-config >/dev/null 2>&1 || export THROUGHLINE__QUERY__PROMETHEUS_URLS='[]'
    THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 \
        "$program" serve --state-dir "$all/$build" >"$all/$build.out" 2>"$all/$build.log" &
    started="$started $!"
    for _ in $(seq 1200); do
        left=$($psql -q -At -c "SELECT count(*) FROM internal.ib_port_counters WHERE time < to_timestamp($end - 3600)")
        [ "$left" != 0 ] || break
        sleep 1
    done
    [ "$left" = 0 ] || { echo "$build: $left readings are not packed" >&2 && tail -n 20 "$all/$build.log" >&2 && exit 1; }
    printf 'remote_read:\n  - url: http://%s/api/v1/read\n    read_recent: true\n' "$(word_after listening\ query= "$all/$build.out")" >"$all/$build.yml"
    port=$((20000 + $$ % 20000 + ${#build}))
    echo "$port" >"$all/$build.port"
    "$prometheus" --config.file="$all/$build.yml" --storage.tsdb.path="$all/$build.tsdb" --web.listen-address="127.0.0.1:$port" \
        >"$all/$build.prometheus" 2>&1 &
    started="$started $!"
    for _ in $(seq 600); do
        ! curl -sf "http://127.0.0.1:$port/-/ready" >/dev/null || break
        sleep 0.1
    done
}

ask() {
    curl -s -o "$all/$1.answer" -w '%{time_total}\n' "http://127.0.0.1:$(cat "$all/$1.port")/api/v1/$2"
}
median() { sort -n "$1" | sed -n "$(((runs + 1) / 2))p"; }
value() { sed -n 's/.*"value":\[[^,]*,"\([^"]*\)".*/\1/p' "$1"; }

echo "filling: $ports ports, $days days of minutes, a day of readings"
prepare this "$this"
builds=this
[ -z "$other" ] || { prepare other "$other" && builds='other this'; }
status=0
metric=infiniband_hca_port_transmit_data_bytes_total
printf '%-66s %9s %9s %6s\n' query "other, s" "this, s" ratio
while read -r kind expression; do
    case $kind in
    instant) request="query?time=$((end - 600))" ;;
    *) request="query_range?start=$begin&end=$((end - 600))&step=$kind" ;;
    esac
    request="$request&query=$(printf %s "$expression" | sed 's/\[/%5B/g; s/]/%5D/g; s/ /%20/g')"
    for build in $builds; do : >"$all/$build.times"; done
    for run in $(seq 0 "$runs"); do
        for build in $builds; do
            time=$(ask "$build" "$request")
            # The first of each warms up.
            [ "$run" = 0 ] || echo "$time" >>"$all/$build.times"
        done
    done
    grep -q '"value' "$all/this.answer" || { echo "no values: $(head -c 300 "$all/this.answer")" && status=2; }
    mine=$(median "$all/this.times")
    [ -n "$other" ] || { printf '%-66s %9s %9s %6s\n' "$kind $expression" - "$mine" - && continue; }
    theirs=$(median "$all/other.times")
    ratio=$(awk "BEGIN { printf \"%.2f\", $mine / $theirs }")
    printf '%-66s %9s %9s %6s\n' "$kind $expression" "$theirs" "$mine" "$ratio"
    awk "BEGIN { exit !($ratio <= $goal) }" || { echo "  above $goal: MISSED" && status=2; }
    [ "$kind" != instant ] || echo "  this $(value "$all/this.answer"), other $(value "$all/other.answer")"
done <<EOS
instant sum(increase(${metric}[6h]))
instant sum(increase(${metric}[1d]))
instant sum(increase(${metric}[7d]))
instant sum(increase(${metric}[30d]))
300 sum(rate(${metric}[1h]))
3600 sum(rate(${metric}[6h]))
21600 sum(increase(${metric}[1d]))
3600 max($metric)
EOS
exit "$status"
