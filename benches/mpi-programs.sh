#!/bin/sh
# Real MPI programs with the shim and without it, turn by turn; a table with goals, status 2 where one is missed.
# Programs that are not installed are named with the command that gets them:
#   apt-get install --no-install-recommends netpipe-openmpi netpipe-mpich2 lammps hpcc python3-mpi4py
# mpi4py on MPICH: a virtual environment with mpi4py, THROUGHLINE_MPICH_PYTHON=DIR/bin/python3. Needs an idle machine of
# at least 2 cores. Options: --runs, --scale, --ranks, --only, --mpi; `--help` lists them.
set -eu
cd "$(dirname "$0")/.."
cargo build --release -q -p throughline-benches -p throughline-mpit-bridge
make -s -C crates/mpit-bridge/shim OUT="$PWD/target/release/lib/throughline"
exec target/release/bench-mpi-programs "$@"
