#!/bin/sh
# A release beside the next one: benches/compatibility.sh [TAG]
#   with a tag    the older one is that release, the newer one this commit
#   without       the older one is this commit, the newer one this commit with one more step of the schema and one more field of the
#                 protocol, which its agents and crawlers set: for the time before the first tag
# Checks what docs/COMPATIBILITY.md promises, a line each:
#   1. a database that the older demo filled is opened by the newer server with all of it: sums in SQL, and `job show` of each job
#   2. the older server refuses that database, and says so
#   3. an older agent delivers to the newer server, a newer agent to an older one, with ranks under the other one's shim: rows
#      arrive, no record is rejected and no batch set aside
# Builds both below target/compatibility (two demo builds the first time). Needs what `make demo` needs, python3 and curl. Ends with 2
# where a check fails, with 1 where it can't be made.
# shellcheck disable=SC2015,SC2317 # a process may be gone; functions are called by name
set -eu
cd "$(dirname "$0")/.."
tag=${1:-} place=$PWD/target/compatibility
mkdir -p "$place"
folder=$(mktemp -d) pids='' failed=0
# The database's user must reach its folder.
chmod 755 "$folder"
finish() {
    for pid in $pids; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
    for state in "$folder/demo/server" "$folder/fresh"; do
        [ ! -d "$state" ] || "$place/newer/bin/throughline" db stop --state-dir "$state" >/dev/null 2>&1 || true
    done
    rm -rf "$folder"
    for name in older newer; do git worktree remove --force "$place/$name/tree" 2>/dev/null || true; done
}
trap finish EXIT
trap 'exit 130' INT TERM

# build NAME: programs of the tree in $place/NAME, to $place/NAME/bin. Dependencies are compiled once for both.
build() {
    echo "== building the $1 one" >&2
    (
        cd "$place/$1/tree"
        export CARGO_TARGET_DIR="$place/build"
        cargo build --quiet --profile demo --bins --package throughline-cli --package throughline-agent --package throughline-fabric \
            --package throughline-demo
        make --no-print-directory --silent preloads testdouble BIN=../../build/demo OUT=../../build/demo/lib/throughline
    ) >&2
    rm -rf "${place:?}/$1/bin"
    mkdir "$place/$1/bin"
    for program in throughline throughline-agent throughline-fabric throughline-demo throughline-exec; do
        cp "$place/build/demo/$program" "$place/$1/bin"
    done
    cp -R "$place/build/demo/lib" "$place/$1/bin"
}

# A release that is to come, in the newer tree.
change() {
    cd "$place/newer/tree"
    echo 'ALTER TABLE job ADD COLUMN later text;' >crates/store/migrations/V002__later.sql
    sed -i 's|^}\];$|}, Migration { version: 2, name: "later", sql: include_str!("../migrations/V002__later.sql") }];|' crates/store/src/migrate.rs
    sed -i 's|^  optional int64 clock_error_nanoseconds = 5;$|&\n  optional string later = 6;|' crates/sample/proto/throughline.proto
    sed -i 's|^ *batch.clock_error_nanoseconds = .*|&\nbatch.later = Some("of a later version".to_owned());|' \
        crates/agent/src/batcher.rs crates/crawler/src/run/sender.rs
    [ "$(git status --porcelain | wc -l)" = 5 ] || { echo "compatibility: the later version can't be made: mend change() in $0" >&2; exit 1; }
    cd "$OLDPWD"
}

git worktree prune
for name in older newer; do
    rm -rf "$place/$name/tree"
    mkdir -p "$place/$name"
done
git worktree add --quiet --force --detach "$place/older/tree" "${tag:-HEAD}"
git worktree add --quiet --force --detach "$place/newer/tree" HEAD
[ -n "$tag" ] || change
build older
build newer
older=$place/older/bin newer=$place/newer/bin

# check TEXT COMMAND...: says whether the command holds.
check() {
    text=$1
    shift
    if "$@"; then echo "ok      $text"; else
        echo "FAILED  $text"
        failed=2
    fi
}

# until SECONDS COMMAND...: waits for the command to hold.
until_() {
    left=$1
    shift
    until "$@"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 1
    done
}

# serve PROGRAMS STATE: begins a server; sets server, its process, query, collect and sql.
listens() { query=$(sed -n 's/^listening query=//p' "$folder/listening") && [ -n "$query" ]; }
serve() {
    : >"$folder/listening"
    THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__UPKEEP__ENABLED=false \
        "$1/throughline" serve --log-level warn --state-dir "$2" >"$folder/listening" 2>>"$folder/serve.log" &
    server=$! pids="$pids $!"
    until_ 180 listens || { tail -20 "$folder/serve.log" >&2; exit 1; }
    collect=$(sed -n 's/^listening collect=\(unix:.*\)/\1/p' "$folder/listening")
    sql=$("$1/throughline" db status --state-dir "$2" | sed -n 's/^psql *//p' | sed 's/-U throughline_read/-U throughline/')
}
stop() { kill "$1" && wait "$1" || true; }

# answers PROGRAMS NAME: what the running server says, to files.
answers() {
    mkdir "$folder/$2"
    $sql -qtA -c "SELECT key FROM job ORDER BY id" >"$folder/keys"
    while read -r job; do
        "$1/throughline" job show "$job" --server "http://$query" --json >"$folder/$2/$(printf %s "$job" | tr -c 'A-Za-z0-9\n' _)"
    done <"$folder/keys"
    $sql -qtA -c "SELECT (SELECT sum(transmit_data_bytes) FROM internal.ib_port_counters), (SELECT sum(port_data_transmitted_bytes) FROM
        internal.host_port_counters), (SELECT count(*) FROM internal.nvlink_counters), (SELECT sum(bytes) FROM public.mpi_op_totals), (SELECT sum(bytes) FROM
        public.mpi_peer_totals), (SELECT count(*) FROM internal.ib_node), (SELECT count(*) FROM internal.job_rank)" >"$folder/sums.$2"
}
# What the first folder's answers have, the second one's have: keys may be added, and what is of the moment of asking differs.
same_answers() {
    python3 - "$folder/before" "$folder/after" <<'PY'
import json, pathlib, sys

NOW = {"age_seconds", "time", "time_ms", "server"}


def same(one, other):
    if isinstance(one, dict) and isinstance(other, dict):
        return all(key in other and same(one[key], other[key]) for key in one.keys() - NOW)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or (isinstance(one, float) and isinstance(other, float) and abs(one - other) <= 1e-9 * abs(one))


before, after = (pathlib.Path(folder) for folder in sys.argv[1:])
jobs = sorted(path.name for path in before.iterdir())
read = lambda path: json.loads(path.read_text())
sys.exit(not jobs or any(not same(read(before / job), read(after / job)) for job in jobs))
PY
}

echo "== the older demo fills a database" >&2
"$older/throughline-demo" --state-dir "$folder" --once >"$folder/demo.out" 2>&1 || { tail -20 "$folder/demo.out" >&2; exit 1; }
state=$folder/demo/server
serve "$older" "$state"
answers "$older" before
version="SELECT max(version) FROM internal.schema_migrations"
from=$($sql -qtA -c "$version")
stop "$server"
serve "$newer" "$state"
answers "$newer" after
to=$($sql -qtA -c "$version")
check "schema $from is $to under the newer server, sums $(tr '|' ' ' <"$folder/sums.before")" cmp -s "$folder/sums.before" "$folder/sums.after"
check "'job show' of $(wc -l <"$folder/keys") jobs is the same" same_answers

# delivered NODE: whether the node's job is complete, with traffic, operations, and the agent's own metrics.
delivered() {
    rows=$($sql -qtA -c "SELECT least((SELECT count(*) FROM internal.mpi_rank_rows r JOIN internal.job_rank j USING (job_id, rank) JOIN internal.node_key n ON n.id = j.node_id
        WHERE n.name = '$1' AND j.end_time IS NOT NULL), (SELECT count(*) FROM public.self_stats WHERE instance = '$1'))")
    [ "$rows" -ge 2 ]
}
# nothing_lost: what the server counted of its senders since its start.
nothing_lost() {
    lost=$(curl -s "http://$query/metrics" | sed -n 's/^throughline_\(records_rejected\|entries_rejected\)_total[{ ].* //p' |
        awk '{ sum += $1 } END { print sum + 0 }')
    [ "$lost" = 0 ] && [ "$($sql -qtA -c 'SELECT count(*) FROM internal.batch_quarantine')" = 0 ]
}
# deliver AGENT SHIM NODE: an agent of one build, with two ranks under the other one's shim, and the running server.
program=$(find "$folder/demo/bin" -type f -perm -u+x -name 'traffic-*' | head -n 1)
deliver() {
    mkdir "$folder/$3"
    printf 'node = "%s"\nrun_dir = "%s"\n[http]\nlisten = "127.0.0.1:0"\n[delivery]\ncollector = "%s"\n' \
        "$3" "$folder/$3" "$collect" >"$folder/$3/agent.toml"
    "$1/throughline-agent" run --config "$folder/$3/agent.toml" --state-dir "$folder/$3" >"$folder/agent.out" 2>>"$folder/agent.log" &
    agent=$! pids="$pids $!"
    until_ 60 grep -q '^listening agent=' "$folder/agent.out" || { tail -20 "$folder/agent.log" >&2; exit 1; }
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated THROUGHLINE_SOCKET="$folder/$3/mpi.sock" \
        mpirun --oversubscribe --bind-to none -np 2 "$2/throughline-exec" "$program" --seconds 5 --quiet >>"$folder/agent.log" 2>&1 ||
        { tail -20 "$folder/agent.log" >&2; exit 1; }
    check "$3: rows of its ranks and of itself are there" until_ 120 delivered "$3"
    stop "$agent"
    check "$3: nothing rejected, refused or set aside" nothing_lost
}
deliver "$older" "$newer" older-agent-newer-server
stop "$server"

status=0
if [ "$from" = "$to" ]; then
    echo "passed over: both have schema $to"
else
    THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 \
        timeout 120 "$older/throughline" serve --state-dir "$state" >"$folder/refusal" 2>&1 || status=$?
    check "the older server ends with 1 on schema $to" [ "$status" = 1 ]
    check "and says: $(sed -n 's/.*\(has schema version.*\)/\1/p' "$folder/refusal" | tail -n 1)" grep -q 'use a newer throughline' "$folder/refusal"
fi

serve "$older" "$folder/fresh"
deliver "$newer" "$older" newer-agent-older-server
exit "$failed"
