#!/bin/sh
# How long `throughline job` takes on a job of many ranks, against one reading of all its rows by SQL. Seeds a
# database of its own: RANKS ranks (1000) of 5 cells each, of each rank a row a minute for an hour, of each node's ranks a row
# every SECONDS_A_ROW (10), and 6 peers each, a row a minute. Prints medians of 5. Ends with status 2 where a command takes longer than LIMIT_MS (3000).
set -eu
cd "$(dirname "$0")/.."
ranks=${RANKS:-1000} seconds=${SECONDS_A_ROW:-10} limit=${LIMIT_MS:-3000}
throughline=${THROUGHLINE:-target/release/throughline}

folder=$(mktemp -d)
serve=
# shellcheck disable=SC2317 # the trap calls it
finish() {
    if kill "$serve" 2>/dev/null; then wait "$serve" || :; fi
    "$throughline" db stop --state-dir "$folder" >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap finish EXIT INT TERM
# The database's user must reach its folder.
chmod 755 "$folder"
"$throughline" db start --state-dir "$folder" >/dev/null
psql=$("$throughline" db status --state-dir "$folder" | sed -n 's/^psql *//p' | sed 's/-U throughline_read/-U throughline/')

$psql -q -v ON_ERROR_STOP=1 <<EOF
INSERT INTO internal.run (key, scheduler, native_id, step, uid, user_name, command, start_time, end_time, world_size)
SELECT 'slurm:' || j || '.0@1000', 'slurm', j::text, '0', 1000, 'ada', './solve',
       now() - INTERVAL '2 hours', now() - INTERVAL '1 hour', $ranks FROM generate_series(900, 901) j;
INSERT INTO internal.node_key (name) SELECT 'n' || g FROM generate_series(1, 1 + $ranks / 64) g;
INSERT INTO internal.job_rank (job_id, rank, node_id, host, pid, world_size, mpi_library, start_time, end_time, ending)
SELECT j.id, r, 1 + r / 64, 'n' || (1 + r / 64), 1000 + r, $ranks, 'Open MPI v4.1.4', j.start_time, j.end_time, 'clean'
FROM internal.run j, generate_series(0, $ranks - 1) r;
-- As agents fold them: of each node's ranks a row each SECONDS_A_ROW, and of a rank a row a minute.
$(cat crates/store/src/testing/packed_cells.sql)
INSERT INTO internal.mpi_cell_key (operation, size_class_bytes, region, algorithm, algorithm_source)
SELECT operation, size, '', '', '' FROM (VALUES ('allreduce', 8::bigint), ('allreduce', 8192), ('isend', 65536), ('irecv', 65536),
    ('waitall', 0)) c(operation, size);
CREATE TEMPORARY TABLE sums AS
SELECT n.ranks, t, pg_temp.packed_cells(array_agg(c.id::integer), array_agg(n.ranks * t * 100), array_agg(n.ranks * t * 100 * c.size_class_bytes),
                                        array_agg(n.ranks * t * 50000000)) AS cells
FROM (SELECT DISTINCT count(*) AS ranks FROM internal.job_rank GROUP BY job_id, node_id UNION SELECT 1) n, generate_series(1, 3600) t, internal.mpi_cell_key c
WHERE t % least($seconds, 60) = 0 GROUP BY 1, 2;
INSERT INTO internal.mpi_node_rows (time, job_id, node_id, epoch, since, source, is_whole, cells, rounds)
SELECT j.start_time + t * INTERVAL '1 second', j.id, n.node_id, j.start_time, j.start_time + (t - $seconds) * INTERVAL '1 second', 'pmpi',
       true, s.cells, pg_temp.packed_rounds(5, n.ranks, n.least, 40000000, n.most, 60000000)
FROM internal.run j, (SELECT job_id, node_id, count(*) AS ranks, min(rank) AS least, max(rank) AS most FROM internal.job_rank GROUP BY 1, 2) n, sums s
WHERE n.job_id = j.id AND s.ranks = n.ranks AND s.t % $seconds = 0;
INSERT INTO internal.mpi_rank_rows (time, job_id, rank, node_id, epoch, source, is_folded, cells)
SELECT j.start_time + s.t * INTERVAL '1 second', j.id, r, 1 + r / 64, j.start_time, 'pmpi', true, s.cells
FROM internal.run j, generate_series(0, $ranks - 1) r, sums s WHERE s.ranks = 1 AND s.t % 60 = 0;
INSERT INTO internal.mpi_rank_peers (time, job_id, rank, node_id, kind, epoch, source, is_whole, peers, bytes, messages)
SELECT j.start_time + t * INTERVAL '1 minute', j.id, r, 1 + r / 64, 'logical', j.start_time, 'pmpi', true,
       (SELECT array_agg(DISTINCT (r + d + $ranks) % $ranks) FROM unnest(ARRAY[-1, 1, -10, 10, -100, 100]) d),
       array_fill(t * 6553600::bigint, ARRAY[6]), array_fill(t * 100::bigint, ARRAY[6])
FROM internal.run j, generate_series(0, $ranks - 1) r, generate_series(1, 60) t;
ANALYZE internal.mpi_node_rows, internal.mpi_rank_rows, internal.mpi_rank_peers, internal.job_rank;
EOF
$psql -At -c "SELECT 'two jobs of ' || $ranks || ' ranks: ' || (SELECT count(*) FROM internal.mpi_rank_rows) || ' rows of ranks, '
    || (SELECT count(*) FROM internal.mpi_node_rows) || ' of nodes'"

THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 \
    "$throughline" serve --state-dir "$folder" >"$folder/serve.out" 2>"$folder/serve.log" &
serve=$!
until grep -q '^listening query=' "$folder/serve.out"; do
    kill -0 "$serve" || { cat "$folder/serve.log" >&2 && exit 1; }
    sleep 0.2
done
THROUGHLINE_SERVER=http://$(sed -n 's/^listening query=//p' "$folder/serve.out")
export THROUGHLINE_SERVER

# Milliseconds of a command, median of 5.
median() {
    for _ in 1 2 3 4 5; do
        begin=$(date +%s%N)
        "$@" >/dev/null
        echo $((($(date +%s%N) - begin) / 1000000))
    done | sort -n | sed -n 3p
}

all_rows="SELECT operation, size_class_bytes, sum(calls) FROM (SELECT rank, operation, size_class_bytes, epoch,
    max(calls) AS calls, max(bytes), max(elapsed_seconds) FROM internal.mpi_op_rows WHERE job_id = 1
    GROUP BY rank, operation, size_class_bytes, epoch) c GROUP BY 1, 2"
# shellcheck disable=SC2086 # a command is several words
reading=$(median $psql -q -c "$all_rows")
echo "reading all rows of one job by SQL: $reading ms"
status=0
for command in "list" "show 900" "matrix 900" "matrix 900 --by node" "diff 900 901" "top --once"; do
    # shellcheck disable=SC2086 # a command is several words
    took=$(median "$throughline" job $command)
    echo "throughline job $command: $took ms"
    [ "$took" -le "$limit" ] || status=2
done
exit "$status"
