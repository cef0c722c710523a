#!/bin/sh
# Two `throughline serve` on one database that goes away: both have to be well a minute after it is back, whichever does upkeep.
#   benches/outage.sh [SECONDS] [ROUNDS]      360 s, three times; FROM=target/debug takes other programs than the release build's
# Prints for each round what /healthz of each server said while the database was away and a minute after, and who did upkeep.
# Exits 2 if a server was not well.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-360} rounds=${2:-3} from=${FROM:-target/release}
throughline=$from/throughline
folder=$(mktemp -d)
chmod 755 "$folder"
servers=
# shellcheck disable=SC2317 # by the trap
finish() {
    for pid in $servers; do kill "$pid" 2>/dev/null || true; done
    for pid in $servers; do wait "$pid" 2>/dev/null || true; done
    "$throughline" db stop --state-dir "$folder/state" >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap finish EXIT

database() { "$throughline" db "$1" --state-dir "$folder/state" >>"$folder/db.log" 2>&1 || { cat "$folder/db.log" >&2; exit 1; }; }
database init
database start
socket=$("$throughline" db status --json --state-dir "$folder/state" | sed -n 's/.*"psql":"[^"]*-h \([^ "]*\) .*/\1/p')
# As an operated one: neither of them starts or stops it.
for server in 1 2; do
    THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 \
        "$throughline" serve --state-dir "$folder/$server" --database-url "host=$socket user=throughline dbname=throughline" >"$folder/$server.out" 2>"$folder/$server.log" &
    servers="$servers $!"
done
address() { sed -n 's/^listening query=//p' "$folder/$1.out"; }
for server in 1 2; do
    tries=0
    while [ -z "$(address "$server")" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || { cat "$folder/$server.log" >&2; exit 1; }
        sleep 0.1
    done
done
health() { curl -s -m 5 "http://$(address "$1")/healthz" | tr '\n' ' ' | cut -c1-120; }
# Who measures the database does upkeep.
works() { curl -s -m 5 "http://$(address "$1")/metrics" | grep -q '^throughline_database_bytes{'; }

sleep 20
status=0
for round in $(seq "$rounds"); do
    database stop
    sleep "$seconds"
    for server in 1 2; do echo "round $round, after $seconds s without the database: server $server: $(health "$server")"; done
    database start
    sleep 60
    for server in 1 2; do
        state=$(health "$server")
        role='stands by'
        works "$server" && role='does upkeep'
        echo "round $round, a minute after it is back: server $server $role: $state"
        case $state in ok*) ;; *) status=2 ;; esac
    done
done
exit "$status"
