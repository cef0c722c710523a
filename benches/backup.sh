#!/bin/sh
# Backups of a database while a site sends to it and upkeep drops, packs and thins: each is restored into another folder and compared with
# its manifest, row by row; beside it the time and size of plain pg_dump of the same database.
#   benches/backup.sh [ROUNDS] [HOURS]     five of a database with 72 hours before now; THROUGHLINE_PG_BIN for the full edition
# FROM=target/debug takes other programs than the release build's; SCALE is of benches/site.sh. Ends with 2 unless all are equal.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5} hours=${2:-72} from=${FROM:-target/release}
throughline=$PWD/$from/throughline
folder=$(mktemp -d)
chmod 755 "$folder"
site='' drops=''
# shellcheck disable=SC2317 # by the trap
finish() {
    [ -z "$drops" ] || kill "$drops" 2>/dev/null || true
    [ -z "$site" ] || { kill -- "-$site" 2>/dev/null && wait "$site" 2>/dev/null; } || true
    for state in "$folder"/.tmp*/state "$folder"/restored; do "$throughline" db stop --state-dir "$state" >/dev/null 2>&1 || true; done
    rm -rf "$folder"
}
trap finish EXIT

# Retention is short, so that each round has something to do.
export THROUGHLINE__RETENTION__DEFAULT_SECONDS=$((hours * 1800)) THROUGHLINE__RETENTION__ROWS_SECONDS=5400 THROUGHLINE__UPKEEP__INTERVAL_SECONDS=10
# With its server in a group of its own, so that both end.
TMPDIR=$folder setsid "$from/bench-site" A --scale "${SCALE:-100}" --seconds 86400 --throughline "$throughline" >"$folder/site.log" 2>&1 &
site=$!
tries=0
until state=$(ls -d "$folder"/.tmp*/state 2>/dev/null) && "$throughline" db status --state-dir "$state" >/dev/null 2>&1 && grep -q 'rows/s' "$folder/site.log"; do
    tries=$((tries + 1))
    [ "$tries" -lt 120 ] || { cat "$folder/site.log" >&2; exit 1; }
    sleep 1
done
socket=$state/db/socket
bin=$(dirname "$("$throughline" db status --json --state-dir "$state" 2>/dev/null | sed -n 's/.*"psql":"\([^ "]*\) .*/\1/p')")
sql() { "$bin/psql" -X -q -At -h "$socket" -U throughline throughline -c "$1"; }

# What sweeps and rounds of the last days left: readings that are packed and dropped from now on, and rows that are thinned and dropped.
seed() {
    sql "INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes, receive_data_bytes)
         SELECT date_bin('10 s', now(), 'epoch') - t * INTERVAL '10 s', p, 'epoch', 'mad', (100000000 - t) * p * 1000, (100000000 - t) * p * 999
         FROM generate_series(0, $hours * 360) t, (SELECT id AS p FROM internal.ib_port_key ORDER BY id LIMIT 60) p ON CONFLICT DO NOTHING;
         INSERT INTO internal.coverage (time, instance, source, expected, read, failed, elapsed_seconds)
         SELECT date_bin('10 s', now(), 'epoch') - t * INTERVAL '10 s', 'node' || n, 's', 1, 1, 0, 0.1 FROM generate_series(360, $hours * 360) t,
         generate_series(1, 20) n ON CONFLICT DO NOTHING"
}
seed
# The driver's senders do not measure their clocks, and without witnesses upkeep would drop nothing: vouched for here, each second.
while sleep 1; do
    sql "UPDATE internal.clock_check SET state = 'trusted', trusted_at = now(), permitted_until = now() + INTERVAL '1 minute', estimate = now()"
    sql 'CALL internal.expire()'
done >/dev/null 2>&1 &
drops=$!
echo "database: $(sql "SELECT pg_size_pretty(pg_database_size(current_database())) || ', ' || (SELECT count(*) FROM timescaledb_information.chunks) || ' chunks, TimescaleDB ' || (SELECT extversion FROM pg_extension WHERE extname = 'timescaledb') || ', PostgreSQL ' || split_part(version(), ' ', 2)")"
dropped() { sql "SELECT sum(dropped_chunks) FROM internal.retention_policy"; }
seconds() { date +%s.%N; }
took() { echo "$1 $2" | awk '{ printf "%.1f", $2 - $1 }'; }

equal=0
for round in $(seq "$rounds"); do
    seed
    before=$(dropped) chunks=$(sql 'SELECT count(*) FROM timescaledb_information.chunks')
    begin=$(seconds)
    "$throughline" db backup "$folder/backup" --json --state-dir "$state" >"$folder/backup.json" 2>"$folder/backup.log" || { cat "$folder/backup.log" >&2; rm -rf "$folder/backup"; continue; }
    middle=$(seconds)
    while_dumped=$(($(dropped) - before))
    "$throughline" db restore "$folder/backup" --state-dir "$folder/restored" >/dev/null 2>"$folder/restore.log" || cat "$folder/restore.log" >&2
    end=$(seconds)
    if "$throughline" db verify "$folder/backup" --state-dir "$folder/restored" >"$folder/verify.txt" 2>&1; then result=equal equal=$((equal + 1)); else result=DIFFERENT; fi
    last=$(seconds)
    plain=$(seconds)
    # As its user: the folder is the database's.
    rm -rf "$folder/plain" && mkdir -m 777 "$folder/plain"
    "$bin/pg_dump" -h "$socket" -U throughline_admin -Fd -Z1 -f "$folder/plain/dump" throughline 2>"$folder/plain.log" && of_plain=$(took "$plain" "$(seconds)") || of_plain='failed'
    rows=$(sed -n 's/.*"rows":\([0-9]*\).*/\1/p' "$folder/backup.json") bytes=$(sed -n 's/.*"dump_bytes":\([0-9]*\).*/\1/p' "$folder/backup.json")
    echo "round $round: $result; $rows rows, $((bytes / 1048576)) MB; $chunks chunks, $while_dumped dropped meanwhile; backup $(took "$begin" "$middle") s, restore $(took "$middle" "$end") s, verify $(took "$end" "$last") s; plain pg_dump $of_plain s, $(du -sm "$folder/plain" | cut -f1) MB"
    [ "$result" = equal ] || tail -20 "$folder/verify.txt"
    rm -rf "$folder/backup" "$folder/restored" "$folder/plain"
    # Upkeep has its turn.
    sleep 30
    echo "    chunks dropped since: $(($(dropped) - before))"
done
echo "$equal of $rounds equal"
[ "$equal" = "$rounds" ] || exit 2
