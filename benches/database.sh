# A private database of its own for benches that are sourced into. Needs throughline, its program; sets folder, where the
# database and what a bench writes lie, psql, its command, and started, to which a bench adds process ids. At the end all
# of them are stopped and the folder is removed.
# shellcheck shell=sh disable=SC2034,SC2154 # what it sets and what it needs
folder=$(mktemp -d) started=
# shellcheck disable=SC2317 # the trap calls it
finish() {
    for process in $started; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    "$throughline" db stop --state-dir "$folder/state" >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap finish EXIT INT TERM
# The database's user must reach its folder.
chmod 755 "$folder"
mkdir "$folder/state"
"$throughline" db start --state-dir "$folder/state" >/dev/null
psql=$("$throughline" db status --state-dir "$folder/state" | sed -n 's/^psql *//p' | sed 's/-U throughline_read/-U throughline/')
