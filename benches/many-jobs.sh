#!/bin/sh
# The database's processor time for `status` and for lists of jobs at JOBS (36,500) jobs of a year, each of 64 ranks on two nodes, one in 900
# of them running: the median, least and most of RUNS (11) answers, none of them from the server's memory. Ends with status 2 where `status` or the
# list of running jobs is above GOAL (100) milliseconds. Two minutes.
#   benches/many-jobs.sh
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d' && exit 0 ;; esac
jobs=${JOBS:-36500} runs=${RUNS:-11} goal=${GOAL:-100}
program=${THROUGHLINE:-target/release/throughline}
all=$(mktemp -d) server=''
chmod 755 "$all"
# shellcheck disable=SC2317 # the trap calls it
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    "$program" db stop --state-dir "$all/state" >/dev/null 2>&1 || true
    rm -rf "$all"
}
trap finish EXIT
trap 'exit 1' INT TERM
. benches/wait.sh

THROUGHLINE__UPKEEP__ENABLED=false THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 \
    "$program" serve --state-dir "$all/state" >"$all/out" 2>"$all/log" &
server=$!
address=$(word_after listening\ query= "$all/out")
psql=$("$program" db status --state-dir "$all/state" 2>/dev/null | sed -n 's/^psql *//p' | sed 's/-U throughline_read/-U throughline/')
echo "filling: $jobs jobs"
$psql -q -v ON_ERROR_STOP=1 <<SQL
INSERT INTO internal.node_key (name) SELECT 'n' || i FROM generate_series(1, 64) i;
INSERT INTO internal.run (key, scheduler, native_id, uid, user_name, command, start_time, end_time, world_size, first_seen)
SELECT 'slurm:' || i || '@1000', 'slurm', i, 1000, 'u' || i % 50, 'a.out', now() - i * interval '15 min' - interval '3 hours',
       CASE WHEN i % 900 <> 1 THEN now() - i * interval '15 min' END, 64, now() - i * interval '15 min' - interval '3 hours'
FROM generate_series(1, $jobs) i;
INSERT INTO internal.run_claim (job_id, node_id, start_time, end_time, world_size, first_seen, last_seen, reported_at, has_ranks, judge_after, was_judged)
SELECT r.id, n, r.start_time, r.end_time, 64, r.first_seen, coalesce(r.end_time, now()), coalesce(r.end_time, now()), true, NULL, true
FROM internal.run r, generate_series(1, 2) n;
INSERT INTO internal.rank_claim (job_id, rank, node_id, host, pid, world_size, mpi_library, start_time, end_time, ending, cpus)
SELECT r.id, k, 1 + k / 32, 'n' || 1 + k / 32, 1000 + k, 64, 'Open MPI 4.1.4', r.start_time, r.end_time,
       CASE WHEN r.end_time IS NOT NULL THEN 'finalized' END, '0-3' FROM internal.run r, generate_series(0, 63) k;
ANALYZE internal.node_key, internal.run, internal.run_claim, internal.rank_claim;
SQL
postmaster=$(head -n 1 "$all/state/db/data/postmaster.pid")
# Milliseconds of processors of all processes of the database.
processors() {
    pgrep -P "$postmaster" | while read -r process; do cat "/proc/$process/schedstat" 2>/dev/null || true; done \
        | awk '{ sum += $1 } END { printf "%.1f\n", sum / 1e6 }'
}
status=0
printf '%-40s %8s %8s %8s\n' 'request, ms of processors' median least most
for request in status 'jobs?state=live' 'jobs?state=ended&limit=50'; do
    : >"$all/times"
    for run in $(seq 0 "$runs"); do
        # An answer is kept for a second.
        sleep 1.5
        before=$(processors)
        curl -sf -o "$all/answer" "http://$address/api/v1/$request"
        [ "$run" = 0 ] || echo "$before $(processors)" | awk '{ printf "%.1f\n", $2 - $1 }' >>"$all/times"
    done
    sort -n -o "$all/times" "$all/times"
    median=$(sed -n "$(((runs + 1) / 2))p" "$all/times")
    printf '%-40s %8s %8s %8s\n' "$request" "$median" "$(head -n 1 "$all/times")" "$(tail -n 1 "$all/times")"
    case $request in *ended*) continue ;; esac
    awk "BEGIN { exit !($median <= $goal) }" || { echo "  above $goal ms: MISSED" && status=2; }
done
exit "$status"
