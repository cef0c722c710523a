#!/bin/sh
# Holds the unit files to an exposure of at most 3.0 by `systemd-analyze security`, to bounds on memory, tasks and open
# files, and to what `systemd-analyze verify` finds: no cycle in the order of a boot, no key that systemd does not know.
# Reports what it skips. Usage: deploy/check-units.sh [FOLDER-OF-UNITS]
set -eu
folder=${1:-$(cd "$(dirname "$0")" && pwd)/systemd}
# Tenths, as systemd-analyze takes it.
threshold=30
status=0
for unit in "$folder"/*.service; do
    for key in MemoryMax LimitNOFILE TasksMax NoNewPrivileges CapabilityBoundingSet SystemCallFilter; do
        grep -q "^$key=" "$unit" || { echo "check-units: $unit has no $key=" >&2; status=2; }
    done
done
if ! systemd-analyze security --help 2>/dev/null | grep -q -e --offline; then
    "$(dirname "$0")/../xtask/skipped.sh" missing "exposure and order of the units" \
        "needs systemd-analyze of systemd 250 or later; apt-get install systemd"
    exit $status
fi
for unit in "$folder"/*.service; do
    if ! report=$(systemd-analyze security --no-pager --offline=true --threshold=$threshold "$unit" 2>&1); then
        echo "check-units: $unit is above the threshold:" >&2
        echo "$report" >&2
        status=2
    fi
    echo "$report" | sed -n 's/^→ //p'
done

# As on a node that boots with all of them enabled: a folder with systemd's units and ours, and programs by name only.
# systemd reports a cycle, takes a unit out of the boot and exits with 0; so each line about one of ours is a fault.
own=/usr/lib/systemd/system
[ -e $own/local-fs.target ] || own=/lib/systemd/system
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree$own" "$tree/etc/systemd/system/multi-user.target.wants"
cp -RP $own/. "$tree$own"
[ $own = /lib/systemd/system ] || ln -s usr/lib "$tree/lib"
cp "$folder"/* "$tree$own"
for unit in "$folder"/*.service; do
    program=$tree$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$unit")
    mkdir -p "$(dirname "$program")"
    install -m 755 /dev/null "$program"
    ln -s "$own/${unit##*/}" "$tree/etc/systemd/system/multi-user.target.wants"
done
ours=$(cd "$folder" && echo *)
# shellcheck disable=SC2086 # a list of names
if ! report=$(systemd-analyze verify --root="$tree" --man=no multi-user.target $ours 2>&1) ||
    echo "$report" | grep -q throughline; then
    echo "check-units: systemd-analyze verify:" >&2
    echo "$report" >&2
    status=2
else
    echo "No cycle and no unknown key in: $ours"
fi
exit $status
