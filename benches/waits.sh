#!/bin/sh
# Wait states from counters against those from the trace of the same run, and the programs' own clocks: a late sender, a late
# receiver, a slow rank, ranks late in turn (at 10 ms and at 0.1 ms), a late root, a healthy program, and a
# transfer without progress, with 2 ranks on Open MPI and MPICH. Prints a table. About a minute, on an idle machine of at
# least 2 cores.
set -eu
cd "$(dirname "$0")/.."
exec cargo test --quiet --package throughline-mpit-bridge --test all -- --ignored --exact mpi::waits::measured --nocapture
