#!/bin/sh
# Six agents and a server whose clocks differ, under libfaketime with the system's monotonic clock: ahead, behind, set while they
# run, off before the server was reached, and a server four minutes behind. The database has the true clock.
#   benches/clocks.sh                        FROM=target/debug takes other programs than the release build's, FAKETIME_RUN a script
#                                            `FILE PROGRAM...` other than the prefix's faketime-run
# `serve` starts programs of a private database without LD_PRELOAD, so the database is started by itself, and the server gets its
# address. Prints what status, healthz and metrics said in each part; exits 2 where a row lies more than 10 s from the time in which
# it was made, or where a record was rejected or lost.
set -eu
cd "$(dirname "$0")/.."
from=${FROM:-target/release} pace=${PACE:-30}
throughline=$from/throughline agent=$from/throughline-agent
run=${FAKETIME_RUN:-$(cargo xtask prefix faketime | tail -n 1)/bin/faketime-run}
[ -x "$run" ] || { echo "benches/clocks.sh: $run is not there: cargo xtask prefix faketime unpacks it" >&2; exit 69; }
. benches/database.sh
socket=$(echo "$psql" | sed -n 's/.*-h \([^ ]*\) .*/\1/p')
status=0
began=$($psql -qAt -c 'SELECT clock_timestamp()')

# NAME is so many seconds ahead.
set_clock() { printf '%+d\n' "$2" >"$folder/$1.clock"; }
started_one() { started="$started $!"; }
start_server() {
    THROUGHLINE__QUERY__LISTEN=127.0.0.1:${query##*:} THROUGHLINE__COLLECT__LISTEN=127.0.0.1:${collect##*:} \
        "$run" "$folder/server.clock" "$throughline" serve --state-dir "$folder/serve" \
        --database-url "host=$socket user=throughline dbname=throughline" >"$folder/server.out" 2>>"$folder/server.log" &
    server=$!
    started_one
    tries=0
    until grep -q '^listening collect=' "$folder/server.out" && curl -s -m 2 "http://$(address query)/healthz" >/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { cat "$folder/server.log" >&2; exit 1; }
        sleep 0.2
    done
}
address() { sed -n "s/^listening $1=//p" "$folder/server.out" | head -n 1; }
start_agent() {
    THROUGHLINE__NODE=$1 THROUGHLINE__HTTP__LISTEN=127.0.0.1:0 THROUGHLINE__DELIVERY__COLLECTOR="http://$collect" \
        "$run" "$folder/$1.clock" "$agent" run --state-dir "$folder/$1" >"$folder/$1.out" 2>"$folder/$1.log" &
    started_one
}
page() { [ ! -e "$folder/$1.out" ] || sed -n "s/.*listening agent=//p" "$folder/$1.out"; }
sql() { $psql -qAt -c "$1"; }
said() {
    echo "== $1"
    "$throughline" status --server "http://$query" 2>/dev/null | sed -n '/CLOCK/p;/Nothing is wrong/p;/REJECTED/p' | sed 's/^/status: /'
    curl -s -m 5 "http://$query/healthz" | grep -i clock | sed 's/^/server: /' || true
    curl -s -m 5 "http://$query/metrics" | grep '^throughline_server_clock_offset_seconds' | sed 's/^/server: /' || true
    for node in n3 n4 n5 n6; do
        curl -s -m 5 "http://$(page "$node")/healthz" | grep -i clock | sed "s/^/$node: /" || true
        curl -s -m 5 "http://$(page "$node")/metrics" | grep '^throughline_clock_offset_seconds' | sed "s/^/$node: /" || true
    done
}
# Where rows lie: beyond what has been since the begin, by more than 10 s.
rows() {
    wrong=$(sql "SELECT count(*) FROM public.self_stats WHERE time < '$began'::timestamptz - interval '10 s' OR time > clock_timestamp() + interval '10 s'")
    silent=$(sql "SELECT string_agg(n, ' ') FROM unnest(ARRAY[$1]) n WHERE NOT EXISTS (SELECT FROM public.self_stats s WHERE s.instance = n AND s.time > clock_timestamp() - interval '75 s')")
    rejected=$(sql 'SELECT coalesce(sum(records), 0) FROM internal.record_quarantine')
    echo "rows at a wrong time: $wrong; nodes without a row of the last 75 s: ${silent:-none}; records rejected: $rejected"
    [ "$wrong$silent$rejected" = 00 ] || status=2
}

for one in server n1 n2 n3 n4 n5 n6; do set_clock "$one" 0; done
set_clock n3 300
set_clock n4 -300
collect=127.0.0.1:0 query=127.0.0.1:0
start_server
collect=$(address collect) query=$(address query)
for node in n1 n2 n3 n4 n5; do start_agent "$node"; done
sleep $((pace + 45))
said 'n3 is 300 s ahead, n4 300 s behind'
rows "'n1', 'n2', 'n3', 'n4', 'n5'"

set_clock n3 0
set_clock n5 7200
sleep $((pace + 15))
said 'n3 was set right, n5 two hours ahead'
rows "'n1', 'n2', 'n3', 'n4', 'n5'"

set_clock server -240
sleep "$pace"
said 'the server is 240 s behind'
before=$(sql 'SELECT max(changed_at) FROM internal.batch_ledger')
sleep 10
echo "transactions of agents in 10 s meanwhile: $(sql "SELECT count(*) FROM internal.batch_ledger WHERE changed_at > '$before' AND owner LIKE 'node:n_'")"
set_clock server 0
sleep $((pace + 45))
said 'the server was set right'
rows "'n1', 'n2', 'n3', 'n4', 'n5'"

kill "$server"
wait "$server" 2>/dev/null || true
set_clock n6 600
start_agent n6
sleep "$pace"
# Set while what it spooled has never been measured.
set_clock n6 0
sleep 15
start_server
sleep $((pace + 45))
said 'n6 was 600 s ahead and set right before the server was reached'
rows "'n1', 'n2', 'n3', 'n4', 'n5', 'n6'"
sql "SELECT instance, offset_seconds, round(extract(epoch FROM coalesce(ended_at, clock_timestamp()) - began_at)) || ' s' FROM public.moved_times ORDER BY 1, began_at" | sed 's/^/moved: /'
for node in n1 n2 n3 n4 n5 n6; do
    curl -s -m 5 "http://$(page "$node")/metrics" | sed -n "s/^throughline_spool_entries{source=\"spool\"} /$node: entries that wait: /p"
done
exit "$status"
