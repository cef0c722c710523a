#!/bin/sh
# The database's clock lies and nothing is dropped: PostgreSQL and `throughline serve` under Debian's faketime with one offset file, which is
# changed while they run; three senders keep true time. Their monotonic clock stays true, else it would lie along and nothing were tested.
#   benches/clock.sh [SECONDS]     a lie that lasts for a day is held for SECONDS (150); FROM=target/debug takes other programs
# `serve` takes LD_* out of the environment of the private database's programs. So this starts PostgreSQL by itself (pg_ctl under faketime)
# on the folder that `throughline db init` made, and gives it to `serve` as an operated one. On the full edition (THROUGHLINE_PG_BIN) the
# database's job is run by CALL run_job: workers see the real clock.
# The boot after a week off needs root: a mount namespace in which the machine's boot id is another.
# Prints for each lie what status, /healthz, the metric and the alert's query said, and rows before and after. Exits 2 if a row is gone.
set -eu
cd "$(dirname "$0")/.."
day=${1:-150} from=${FROM:-target/release}
throughline=$PWD/$from/throughline
library=${FAKETIME_LIBRARY:-/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketimeMT.so.1}
[ -e "$library" ] || { echo "no $library: apt-get install faketime, or name it in FAKETIME_LIBRARY" >&2; exit 69; }
folder=$(mktemp -d)
chmod 755 "$folder"
offset=$folder/offset
serve='' senders='' data=$folder/state/db/data
# shellcheck disable=SC2317 # by the trap
finish() {
    for pid in $senders $serve; do stop "$pid"; done
    as "$bin/pg_ctl" stop -m fast -D "$data" >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap finish EXIT

"$throughline" db init --state-dir "$folder/state" >/dev/null
owner=$(stat -c %U "$folder/state/db")
as() { if [ "$(id -u)" = 0 ]; then runuser -u "$owner" -- "$@"; else "$@"; fi; }
faked() {
    as env LD_PRELOAD="$library" FAKETIME_TIMESTAMP_FILE="$offset" FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 "$@"
}
bin=$("$throughline" db status --json --state-dir "$folder/state" | sed -n 's/.*"programs":"\([^"]*\)".*/\1/p')
socket=$folder/state/db/socket
# Written in place: the programs have the file open by its name.
lie() { echo "$1" >"$offset"; }
lie +0
chmod 644 "$offset"
sql() { as "$bin/psql" -qtA -h "$socket" -U throughline throughline -c "SET search_path = ''" -c "$1"; }

start_database() { faked "$bin/pg_ctl" start -s -w -D "$data" -l "$folder/state/db/postgres.log"; }
# Arguments: a command before it.
start_serve() {
    : >"$folder/out"
    env LD_PRELOAD="$library" FAKETIME_TIMESTAMP_FILE="$offset" FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 \
        THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 THROUGHLINE__UPKEEP__INTERVAL_SECONDS=10 \
        "$@" "$throughline" serve --state-dir "$folder/serve" --database-url "host=$socket user=throughline dbname=throughline" \
        >"$folder/out" 2>>"$folder/serve.log" &
    serve=$!
    tries=0
    while [ -z "$(address)" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || { cat "$folder/serve.log" >&2; exit 1; }
        sleep 0.1
    done
}
address() { sed -n 's/^listening query=//p' "$folder/out"; }
# Three senders whose clocks are $1 seconds ahead of the true time, as the collector notes them.
report() {
    while :; do
        at=$(date +%s.%N)
        sql "INSERT INTO internal.sender_clock (sender_id, measured_at, sender_time, offset_seconds, round_trip_seconds)
             SELECT 'node:n' || n, clock_timestamp(), to_timestamp($at + $1), extract(epoch FROM to_timestamp($at + $1) - clock_timestamp()), 0.001
             FROM generate_series(1, 3) n ON CONFLICT (sender_id) DO UPDATE SET measured_at = excluded.measured_at,
                 sender_time = excluded.sender_time, offset_seconds = excluded.offset_seconds" || true
        sleep 2
    done
}
start_senders() {
    report "$1" >/dev/null 2>&1 &
    senders=$!
}
stop() {
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}
stop_senders() {
    stop "$senders"
    senders=''
}
state() { sql 'SELECT state FROM internal.clock_check'; }
await() {
    tries=0
    until [ "$(state)" = "$1" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 400 ] || { echo "the clock is $(state), not $1" >&2; cat "$folder/serve.log" >&2; exit 1; }
        sleep 1
    done
}
# The database's job, where there is one: upkeep does it otherwise.
job() { sql "SELECT format('CALL public.run_job(%s)', job_id) FROM timescaledb_information.jobs WHERE proc_name = 'expire'" | while read -r call; do sql "$call"; done; }
rows() {
    sql "SELECT (SELECT count(*) FROM internal.events WHERE kind = 'k') || ' events, ' || (SELECT count(*) FROM internal.ib_port_minutes) || ' minutes, '
         || (SELECT count(*) FROM internal.ib_port_counters) || ' readings, ' || (SELECT count(*) FROM internal.mpi_cell_key) || ' names'"
}
said() {
    echo "    status:  $("$throughline" status --server "http://$(address)" 2>&1 | sed '/^http/,$d' | tr -s ' \n' ' ')"
    echo "    healthz: $(curl -s -m 5 "http://$(address)/healthz" | tr '\n' ' ' | cut -c1-400)"
    echo "    metric:  $(curl -s -m 5 "http://$(address)/metrics" | grep '^throughline_expiry_stopped' || true)"
    echo "    alert:   value $(sql "SELECT (c.state IN ('unreported', 'unconfirmed', 'outvoted', 'jumped'))::int FROM internal.clock_check c") (fires above 0 for 2 minutes)"
}
status=0
check() {
    after=$(rows)
    if [ "$after" = "$before" ]; then echo "    rows:    $after, as before"; else echo "    rows:    $after, before: $before"; status=2; fi
}
# $1: the lie, $2: for how many seconds.
tell() {
    echo "$1 for $2 s:"
    lie "$1"
    sleep "$2"
    job
    said
    check
    lie +0
    await trusted
    job
    sleep 12
    echo "  back:"
    said
    check
}

start_database
start_serve
start_senders 0
sql "INSERT INTO internal.events (time, instance, source, kind, severity, text)
     SELECT now() - make_interval(hours => age), 'n', 's', 'k', 'info', age::text FROM unnest(ARRAY[1, 24, 140, 720]) age;
     INSERT INTO internal.ib_port_minutes (time, port_id, epoch, seconds) SELECT date_trunc('minute', now()) - make_interval(days => age), 1, now(), 60
     FROM unnest(ARRAY[1, 6, 30, 300]) age;
     INSERT INTO internal.ib_port_counters (time, port_id, epoch, source) SELECT now() - make_interval(secs => age), 1, now() - INTERVAL '1 day', 'mad'
     FROM generate_series(10, 3600, 10) age;
     INSERT INTO internal.mpi_cell_key (operation, size_class_bytes, region, algorithm, algorithm_source) VALUES ('send', 8, '', '', '')"
await trusted
job
sleep 15
before=$(rows)
echo "a clock that is right: $before (an event of 30 days ago has expired)"
said
tell +8d 10
tell +400d 10
tell +8d "$day"
tell +400d "$day"
tell -1h 15
tell -4m 15

stop_senders
echo "nobody reports for 200 s:"
sleep 200
job
said
check
start_senders 0
await trusted
said

if [ "$(id -u)" = 0 ]; then
    stop "$serve"
    stop_senders
    as "$bin/pg_ctl" stop -s -m fast -D "$data"
    # A week later, also for the senders.
    lie +7d
    start_database
    cat /proc/sys/kernel/random/uuid >"$folder/boot_id"
    # shellcheck disable=SC2016 # by the inner shell
    start_serve unshare -m sh -c 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"' "$folder/boot_id"
    echo "a boot after a week off:"
    sleep 10
    said
    # Not before the senders confirm the clock.
    check
    start_senders 604800
    await trusted
    sleep 15
    said
    echo "    rows:    $(rows): what is older than a week has expired"
fi
exit "$status"
