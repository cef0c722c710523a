#!/bin/sh
# How long `throughline job` takes on a job of many ranks, against one reading of all its rows by SQL. Seeds a
# database of its own: RANKS ranks (1000) of 5 cells each, of each rank a row a minute for an hour, of each node's ranks a row a
# cell every SECONDS_A_ROW (10), and 6 peers each, a row a minute. Prints medians of 5. Ends with status 2 where a command takes longer than LIMIT_MS (3000).
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
INSERT INTO job (key, scheduler, native_id, step, uid, user_name, command, start_time, end_time, world_size)
SELECT 'slurm:' || j || '.0@1000', 'slurm', j::text, '0', 1000, 'ada', './solve',
       now() - INTERVAL '2 hours', now() - INTERVAL '1 hour', $ranks FROM generate_series(900, 901) j;
INSERT INTO node_key (name) SELECT 'n' || g FROM generate_series(1, 1 + $ranks / 64) g;
INSERT INTO job_rank (job_id, rank, node_id, host, pid, world_size, mpi_library, start_time, end_time, ending)
SELECT j.id, r, 1 + r / 64, 'n' || (1 + r / 64), 1000 + r, $ranks, 'Open MPI v4.1.4', j.start_time, j.end_time, 'clean'
FROM job j, generate_series(0, $ranks - 1) r;
-- As agents fold them: of each node's ranks a row a cell each SECONDS_A_ROW, and all cells of a rank in a row a minute.
CREATE TEMPORARY TABLE cell AS SELECT * FROM (VALUES ('allreduce', 8::bigint), ('allreduce', 8192), ('isend', 65536), ('irecv', 65536),
    ('waitall', 0)) c(operation, size);
INSERT INTO mpi_node_cells (time, job_id, node_id, operation, size_class_bytes, region, algorithm, algorithm_source, epoch, since,
    source, calls, bytes, elapsed_seconds, longest_seconds, ranks, least_rank, least_rank_seconds, most_rank, most_rank_seconds)
SELECT j.start_time + t * INTERVAL '1 second', j.id, n.node_id, c.operation, c.size, '', '', '', j.start_time,
       j.start_time + (t - $seconds) * INTERVAL '1 second', 'pmpi', n.ranks * t * 100, n.ranks * t * 100 * c.size, n.ranks * t * 0.05, 0.01,
       n.ranks, n.least, 0.04, n.most, 0.06
FROM job j, (SELECT job_id, node_id, count(*) AS ranks, min(rank) AS least, max(rank) AS most FROM job_rank GROUP BY 1, 2) n, cell c,
     generate_series($seconds, 3600, $seconds) t WHERE n.job_id = j.id;
INSERT INTO mpi_rank_rows (time, job_id, rank, epoch, source, operations, size_classes_bytes, regions, algorithms, algorithm_sources,
    calls, bytes, elapsed_nanoseconds, longest_nanoseconds, wait_nanoseconds, received_bytes, least_nanoseconds)
SELECT j.start_time + t * INTERVAL '1 minute', j.id, r, j.start_time, 'pmpi', c.operations, c.sizes, c.none, c.none, c.none,
       array_fill(t * 6000::bigint, ARRAY[5]), ARRAY(SELECT t * 6000 * size FROM unnest(c.sizes) WITH ORDINALITY u(size, n) ORDER BY n),
       array_fill(t * 3000000000::bigint, ARRAY[5]), array_fill(10000000::bigint, ARRAY[5]), array_fill(NULL::bigint, ARRAY[5]),
       array_fill(NULL::bigint, ARRAY[5]), array_fill(NULL::bigint, ARRAY[5])
FROM job j, generate_series(0, $ranks - 1) r, generate_series(1, 60) t,
     (SELECT array_agg(operation) AS operations, array_agg(size) AS sizes, array_agg(''::text) AS none FROM cell) c;
INSERT INTO mpi_rank_peers (time, job_id, rank, kind, epoch, source, is_whole, peers, bytes, messages)
SELECT j.start_time + t * INTERVAL '1 minute', j.id, r, 'logical', j.start_time, 'pmpi', true,
       (SELECT array_agg(DISTINCT (r + d + $ranks) % $ranks) FROM unnest(ARRAY[-1, 1, -10, 10, -100, 100]) d),
       array_fill(t * 6553600::bigint, ARRAY[6]), array_fill(t * 100::bigint, ARRAY[6])
FROM job j, generate_series(0, $ranks - 1) r, generate_series(1, 60) t;
ANALYZE mpi_node_cells, mpi_rank_rows, mpi_rank_peers, job_rank;
EOF
$psql -At -c "SELECT 'two jobs of ' || $ranks || ' ranks: ' || (SELECT count(*) FROM mpi_rank_rows) || ' rows of ranks, '
    || (SELECT count(*) FROM mpi_node_cells) || ' of nodes'"

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
    max(calls) AS calls, max(bytes), max(elapsed_seconds) FROM mpi_op_rows WHERE job_id = 1
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
