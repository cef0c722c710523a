#!/bin/sh
# NVLink bytes of a job that MPI explains, and the rest, against what the programs themselves sent: real programs with Open MPI and MPICH
# under the shim, whose messages a meter (wrappers generated from the installed mpi.h; it knows nothing of the shim) puts on the NVLinks of
# a node of 8 GPUs of the double, beside a stranger that copies from GPU 0 to 1. Some 6 minutes. Ends with status 2 where a share or a
# residual is off by more than 5 points of what NVLinks carried.
#   benches/gpu-share.sh
# FROM=target/release SECONDS_EACH=25 MPI="openmpi mpich"
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d' && exit 0 ;; esac
exec python3 benches/gpu-share/run.py
