#!/bin/sh
# Real MPI programs with the shim and without it, turn by turn; a table with goals, status 2 where one is missed.
# Programs that are not installed are named with the command that gets them:
#   apt-get install --no-install-recommends netpipe-openmpi netpipe-mpich2 lammps hpcc python3-mpi4py
# mpi4py on MPICH is PyPI's, in a virtual environment in target/mpich-python, made when missing;
# THROUGHLINE_MPICH_PYTHON=DIR/bin/python3 names another one. Needs an idle machine of at least 2 cores and about 12
# minutes; on a virtual machine, whose processors others use too, many short runs decide sooner: --seconds 1.5 --minutes 30.
# Options: --runs, --minutes, --seconds, --scale, --ranks, --only, --mpi, --least; see `--help`.
set -eu
cd "$(dirname "$0")/.."
cargo build --release -q -p throughline-benches -p throughline-mpit-bridge
make -s -C crates/mpit-bridge/shim OUT="$PWD/target/release/lib/throughline"
if [ -z "${THROUGHLINE_MPICH_PYTHON-}" ]; then
    environment=$PWD/target/mpich-python
    "$environment/bin/python3" -c 'import mpi4py' 2>/dev/null ||
        { python3 -m venv "$environment" && "$environment/bin/pip" -q install mpi4py; } ||
        echo "mpi4py on MPICH: no virtual environment in $environment: needs python3-venv and PyPI" >&2
    export THROUGHLINE_MPICH_PYTHON="$environment/bin/python3"
fi
exec target/release/bench-mpi-programs "$@"
