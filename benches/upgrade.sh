#!/bin/sh
# An old database under this build: benches/upgrade.sh OLD_BINARY_DIR [LABEL] fills a private database with the demo of an earlier
# build (throughline, throughline-demo and what they start, in one folder, as `cargo build` leaves them), copies its rows of
# measurements to ROWS (2000000) over the days before, upgrades it with this build and compares each job before and after:
# `job show --json`, `job matrix --json`, and the totals of operations and peers in SQL. Prints how long the migration
# took, by row. Ends with 1 where something differs. Needs what the demo needs, python3, and target/debug/throughline or
# the program in THROUGHLINE.
set -eu
old=$(cd "${1:?OLD_BINARY_DIR: folder of the earlier build}" && pwd) label=${2:-$1}
cd "$(dirname "$0")/.."
new=${THROUGHLINE:-target/debug/throughline}
rows=${ROWS:-2000000}
folder=$(mktemp -d) server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    "$new" db stop --state-dir "$folder/demo/server" >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap finish EXIT INT TERM
# The database's user must reach its folder.
chmod 755 "$folder"
state=$folder/demo/server

echo "== the demo of $label fills a database" >&2
"$old/throughline-demo" --state-dir "$folder" --once >"$folder/demo.out" 2>&1 || { tail -20 "$folder/demo.out" >&2; exit 1; }

# For serve; the demo's programs would refuse them.
export THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__UPKEEP__ENABLED=false

# psql PROGRAM: the command that writes to the running database.
psql() {
    "$1" db status --state-dir "$state" | sed -n 's/^psql *//p' | sed 's/-U throughline_read/-U throughline/'
}
# seconds COMMAND...: how long it takes.
seconds() {
    python3 - "$@" <<'PY'
import subprocess, sys, time
begun = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(f"{time.monotonic() - begun:.2f}")
PY
}

echo "== rows are copied to $rows over the days before" >&2
"$old/throughline" db start --state-dir "$state" >/dev/null
sql=$(psql "$old/throughline")
# Each copy lies two minutes before the one it is of, so that hours fill as they do in a site.
$sql -q -v ON_ERROR_STOP=1 -v rows="$rows" <<'SQL'
SET client_min_messages = error;
CREATE TEMP TABLE goal AS SELECT :rows::bigint AS rows;
DO $$
DECLARE
    one record;
    present bigint := 0;
    count bigint;
    copies bigint;
BEGIN
    CREATE TEMP TABLE measured (name name, columns text, moved text);
    FOR one IN SELECT hypertable_name AS name FROM timescaledb_information.hypertables LOOP
        EXECUTE format('SELECT count(*) FROM %I', one.name) INTO count;
        present := present + count;
        INSERT INTO measured SELECT one.name, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
            string_agg(CASE WHEN a.attname = 'time' THEN 'time - make_interval(mins => 2 * n)' ELSE quote_ident(a.attname) END,
                       ', ' ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = one.name::text::regclass AND a.attnum > 0 AND NOT a.attisdropped
          AND a.attgenerated = '';
    END LOOP;
    copies := greatest(0, (SELECT rows FROM goal) / present - 1);
    FOR one IN SELECT * FROM measured LOOP
        EXECUTE format('INSERT INTO %I (%s) SELECT %s FROM %I, generate_series(1, %s) n ON CONFLICT DO NOTHING',
                       one.name, one.columns, one.moved, one.name, copies);
    END LOOP;
END $$;
ANALYZE;
SQL
count="SELECT sum(rows) FROM (SELECT (xpath('/row/c/text()', query_to_xml(format('SELECT count(*) AS c FROM %I',
       hypertable_name), false, true, '')))[1]::text::bigint AS rows FROM timescaledb_information.hypertables) t"
all=$($sql -qtA -c "$count")
chunks=$($sql -qtA -c "SELECT count(*) FROM timescaledb_information.chunks")
bytes=$($sql -qtA -c "SELECT pg_database_size(current_database())")
from=$($sql -qtA -c "SELECT max(version) FROM schema_migrations")

# jobs PROGRAM NAME: what the server of a build answers of all jobs, in files.
jobs() {
    program=$1 name=$2
    mkdir "$folder/$name"
    # Not a pipe: a shell would wait for it.
    "$program" serve --log-level warn --state-dir "$state" >"$folder/listening" 2>"$folder/$name/log" &
    server=$!
    until url=$(sed -n 's/^listening query=/http:\/\//p' "$folder/listening") && [ -n "$url" ] &&
        "$program" job list --server "$url" --json >"$folder/$name/list" 2>/dev/null; do
        kill -0 "$server" || { cat "$folder/$name/log" >&2; exit 1; }
        sleep 0.3
    done
    $sql -qtA -c "SELECT key FROM run ORDER BY id" >"$folder/keys"
    while read -r job; do
        file=$(printf %s "$job" | tr -c 'A-Za-z0-9\n' _)
        "$program" job show "$job" --server "$url" --json >"$folder/$name/show.$file"
        "$program" job matrix "$job" --server "$url" --json >"$folder/$name/matrix.$file"
    done <"$folder/keys"
    for view in mpi_op_totals mpi_peer_totals; do
        $sql -qtA -c "SELECT json_agg(t ORDER BY t::text) FROM $view t" >"$folder/$name/$view"
    done
    kill "$server"
    wait "$server" || true
    server=
}
jobs "$old/throughline" before

echo "== this build opens it" >&2
took=$(seconds "$new" db init --state-dir "$state")
again=$(seconds "$new" db init --state-dir "$state")
to=$($sql -qtA -c "SELECT max(version) FROM schema_migrations")
left=$($sql -qtA -c "$count")
jobs "$new" after

python3 - "$folder" "$all" "$left" "$took" "$again" "$from" "$to" "$chunks" "$bytes" "$label" <<'PY'
import json, pathlib, sys

folder, rows, left, took, again, old, new, chunks, size, label = sys.argv[1:]
before, after = pathlib.Path(folder, "before"), pathlib.Path(folder, "after")
# What is of the moment of asking.
VOLATILE = {"age_seconds", "time", "time_ms", "server"}
differences, added, values = [], set(), 0


def compare(path, one, other):
    global values
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() - VOLATILE:
            if key not in other:
                differences.append(f"{path}.{key}: gone, was {one[key]!r}")
            else:
                compare(f"{path}.{key}", one[key], other[key])
        added.update(f"{path.split('.', 1)[0].split('/')[0]} {key}" for key in other.keys() - one.keys())
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            differences.append(f"{path}: {len(one)} elements, now {len(other)}")
        for at, pair in enumerate(zip(one, other)):
            compare(f"{path}[{at}]", *pair)
    else:
        values += 1
        same = one == other or (isinstance(one, float) and abs(one - other) <= 1e-9 * abs(one))
        if not same:
            differences.append(f"{path}: {one!r}, now {other!r}")


files = sorted(path.name for path in before.iterdir() if path.name not in ("log", "list"))
for name in files:
    read = lambda side: json.loads((side / name).read_text() or "null")
    compare(name.split(".")[0], read(before), read(after))
rows, left, took, again = int(rows), int(left), float(took), float(again)
migration = max(took - again, 0)
print(f"{label}: schema {old} to {new}, {rows:,} rows in {chunks} chunks, {int(size) / 1e6:,.0f} MB")
print(f"migration: {migration:.1f} s ({took:.1f} s, and {again:.1f} s where nothing is to do), {migration * 1e6 / rows:.2f} µs a row")
print(f"rows of measurements after it: {left:,}")
jobs = sum(name.startswith("show.") for name in files)
print(f"{values:,} values of {jobs} jobs compared (show, matrix, totals): {len(differences)} differ")
for line in differences[:40]:
    print("  " + line)
if added:
    print("new keys: " + ", ".join(sorted(added)))
sys.exit(1 if differences or left != rows or not jobs else 0)
PY
