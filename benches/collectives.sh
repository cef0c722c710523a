#!/bin/sh
# Layouts of collectives against the messages that a real Open MPI sends with each algorithm forced. Prints the largest error
# by algorithm. RANKS="2 3 4" and COUNTS="1 1000" (ints) choose worlds and sizes; WORST=1 adds the worst call of each
# algorithm that has an error. Takes three minutes on two cores.
set -eu
cd "$(dirname "$0")/.."
exec cargo test -q -p throughline-shares --test all -- --ignored --exact measured::table --nocapture
