#!/bin/sh
# A database of an earlier schema under this build, where that build is not at hand: benches/upgrade-schema.sh [VERSION] applies the
# migrations up to VERSION (33), fills the largest tables with ROWS (2000000) rows over a day, and opens it with this build. Prints
# how long the migration took, by row, and ends with 1 where the rows or their sums are others afterwards. benches/upgrade.sh
# does it with a real earlier build. Needs target/debug/throughline, or the program in THROUGHLINE.
set -eu
cd "$(dirname "$0")/.."
throughline=${THROUGHLINE:-target/debug/throughline}
version=${1:-33}
part=$((${ROWS:-2000000} / 4))
. benches/database.sh
socket=$folder/state/db/socket
program=${psql%% *}
sql() {
    "$program" -h "$socket" -U "$1" -d "$2" -q -t -A -v ON_ERROR_STOP=1
}
echo "CREATE DATABASE earlier OWNER throughline" | sql throughline_admin postgres
echo "CREATE EXTENSION timescaledb" | sql throughline_admin earlier 2>/dev/null
{
    echo "SET client_min_messages = error; CREATE TABLE schema_migrations (version integer PRIMARY KEY, name text NOT NULL,
          checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());"
    for file in crates/store/migrations/V*.sql; do
        name=$(basename "$file" .sql)
        number=$(echo "$name" | sed 's/^V0*\([0-9]*\)__.*/\1/')
        [ "$number" -le "$version" ] || continue
        echo "BEGIN;"
        cat "$file"
        echo ";INSERT INTO schema_migrations (version, name, checksum) VALUES ($number, '${name#*__}', '$(md5sum <"$file" | cut -d ' ' -f 1)');
              COMMIT;"
    done
} | sql throughline earlier >/dev/null

echo "== $((part * 4)) rows at schema $version" >&2
sql throughline earlier >/dev/null <<SQL
SET client_min_messages = error;
INSERT INTO subnet (prefix) VALUES ('0xfe80000000000000');
INSERT INTO job (key) SELECT 'slurm:' || n || '.0@1000' FROM generate_series(1, 50) n;
CREATE TEMP TABLE tick AS SELECT date_trunc('hour', now()) - INTERVAL '25 hours' + step * INTERVAL '86400 seconds' / ($part / 500) AS t,
    step, i FROM generate_series(0, $part / 500 - 1) step, generate_series(1, 500) i;
INSERT INTO ib_port_counters (time, port_id, epoch, source, transmit_data_bytes, receive_data_bytes, transmit_packets, receive_packets,
    transmit_wait) SELECT t, i, now() - INTERVAL '3 days', 'mad', step * 1000003 + i, step * 999983 + i, step * 733, step * 727, step
    FROM tick;
INSERT INTO nvlink_counters (time, gpu_id, epoch, source, transmit_bytes, receive_bytes)
    SELECT t, i, now() - INTERVAL '3 days', 'nvml', array_fill(step * 4099 + i, ARRAY[6]), array_fill(step * 4093 + i, ARRAY[6]) FROM tick;
INSERT INTO mpi_ops (time, job_id, rank, operation, size_class_bytes, region, epoch, source, calls, bytes, elapsed_seconds)
    SELECT t, 1 + i / 10, i, 'allreduce', 1024, '', now() - INTERVAL '3 days', 'pmpi', step, step * 1024, step * 0.001 FROM tick;
INSERT INTO mpi_peers (time, job_id, rank, peer, kind, epoch, source, bytes, messages)
    SELECT t, 1 + i / 10, i, i * 7 % 500, 'logical', now() - INTERVAL '3 days', 'pmpi', step * 4096, step FROM tick;
SQL
sums() {
    sql throughline earlier <<'SQL'
SELECT 'ib_port_counters', count(*), sum(transmit_data_bytes), sum(transmit_wait) FROM ib_port_counters;
SELECT 'nvlink_counters', count(*), sum(transmit_bytes[1]), sum(receive_bytes[6]) FROM nvlink_counters;
SELECT 'mpi_ops', count(*), sum(calls), sum(bytes) FROM mpi_ops;
SELECT 'mpi_peers', count(*), sum(messages), sum(bytes) FROM mpi_peers;
SQL
}
before=$(sums)
url="host=$socket user=throughline dbname=earlier"
now() { date +%s%N; }
from=$(now)
"$throughline" db init --database-url "$url" >/dev/null
middle=$(now)
"$throughline" db init --database-url "$url" >/dev/null
to=$(now)
after=$(sums)
echo "$after"
reached=$(echo "SELECT max(version) FROM schema_migrations" | sql throughline earlier)
took=$(((middle - from) / 1000000)) again=$(((to - middle) / 1000000))
echo "schema $version to $reached, $((part * 4)) rows: $took ms, and $again ms where nothing is to do:" \
    "$(((took - again) * 1000000 / (part * 4))) ns a row"
[ "$before" = "$after" ] || { echo "rows or sums differ; before: $before" >&2; exit 1; }
