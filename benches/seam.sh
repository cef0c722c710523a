#!/bin/sh
# Whether counters fall in a Prometheus that scrapes the daemons and reads from the database: a simulated fabric, a crawler, two
# agents on the NVML double, the server and three Prometheus servers with deploy/prometheus/prometheus.yml: one with `read_recent:
# false` as it is, one with `true`, and one that scrapes only. For MINUTES (30) the crawler is slow (a sweep each SWEEP (8) seconds), one
# agent is killed and started again each five minutes, and another one's page is not scraped for ten minutes. Blocks are of two
# minutes and kept for RETENTION (10) minutes, so that the oldest block moves all the while. Each minute counts `resets` of all
# counters over what there is. Ends with status 2 where a Prometheus that reads has one that the other has not.
# FROM (target/release) has the programs.
set -eu
cd "$(dirname "$0")/.."
from=${FROM:-target/release} minutes=${MINUTES:-30} sweep=${SWEEP:-8} retention=${RETENTION:-10}
throughline=$from/throughline
prefix=$(cargo xtask prefix fabric | tail -n 1)
prometheus=$prefix/fabric/usr/bin/prometheus

. benches/database.sh
. benches/wait.sh

first=$((20000 + $$ % 20000)) scrapes=$((20001 + $$ % 20000)) second=$((20002 + $$ % 20000))
THROUGHLINE__QUERY__PROMETHEUS_URLS="['http://127.0.0.1:$first', 'http://127.0.0.1:$second']" \
    THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 \
    "$throughline" serve --state-dir "$folder/state" >"$folder/serve.out" 2>"$folder/serve.log" &
started="$started $!"
query=$(word_after 'listening query=' "$folder/serve.out")
collect=http://$(word_after 'listening collect=' "$folder/serve.out")

# Answers take long: a sweep is spread over seconds.
"$from/throughline-simfabric" run --torus 3,3 --do 'traffic all-to-all 200M' --do "latency ${LATENCY:-20ms}" \
    --socket "$folder/fabric.sock" >"$folder/fabric.out" 2>&1 &
started="$started $!"
word_after 'listening sim=' "$folder/fabric.out" >/dev/null
THROUGHLINE__FABRIC__NAME=compute THROUGHLINE__HTTP__LISTEN=127.0.0.1:0 THROUGHLINE__DELIVERY__COLLECTOR=$collect \
    THROUGHLINE__SWEEP__INTERVAL_SECONDS=$sweep \
    "$from/throughline-fabric" --transport "sim:$folder/fabric.sock" run --state-dir "$folder/crawler" \
    >"$folder/crawler.out" 2>"$folder/crawler.log" &
started="$started $!"
fabric=$(word_after 'listening fabric=' "$folder/crawler.out")

agent_of() { # NODE PORT
    THROUGHLINE__NODE=$1 THROUGHLINE__HTTP__LISTEN=127.0.0.1:$2 THROUGHLINE__DELIVERY__COLLECTOR=$collect \
        THROUGHLINE__NVML__LIBRARY="$folder/double/libnvidia-ml.so.1" THROUGHLINE_NVML_SCENARIO=$PWD/crates/gpu/scenarios/hgx-h200.scenario \
        THROUGHLINE__MPI__ENABLED=false \
        "$from/throughline-agent" run --state-dir "$folder/$1" >"$folder/$1.out" 2>>"$folder/$1.log" &
    agent=$! started="$started $!"
}
make -s -C crates/gpu/testdouble OUT="$folder/double"
one=$((20003 + $$ % 20000)) two=$((20004 + $$ % 20000))
agent_of n1 $one
killed=$agent
agent_of n2 $two

# The shipped file with these addresses. The second agent's page is found by a file that the bench takes away.
mkdir "$folder/targets"
target() { echo "[{\"targets\": [\"127.0.0.1:$two\"], \"labels\": {\"instance\": \"n2\"}}]" >"$folder/targets/agents2.json"; }
configuration() { # read_recent
    sed -e "s/127.0.0.1:9460/$query/; s/127.0.0.1:9461/127.0.0.1:$one/; s/127.0.0.1:9462/$fabric/; s/instance: \"node\"/instance: n1/" \
        -e "s/interval: 15s/interval: 5s/; s/timeout: 10s/timeout: 4s/; /rules/d; s/read_recent: false/read_recent: $1/" \
        deploy/prometheus/prometheus.yml
}
start() { # NAME PORT
    "$prometheus" --config.file="$folder/$1.yml" --storage.tsdb.path="$folder/$1" --storage.tsdb.min-block-duration=2m \
        --storage.tsdb.max-block-duration=2m --storage.tsdb.retention.time="${retention}m" --web.listen-address="127.0.0.1:$2" \
        >"$folder/$1.log" 2>&1 &
    started="$started $!"
}
# Stored readings from before they begin.
sleep "${BEFORE:-400}"
target
configuration false >"$folder/shipped.yml"
configuration true >"$folder/recent.yml"
configuration false | sed '/^remote_read:/,/^$/d' >"$folder/scraping.yml"
start shipped "$first"
start recent "$second"
start scraping "$scrapes"

# Counters that fell: names and labels, of all whose name matches.
fallen() { # PORT
    for names in infiniband_switch_.+ infiniband_hca_.+ node_.+ throughline_.+; do
        curl -s "http://127.0.0.1:$1/api/v1/query" --data-urlencode \
            "query=resets(label_replace({__name__=~\"${names}_total\",__name__!~\"throughline_link_.+\"}, \"name\", \"\$1\", \"__name__\", \"(.+)\")[${minutes}m:1s]) > 0" |
            tr '{' '\n' | sed -n 's/^\("[a-z].*"\)},"value":.*/\1/p'
    done | sort
}
status=0 falls=0 minute=0
while [ "$minute" -lt "$minutes" ]; do
    sleep 60
    minute=$((minute + 1))
    case $((minute % 15)) in
    2) rm "$folder/targets/agents2.json" ;;
    12) target ;;
    esac
    if [ $((minute % 5)) = 0 ]; then
        kill -9 "$killed"
        wait "$killed" 2>/dev/null || true
        sleep 3
        agent_of n1 $one
        killed=$agent
    fi
    fallen "$scrapes" >"$folder/true"
    for which in "shipped $first" "recent $second"; do
        fallen "${which#* }" >"$folder/falls"
        more=$(comm -13 "$folder/true" "$folder/falls")
        [ -z "$more" ] || { falls=$((falls + 1)); echo "minute $minute, ${which% *}: $(echo "$more" | wc -l) fell:"; echo "$more" | head -n 5; }
    done
    series=$(curl -s "http://127.0.0.1:$second/api/v1/query" --data-urlencode 'query=count({__name__=~"(infiniband|throughline)_.+_total"})' |
        sed -n 's/.*,"\([0-9]*\)"\].*/\1/p')
    echo "minute $minute: ${series:-0} counters; $(wc -l <"$folder/true") fell for everybody (an agent began anew)"
done
[ "$falls" = 0 ] || status=2
exit $status
