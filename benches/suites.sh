#!/bin/sh
# Programs of any MPI test suite that you built, without the shim and with it (plain, traced, and with wire on Open MPI):
# exit code, output, time, and calls and bytes by operation against a counter generated from the installed mpi.h.
#   benches/suites.sh --mpi mpich BUILD/test/mpi/coll     programs built with mpicc.mpich; --mpi openmpi for mpicc.openmpi
#   benches/suites.sh --bin DIR/bin FOLDER...             a library that lies elsewhere
#   benches/suites.sh --commands FILE                     commands, one a line: `np=2 python3 test/main.py -i test_file`
# A `testlist` beside programs (MPICH's test/mpi) is honoured. Further options: --help. Status 2 where the shim made a
# difference; each is printed with the command that repeats it. No suite comes along: docs/BENCHMARKS.md says how two are built.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
(
    cd "$root"
    cargo build -q -p throughline-benches --bin bench-suites -p throughline-mpit-bridge --bin throughline-exec
    make -s shim
)
# Copies: a build beside a long run must not change what it runs. They stay where there is something to repeat.
copy=$(mktemp -d)
cp "$root/target/debug/bench-suites" "$root/target/debug/throughline-exec" "$copy"
cp -r "$root/target/debug/lib/throughline" "$copy/objects"
status=0
"$copy/bench-suites" --exec "$copy/throughline-exec" --objects "$copy/objects" "$@" || status=$?
if [ "$status" = 2 ]; then echo "what was run is in $copy"; else rm -rf "$copy"; fi
exit "$status"
