#!/bin/sh
# Holds the unit files to an exposure of at most 3.0 by `systemd-analyze security`, and to bounds on memory, tasks and
# open files. Reports what it skips. Usage: deploy/check-units.sh [FOLDER-OF-UNITS]
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
    "$(dirname "$0")/../xtask/skipped.sh" missing "exposure of the units" \
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
exit $status
