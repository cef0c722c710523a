#!/bin/sh
# How long the JSON API takes while rows come in: load of a fabric of HOSTS (1428) hosts and a page of JOBS (1000) live
# jobs, at 10 requests a second for LENGTH (60) seconds, and the topology once. Seeds a database of its own: a fat tree
# of two layers, and a sweep of all ports each second and operations of all jobs all the while. One reading a second
# serves all who ask, so the slowest answers are those that read. Prints medians, 95th percentiles and the slowest; ends
# with status 2 where a median is above LOAD_MS (100) or JOBS_MS (10).
set -eu
cd "$(dirname "$0")/.."
hosts=${HOSTS:-1428} jobs=${JOBS:-1000} length=${LENGTH:-60} load_goal=${LOAD_MS:-100} jobs_goal=${JOBS_MS:-10}
throughline=${THROUGHLINE:-target/release/throughline}

. benches/live-site.sh
api="http://$query/api/v1" fabric=fabric/0xfe80000000000000
# A minute of sweeps, so that windows are full.
sleep "${WARM_UP:-30}"

# Milliseconds and bytes of one answer; a failure ends the run.
ask() {
    curl -sf --compressed -o /dev/null -w '%{time_total} %{size_download}\n' "$api/$1" || {
        echo "no answer to $1: $(curl -s "$api/$1") $(tail -n 3 "$folder/serve.log" "$folder/ingest.log")" >&2
        exit 1
    }
}
timed() { awk '{ printf "%s ms, %d bytes\n", $1 * 1000, $2 }'; }
echo "topology of $hosts hosts: $(ask $fabric/topology | timed), again $(ask $fabric/topology | timed)"
: >"$folder/load"
: >"$folder/jobs"
end=$(($(date +%s) + length))
while [ "$(date +%s)" -lt "$end" ]; do
    ask "$fabric/load" >>"$folder/load" &
    first=$!
    sleep 0.1
    ask 'jobs?limit=100' >>"$folder/jobs" &
    sleep 0.1
    wait "$first" $!
done
# A share of each direction of each link, or it was not this that was measured.
curl -s "$api/$fabric/load" | grep -q '"utilisation":{"ab":\[[0-9.]*,' || {
    echo "the load has no numbers: $(tail -n 3 "$folder/ingest.log")" >&2
    exit 1
}
status=0
judge() {
    sort -n "$folder/$1" | awk -v goal="$2" -v what="$3" '
        { time[NR] = $1 * 1000; bytes = $2 }
        END {
            median = time[int((NR + 1) / 2)]
            verdict = median <= goal ? "met" : "MISSED"
            printf "%s: median %.1f ms, 95th percentile %.1f, slowest %.1f, %d answers of %d bytes; at most %s: %s\n",
                what, median, time[int(NR * 0.95)], time[NR], NR, bytes, goal, verdict
            exit median > goal
        }' || status=2
}
judge load "$load_goal" "load of $hosts hosts"
judge jobs "$jobs_goal" "100 of $jobs live jobs"
exit "$status"
