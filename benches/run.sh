#!/bin/sh
# All measurements, each against the standard tool in the same run, printed as ratios; docs/BENCHMARKS.md explains
# them. `make bench` calls it. Needs an idle machine. Options go to the fabric bench (--hosts, --runs, …). Ends
# with status 2 where a ratio misses its goal.
set -eu
cd "$(dirname "$0")/.."
status=0

echo "== machine"
system=$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)
echo "$(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg), $system, kernel $(uname -r)"
sed -n 's/^model name[^:]*: /processor: /p;T;q' /proc/cpuinfo

echo "== fabric: throughline-fabric against infiniband-diags on ibsim"
benches/fabric.sh "$@" || status=$?

echo "== agent: a node of 512 MPI ranks"
cargo build --release --quiet -p throughline-agent -p throughline-benches
target/release/bench-agent || status=$?

echo "== MPI shim: what it adds to a call"
if command -v mpicc.openmpi >/dev/null && command -v mpicc.mpich >/dev/null; then
    benches/shim/run.sh || status=$?
    echo "== MPI programs: with the shim and without"
    benches/mpi-programs.sh || status=$?
else
    echo "left out: Open MPI and MPICH with their compilers are needed (make deps)"
fi
echo "== shares of links: errors, time and memory on generated fabrics"
benches/shares.sh || status=$?
if command -v mpicc.openmpi >/dev/null; then
    echo "== layouts of collectives against Open MPI's messages"
    benches/collectives.sh || status=$?
fi
echo "== throughline job on jobs of 1,000 ranks"
benches/jobs.sh || status=$?
echo "== shares of links on an emulated fabric, against counters of each flow"
if unshare -n true 2>/dev/null || unshare -U -r -n true 2>/dev/null; then
    benches/emulate.sh || status=$?
else
    echo "left out: network namespaces are not allowed here"
fi
exit "$status"
