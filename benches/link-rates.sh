#!/bin/sh
# Rates of a fabric's links, read each second from agents that take long to answer (5 ms and on average 15 more), beside the constant traffic
# of the simulator: of each host's port the worst, the 99th percentile and the mean difference of a rate between two rows, and how far rows
# are apart. Ends with status 2 where the worst is above GOAL (0.01). Two minutes; LATENCY='5ms exponential 15ms' and SECONDS_READ=60.
#   benches/link-rates.sh
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d' && exit 0 ;; esac
goal=${GOAL:-0.01} latency=${LATENCY:-5ms exponential 15ms} seconds=${SECONDS_READ:-60}
from=${FROM:-target/release}
all=$(mktemp -d) started=''
chmod 755 "$all"
# shellcheck disable=SC2317 # the trap calls it
finish() {
    for process in $started; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    "$from/throughline" db stop --state-dir "$all/serve" >/dev/null 2>&1 || true
    rm -rf "$all"
}
trap finish EXIT
trap 'exit 1' INT TERM
. benches/wait.sh

THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 \
    "$from/throughline" serve --state-dir "$all/serve" >"$all/serve.out" 2>"$all/serve.log" &
started=$!
collector=http://$(word_after listening\ collect= "$all/serve.out")
psql=$("$from/throughline" db status --state-dir "$all/serve" 2>/dev/null | sed -n 's/^psql *//p')
"$from/throughline-simfabric" run --socket "$all/fabric" --fat-tree 146 --do "latency $latency" --do 'traffic all-to-all 2G' >"$all/fabric.out" 2>&1 &
started="$! $started"
word_after listening\ sim= "$all/fabric.out" >/dev/null
THROUGHLINE__SWEEP__INTERVAL_SECONDS=1 THROUGHLINE__HTTP__LISTEN=127.0.0.1:0 THROUGHLINE__DELIVERY__COLLECTOR="$collector" \
    "$from/throughline-fabric" run --accept --transport "sim:$all/fabric" --state-dir "$all/crawler" >"$all/crawler.out" 2>&1 &
started="$! $started"
# The first sweeps begin at their own times.
sleep $((seconds + 15))
read -r rates apart worst most mean <<EOS
$($psql -At -F ' ' -c "SELECT count(*), round(avg(s), 2), round(max(e), 4), round((percentile_cont(0.99) WITHIN GROUP (ORDER BY e))::numeric, 4), round(avg(e), 4)
    FROM (SELECT interval_seconds::numeric AS s, abs(transmit_bytes_per_second / 2e9 - 1)::numeric AS e
          FROM public.ib_port_rates(now() - interval '$seconds seconds') WHERE node_type = 'ca') r")
EOS
echo "$rates rates of hosts' ports over $apart s on average: worst $worst, 99 % below $most, mean $mean from what was sent"
awk "BEGIN { exit !($rates > 100 && $worst <= $goal) }" || { echo "above $goal: MISSED" && exit 2; }
