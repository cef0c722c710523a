#!/bin/sh
# How long `throughline job` takes on a job of many ranks, against one reading of all its rows by SQL. Seeds a
# database of its own: RANKS ranks (1000), 5 cells each, a row every SECONDS (10) for an hour, and 6 peers each, a row
# a minute. Prints medians of 5. Ends with status 2 where a command takes longer than LIMIT_MS (3000).
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
INSERT INTO mpi_ops (time, job_id, rank, operation, size_class_bytes, epoch, source, calls, bytes, elapsed_seconds,
                     longest_seconds)
SELECT j.start_time + t * INTERVAL '1 second', j.id, r, c.operation, c.size, j.start_time, 'pmpi', t * 100,
       t * 100 * c.size, t * 0.05, 0.01
FROM job j, generate_series(0, $ranks - 1) r, generate_series($seconds, 3600, $seconds) t,
     (VALUES ('allreduce', 8::bigint), ('allreduce', 8192), ('isend', 65536), ('irecv', 65536), ('waitall', 0))
         c(operation, size);
INSERT INTO mpi_rank_peers (time, job_id, rank, kind, epoch, source, is_whole, peers, bytes, messages)
SELECT j.start_time + t * INTERVAL '1 minute', j.id, r, 'logical', j.start_time, 'pmpi', true,
       (SELECT array_agg(DISTINCT (r + d + $ranks) % $ranks) FROM unnest(ARRAY[-1, 1, -10, 10, -100, 100]) d),
       array_fill(t * 6553600::bigint, ARRAY[6]), array_fill(t * 100::bigint, ARRAY[6])
FROM job j, generate_series(0, $ranks - 1) r, generate_series(1, 60) t;
ANALYZE mpi_ops, mpi_rank_peers, job_rank;
EOF
$psql -At -c "SELECT 'two jobs of ' || $ranks || ' ranks: ' || count(*) || ' rows of operations' FROM mpi_ops"

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
    max(calls) AS calls, max(bytes), max(elapsed_seconds) FROM mpi_ops WHERE job_id = 1
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
