#!/bin/sh
# Whether two builds answer the same: one recorded input (benches/answers) goes into both, each in its own protocol, into a
# database of its own and under the same wall clock; then every route, view, metric and command is compared.
#   benches/answers.sh OLD NEW        checkouts or git revisions; OLD's names go through benches/answers/renames.txt first
#   benches/answers.sh --times [--only TEXT] OLD NEW   processor time of each request (that contains TEXT) on both, built with --release,
#                                     cold and warm, in turn; ends with 1 where one is slower
#   benches/answers.sh --history [--only TEXT] BUILD   processor time of each request for the same time on a site of some hours and on one with
#                                     a week of packed hours and 400 days of chunks before; ends with 1 where one is above 1.5 times
#   benches/answers.sh --seeds BUILD  proves the bench: errors in the input of the same build must be found, twelve of twelve
# A revision is checked out and built below target/answers; a checkout that is built (target/demo or target/release; for --times
# target/release) is used as it is. --json FILE writes all differences, --keep FOLDER leaves all answers. With THROUGHLINE_PG_BIN
# (programs of a PostgreSQL with TimescaleDB's full edition) everything is done once more on it. Ends with 1 where anything differs.
set -eu
cd "$(dirname "$0")/.."
usage() { sed -n '4,9s/^# *//p' benches/answers.sh >&2; exit 64; }
action=compare builds='' json='' keep='' only='' count=0
while [ $# -gt 0 ]; do
    case $1 in
    --seeds | --times | --history) action=${1#--} ;;
    --only) only=${2:?"a text"} && shift ;;
    --json) json=${2:?"a file"} && shift ;;
    --keep) keep=${2:?"a folder"} && shift ;;
    -*) usage ;;
    *) builds="$builds $1" count=$((count + 1)) ;;
    esac
    shift
done
wanted=2
[ "$action" != seeds ] && [ "$action" != history ] || wanted=1
[ "$count" = "$wanted" ] || usage
mkdir -p target/answers
# Profiles differ in what they optimise.
profile=demo
[ "$action" != times ] && [ "$action" != history ] || profile=release

# The checkout of a folder or a revision, built.
checkout() {
    folder=$1
    if [ ! -d "$folder" ]; then
        revision=$(git rev-parse --verify --quiet "$1^{commit}") || {
            echo "$1 is neither a checkout nor a revision of this repository" >&2 && exit 64
        }
        folder=$PWD/target/answers/$revision
        [ -d "$folder" ] || git worktree add --quiet --detach "$folder" "$revision" >&2
    fi
    [ -x "$folder/target/$profile/throughline" ] || [ -x "$folder/target/release/throughline" ] ||
        (cd "$folder" && make --no-print-directory pages >&2 && cargo build --profile "$profile" --bins -p throughline-cli >&2)
    echo "$folder"
}
checked='' # paths without spaces, as cargo's own scripts need them
for build in $builds; do checked="$checked $(checkout "$build")"; done

cargo build --quiet --profile demo -p throughline-bench-answers
${CC:-cc} -shared -fPIC -O2 -Wall -Wextra -Werror -o target/answers/clock.so benches/answers/clock.c
cargo xtask prefix postgres >/dev/null
prefix=$(cargo xtask prefix fabric | tail -n 1)
# Databases and servers lie here, and end with this script whatever happens.
TMPDIR=$(mktemp -d)
export TMPDIR
chmod 755 "$TMPDIR"
bench=''
# shellcheck disable=SC2317 # the trap calls it
finish() {
    [ -z "$bench" ] || kill "$bench" 2>/dev/null || true
    for site in "$TMPDIR"/.tmp*; do
        [ -d "$site/state" ] || continue
        for file in "$site"/*.pid; do kill "$(cat "$file")" 2>/dev/null || true; done
        for program in "${checked##* }"/target/*/throughline; do
            "$program" db stop --state-dir "$site/state" >/dev/null 2>&1 && break
        done
    done
    rm -rf "$TMPDIR"
}
trap finish EXIT
trap 'exit 1' INT TERM
compare() {
    # shellcheck disable=SC2086 # one word a checkout
    target/demo/bench-answers $action $checked --lists benches/answers --clock target/answers/clock.so --postgres "$2" \
        --prometheus "${PROMETHEUS:-$prefix/fabric/usr/bin/prometheus}" \
        ${only:+--only "$only"} ${json:+--json "$json$1"} ${keep:+--keep "$keep$1"} &
    bench=$!
    wait "$bench"
}
status=0
echo "TimescaleDB, Apache edition:"
compare '' "$prefix/postgres/bin" || status=$?
if [ -n "${THROUGHLINE_PG_BIN:-}" ]; then
    echo "TimescaleDB, full edition:"
    compare -full "$THROUGHLINE_PG_BIN" || status=$?
fi
exit "$status"
