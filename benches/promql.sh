#!/bin/sh
# PromQL over the database by remote-read against the same samples in Prometheus' own storage, in one run: SERIES
# (1000) ports, an hour at 5 s, in the blocks that upkeep makes of an hour that has passed. Seeds a database of its own and
# lets upkeep pack it; prints medians of RUNS (7), each query in turn on both, what each takes while there are rows only,
# and the most memory of `throughline serve`. Ends with status 2 where a ratio is above 1.5, memory above 200 MB, or an
# answer differs, or where a query over the limit is not refused with the reason. PROMETHEUS and PROMTOOL name other programs
# than the prefix's (2.42, which takes whole answers). `--prometheus 3` builds Prometheus 3 from its Go module
# (benches/prometheus3) into the prefix first, some minutes the first time: it takes answers as a stream. Needs Go 1.24.
set -eu
cd "$(dirname "$0")/.."
version=2
while [ $# -gt 0 ]; do
    case $1 in
    --prometheus) version=${2:?"--prometheus 2 or 3"} && shift ;;
    *) echo "$1: there is only --prometheus 2 or 3" >&2 && exit 64 ;;
    esac
    shift
done
series=${SERIES:-1000} runs=${RUNS:-7} goal=${GOAL:-1.5} memory_goal_mb=${MEMORY_MB:-200}
throughline=${THROUGHLINE:-target/release/throughline}
prefix=$(cargo xtask prefix fabric | tail -n 1)
prometheus=${PROMETHEUS:-$prefix/fabric/usr/bin/prometheus} promtool=${PROMTOOL:-$prefix/fabric/usr/bin/promtool}

if [ "$version" = 3 ]; then
    command -v go >/dev/null || { echo "go is not there: install golang-go of Debian 13, or Go 1.24 or later" >&2 && exit 69; }
    module=github.com/prometheus/prometheus/cmd
    (cd benches/prometheus3 && go build -trimpath -ldflags "-s -w" -o "$prefix/prometheus3/" $module/prometheus $module/promtool)
    prometheus=$prefix/prometheus3/prometheus promtool=$prefix/prometheus3/promtool
fi

. benches/database.sh
. benches/wait.sh

echo "seeding $series series of an hour at 5 s"
# On a whole hour, two hours ago: where Prometheus keeps blocks and no head.
end=$(($(date +%s) / 3600 * 3600 - 7200)) begin=$(($(date +%s) / 3600 * 3600 - 10800))
$psql -q -v ON_ERROR_STOP=1 <<EOF
INSERT INTO internal.fabric (name, guids) VALUES ('0xfe80000000000000', ARRAY['0xfe80000000000000']);
INSERT INTO internal.ib_node_key (fabric_id, guid)
SELECT 1, '0x' || lpad(to_hex(g), 16, '0') FROM generate_series(1, $series) g;
INSERT INTO internal.ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, valid_from)
SELECT id, guid, 'ca', 'host' || id, id, 1, 1, guid, 1, to_timestamp($begin) FROM internal.ib_node_key;
INSERT INTO internal.ib_port_key (ib_node_id, port) SELECT id, 1 FROM internal.ib_node_key ORDER BY id;
-- As a crawler writes: all ports of a sweep, then the next. Rates differ from port to port and from time to time.
INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes, receive_data_bytes, transmit_packets,
    receive_packets, transmit_wait, rate_bytes_per_second, link_downed, symbol_error)
SELECT to_timestamp($begin + t * 5), k.id, to_timestamp($begin), 'mad',
    t::bigint * 1000000 * (1 + k.id % 97) + (t * 7919 + k.id * 104729) % 1000003, t * 5000, t * 4000, t * 300, t * 2,
    12500000000, 0, 0
FROM generate_series(0, 720) t, internal.ib_port_key k;
ANALYZE internal.ib_port_counters, internal.ib_port_key, internal.ib_node_key, internal.ib_node;
EOF
{
    echo "# TYPE infiniband_hca_port_transmit_data_bytes counter"
    $psql -q -At <<EOF
COPY (SELECT format('infiniband_hca_port_transmit_data_bytes_total{guid="%s",instance="0xfe80000000000000",port="1"} %s %s',
    nk.guid, c.transmit_data_bytes, extract(epoch FROM c.time)::bigint)
  FROM internal.ib_port_counters c JOIN internal.ib_port_key k ON k.id = c.port_id JOIN internal.ib_node_key nk ON nk.id = k.ib_node_id
  ORDER BY nk.guid, c.time) TO STDOUT;
EOF
    echo "# EOF"
} >"$folder/history.txt"
"$promtool" tsdb create-blocks-from openmetrics "$folder/history.txt" "$folder/own" >/dev/null
rm "$folder/history.txt"

# Without upkeep: what is packed and what not is settled here.
serve() {
    THROUGHLINE__QUERY__PROMETHEUS_URLS='[]' THROUGHLINE__QUERY__LISTEN=127.0.0.1:$1 THROUGHLINE__COLLECT__ENABLED=false THROUGHLINE__UPKEEP__ENABLED=false \
        "$throughline" serve --state-dir "$folder/state" >"$folder/serve.out" 2>"$folder/serve.log" &
    serve=$! started="$started $!"
    query=$(word_after listening\ query= "$folder/serve.out")
}
serve 0

echo "scrape_configs: []" >"$folder/own.yml"
printf 'remote_read:\n  - url: http://%s/api/v1/read\n    read_recent: true\n' "$query" >"$folder/remote.yml"
start() {
    # The port is free when it is chosen; on a busy machine somebody else may take it.
    "$prometheus" --config.file="$folder/$1.yml" --storage.tsdb.path="$folder/$1" --storage.tsdb.retention.time=1000d \
        --web.listen-address="127.0.0.1:$2" >"$folder/$1.log" 2>&1 &
    started="$started $!"
    for _ in $(seq 600); do
        curl -sf "http://127.0.0.1:$2/-/ready" >/dev/null && return
        sleep 0.1
    done
    cat "$folder/$1.log" >&2
    exit 1
}
own=$((20000 + $$ % 20000)) remote=$((20001 + $$ % 20000))
start own "$own"
start remote "$remote"

ask() {
    curl -s -o "$folder/$1.answer" -w '%{time_total}\n' "http://127.0.0.1:$2/api/v1/query_range" \
        --data-urlencode "query=$3" -d "start=$begin&end=$end&step=15"
}
median() { sort -n "$1" | sed -n "$(((runs + 1) / 2))p"; }
status=0
judge() {
    if awk "BEGIN { exit !($2 <= $3) }"; then verdict=met; else verdict=MISSED status=2; fi
    printf '  %-64s %9s   at most %s: %s\n' "$1" "$2" "$3" "$verdict"
}
"$prometheus" --version 2>&1 | head -n 1
expressions='sum(rate(infiniband_hca_port_transmit_data_bytes_total[1m]))
sum(irate(infiniband_hca_port_transmit_data_bytes_total[1m]))
max by (instance) (infiniband_hca_port_transmit_data_bytes_total)'
number=0
while read -r expression; do
    number=$((number + 1))
    for _ in $(seq "$runs"); do ask remote "$remote" "$expression"; done >"$folder/rows.times"
    echo "$expression: from rows that are not packed $(median "$folder/rows.times") s"
    cp "$folder/remote.answer" "$folder/rows.$number"
done <<EOF
$expressions
EOF

# An hour is packed when its minutes are made; those are not asked for here.
$psql -q -c "UPDATE internal.minute_state SET made_until = to_timestamp($end + 3600), noticed_until = to_timestamp($end + 3600)"
THROUGHLINE__QUERY__ENABLED=false THROUGHLINE__COLLECT__ENABLED=false \
    "$throughline" --log-level info,throughline_gateway=debug serve --state-dir "$folder/state" \
    >"$folder/upkeep.out" 2>"$folder/upkeep.log" &
started="$started $!" upkeep=$!
for _ in $(seq 1200); do
    ! grep -q 'blocks of readings' "$folder/upkeep.log" || break
    sleep 0.1
done
sed -n 's/.*blocks of readings/packed:/p' "$folder/upkeep.log" | head -n 1
kill "$upkeep" "$serve"
wait "$upkeep" "$serve" || true
# Prometheus asks the same address; what the first server knew of blocks is gone with it.
serve "${query##*:}"

number=0
while read -r expression; do
    number=$((number + 1))
    : >"$folder/own.times"
    : >"$folder/remote.times"
    for run in $(seq 0 "$runs"); do
        # The first of each warms up.
        a=$(ask own "$own" "$expression") b=$(ask remote "$remote" "$expression")
        [ "$run" = 0 ] || { echo "$a" >>"$folder/own.times"; echo "$b" >>"$folder/remote.times"; }
    done
    mine=$(median "$folder/remote.times") theirs=$(median "$folder/own.times")
    echo "$expression: remote-read $mine s, own storage $theirs s"
    judge "ratio" "$(awk "BEGIN { printf \"%.2f\", $mine / $theirs }")" "$goal"
    grep -q '"values"' "$folder/own.answer" || { echo "  no values: $(head -c 300 "$folder/own.answer")"; status=2; }
    case $expression in
    *'(rate('*) ;; # thinned
    *) for other in own.answer "rows.$number"; do
        cmp -s "$folder/$other" "$folder/remote.answer" || { echo "  the answers differ: MISSED"; status=2; }
    done ;;
    esac
done <<EOF
$expressions
EOF
# Beyond the limit: refused before anything is sent, and Prometheus lists the reason among the warnings.
THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__COLLECT__ENABLED=false THROUGHLINE__UPKEEP__ENABLED=false \
    THROUGHLINE__QUERY__PROMETHEUS_URLS='[]' THROUGHLINE__QUERY__SAMPLES_MAX=100000 "$throughline" serve --state-dir "$folder/state" \
    >"$folder/small.out" 2>"$folder/small.log" &
started="$started $!"
printf 'remote_read:\n  - url: http://%s/api/v1/read\n    read_recent: true\n' \
    "$(word_after listening\ query= "$folder/small.out")" >"$folder/small.yml"
start small $((20002 + $$ % 20000))
ask small $((20002 + $$ % 20000)) 'max(infiniband_hca_port_transmit_data_bytes_total)' >/dev/null
if grep -q 'query.samples_max' "$folder/small.answer" "$folder/small.log"; then
    echo "  a query over the limit is refused: $(grep -ho 'more than [0-9]* samples, the limit query.samples_max' \
        "$folder/small.answer" "$folder/small.log" | head -n 1)"
else
    echo "  a query over the limit is not refused: MISSED: $(head -c 300 "$folder/small.answer")"
    status=2
fi
memory=$(sed -n "s/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$serve/status")
judge "most memory of throughline serve, MB" "$((memory / 1000))" "$memory_goal_mb"
exit "$status"
