#!/bin/sh
# A site whose clocks jump through days, weeks and a year under libfaketime, wall and monotonic clocks alike: links whose counters are known at
# each second (constant, ramps, bursts; series that start, stop, pause and begin anew), records that come 3 hours, 3 days and 8 days late, a
# week off, jobs of minutes and of 40 days by formula, MPI programs that are quiet for a week, and one that ends without MPI_Finalize. What
# is left at each age is compared with the formulae, and PromQL over remote-read with Prometheus' own storage of the same readings.
#   benches/weeks.sh [--days N] [--dense N] [--edition apache|full] [--quiet] [--keep]
#     --days N        days to play (400); --days 0 plays the ten days of `make test`
#     --dense N       so many of them are read all the time (31), the others for an hour each week
#     --edition full  TimescaleDB's full edition: THROUGHLINE_PG_BIN names its programs
#     --quiet         only checks that fail;  --keep leaves logs and the database where they are
# Reads the database's clock in each program from one file (FAKETIME_NO_CACHE). FROM=target/debug takes other programs than the release
# build's. Prints a line for each check; ends with status 1 where one fails.
set -eu
cd "$(dirname "$0")/.."
days=400 dense=31 edition=apache more=''
while [ $# -gt 0 ]; do
    case $1 in
    --days) days=$2 && shift 2 ;;
    --dense) dense=$2 && shift 2 ;;
    --edition) edition=$2 && shift 2 ;;
    --quiet | --keep) more="$more $1" && shift ;;
    --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" && exit 0 ;;
    *) echo "benches/weeks.sh: unknown option $1, see --help" >&2 && exit 64 ;;
    esac
done
case $edition in
apache) unset THROUGHLINE_PG_BIN ;;
full) [ -x "${THROUGHLINE_PG_BIN:?names the programs of the full edition}/postgres" ] ;;
*) echo "benches/weeks.sh: --edition apache or full" >&2 && exit 64 ;;
esac
from=${FROM:-target/release}
[ "$days" = 0 ] || more="$more --days $days --dense $dense"
case $from in
*release) cargo build --release --quiet -p throughline-weeks ;;
esac
# shellcheck disable=SC2086 # words are wanted
exec "$from/throughline-weeks" $more
