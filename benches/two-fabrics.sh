#!/bin/bash
# Two fabrics with equal subnet prefixes, node descriptions and LIDs, each in a simulator (ibsim) with two subnet managers (opensm),
# two crawlers each and one server: crawlers are killed and started again at random, managers fail over to another port, and
# the crawlers begin before there is a manager.
#   benches/two-fabrics.sh [--minutes 10] [--seed 1] [--same-name]    FROM=target/debug takes other programs than the release build's
# With --same-name all have the same fabric.toml with a name: the crawlers of one fabric are refused, and nothing of it is stored.
# Prints what was stored of each, and exits 2 where a row is of the wrong fabric, a node has ended, or an event is missing.
set -u
cd "$(dirname "$0")/.." || exit 1
minutes=10 RANDOM=1 name=
while [ $# -gt 0 ]; do
    case $1 in
    --minutes) minutes=$2; shift ;;
    --seed) RANDOM=$2; shift ;;
    --same-name) name=$'[fabric]\nname = "compute"\n' ;;
    *) sed -n '2,8p' "$0" >&2; exit 64 ;;
    esac
    shift
done
from=$(realpath "${FROM:-target/release}")
prefix=${THROUGHLINE_PREFIX:-/var/lib/throughline/prefix}
[ "$(id -u)" = 0 ] || prefix=${THROUGHLINE_PREFIX:-$HOME/.local/state/throughline/prefix}
nets=$PWD/benches/two-fabrics
folder=$(mktemp -d)
chmod 755 "$folder"
declare -A pids
# shellcheck disable=SC2317 # by the trap
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
    # A crawler whose simulator has ended waits for it.
    for _ in $(seq 150); do [ -z "$(jobs -pr)" ] && break; sleep 0.1; done
    for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null; done
    wait 2>/dev/null
    rm -rf "$folder"
}
trap finish EXIT

printf '[collect]\nlisten = "127.0.0.1:0"\n[query]\nlisten = "127.0.0.1:0"\n' >"$folder/server.toml"
"$from/throughline" serve --config "$folder/server.toml" --state-dir "$folder/srv" >"$folder/serve.out" 2>"$folder/serve.log" &
pids[serve]=$!
for _ in $(seq 900); do grep -q '^listening query' "$folder/serve.out" && break; sleep 0.1; done
grep -q '^listening query' "$folder/serve.out" || { cat "$folder/serve.log" >&2; exit 1; }
psql=$("$from/throughline" db status --json --state-dir "$folder/srv" | sed -n 's/.*"psql":"\([^"]*\)".*/\1/p')
[ -n "$psql" ] || { echo "no way into the database" >&2; exit 1; }
sql() { $psql -X -q -t -A -c "$1"; }

# In the environment of a fabric's simulator, as one of its hosts.
inside() { # FABRIC HOST COMMAND...
    IBSIM_SOCKNAME="two-$$-$1" OSM_TMP_DIR="$folder/$1/osm$2" OSM_CACHE_DIR="$folder/$1/osm$2" SIM_HOST="H-$1$2" exec "$prefix/bin/ibsim-run" "${@:3}"
}
manager() { # FABRIC HOST
    mkdir -p "$folder/$1/osm$2"
    (cd "$folder/$1/osm$2" && inside "$1" "$2" "$prefix/bin/opensm" -p $((15 - $2)) -f "$folder/$1/opensm$2.log") >"$folder/$1/opensm$2.out" 2>&1 </dev/null &
    pids[sm$1$2]=$!
}
crawler() { # FABRIC HOST
    mkdir -p "$folder/$1/c$2"
    printf '%s[http]\nlisten = "127.0.0.1:0"\n[sweep]\ninterval_seconds = 1.0\n[standby]\nlease_seconds = 4\n[delivery]\ncollector = "unix:%s/srv/run/collect.sock"\n' \
        "$name" "$folder" >"$folder/$1/c$2/fabric.toml"
    (cd "$folder/$1/c$2" && inside "$1" "$2" "$from/throughline-fabric" run --config fabric.toml --state-dir state) \
        >>"$folder/$1/c$2.out" 2>>"$folder/$1/c$2.log" </dev/null &
    pids[c$1$2]=$!
}
for f in a b; do
    mkdir -p "$folder/$f"
    mkfifo "$folder/$f/console"
    IBSIM_SOCKNAME="two-$$-$f" "$prefix/bin/ibsim" -s -N 20 -S 4 -P 60 -L 1024 -M 1024 "$nets/$f.net" 0<>"$folder/$f/console" \
        >"$folder/$f/ibsim.out" 2>&1 &
    pids[ibsim$f]=$!
    sleep 1
    # The crawlers come before there is a manager, and a prefix.
    crawler "$f" 2
    crawler "$f" 4
done
sleep 5
for f in a b; do manager "$f" 1; manager "$f" 3; done

end=$((SECONDS + minutes * 60)) kills=0 failovers=0
while [ "$SECONDS" -lt "$end" ]; do
    sleep $((2 + RANDOM % 8))
    f=$([ $((RANDOM % 2)) = 0 ] && echo a || echo b)
    if [ $((RANDOM % 6)) = 0 ]; then
        host=$((1 + 2 * (RANDOM % 2)))
        kill -9 "${pids[sm$f$host]}" 2>/dev/null; wait "${pids[sm$f$host]}" 2>/dev/null
        failovers=$((failovers + 1))
        sleep 15
        manager "$f" "$host"
    else
        host=$((2 + 2 * (RANDOM % 2)))
        kill -9 "${pids[c$f$host]}" 2>/dev/null; wait "${pids[c$f$host]}" 2>/dev/null
        kills=$((kills + 1))
        crawler "$f" "$host"
    fi
done
sleep 30

echo "minutes $minutes, crawlers killed $kills, managers killed $failovers"
sql "SELECT f.name, a.prefix, count(DISTINCT k.guid) AS nodes, (SELECT count(*) FROM internal.ib_port_counters c JOIN internal.ib_port_key q ON q.id = c.port_id
     JOIN internal.ib_node_key i ON i.id = q.ib_node_id WHERE i.fabric_id = f.id) AS readings
     FROM internal.fabric f LEFT JOIN internal.fabric_attribute a ON a.fabric_id = f.id AND a.valid_to IS NULL LEFT JOIN internal.ib_node_key k ON k.fabric_id = f.id
     GROUP BY f.id, f.name, a.prefix ORDER BY 1"
# Each fabric has GUIDs of one letter only, and nothing of it has ended but by another LID.
mixed=$(sql "SELECT count(*) FROM (SELECT fabric_id FROM internal.ib_node_key GROUP BY 1 HAVING count(DISTINCT substr(guid, 14, 1)) > 1) x")
gone=$(sql "SELECT count(*) FROM internal.ib_node_key k WHERE EXISTS (SELECT FROM internal.ib_node n WHERE n.ib_node_id = k.id)
            AND NOT EXISTS (SELECT FROM internal.ib_node n WHERE n.ib_node_id = k.id AND n.valid_to IS NULL)")
fabrics=$(sql "SELECT count(*) FROM internal.fabric")
changes=$(sql "SELECT count(*) FROM internal.events WHERE kind = 'sm.changed'")
echo "fabrics $fabrics, of mixed GUIDs $mixed, nodes that ended $gone, events sm.changed $changes"
sql "SELECT kind, count(*) FROM internal.events WHERE kind LIKE 'fabric.%' OR kind LIKE 'sm.%' GROUP BY 1 ORDER BY 1"
refused=$(grep -lh 'fabric.toml names the fabric compute' "$folder"/[ab]/c*.log | wc -l)
echo "crawlers that were refused: $refused"
expected=2 wanted=0
[ -n "$name" ] && expected=1 wanted=2
[ "$mixed" = 0 ] && [ "$gone" = 0 ] && [ "$fabrics" = $expected ] && [ "$refused" = $wanted ] && { [ "$failovers" = 0 ] || [ "$changes" -gt 0 ]; } || exit 2
