#!/bin/sh
# What the MPI shim costs, each figure against its goal: what it adds to a call on each MPI and over a stub library,
# what its thread takes, and its memory. Needs Open MPI, MPICH, a C compiler, Python and an idle machine of at least 2
# cores; on a busy one the figures are those of the others' work. With valgrind also instructions a call, which no other
# work changes (two of them read the clock and take most of the time). About two minutes:
#   benches/shim/run.sh [CALLS]
# On against off (blocks of calls past the shim alternate with blocks through it) in one run each, medians over the
# blocks. A reader takes the place of the agent, so that the flush thread does its work as usual. Exits 2 if a goal is missed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bridge=$here/../../crates/mpit-bridge
calls=${1:-1000000}
folder=$(mktemp -d)
reader=
trap 'test -z "$reader" || kill "$reader"; rm -rf "$folder"' EXIT

make -s -C "$bridge/shim" OUT="$folder"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 THROUGHLINE_SOCKET="$folder/mpi.sock"
python3 "$here/agent.py" "$THROUGHLINE_SOCKET" >/dev/null &
reader=$!
while ! test -S "$THROUGHLINE_SOCKET"; do sleep 0.05; done

# The shim is preloaded into the ranks only.
run() {
    case $1 in
    openmpi) mpirun.openmpi --mca btl self,vader --oversubscribe -n 2 env LD_PRELOAD="$folder/libthroughline-openmpi.so" "$folder/overhead.openmpi" "$calls" ;;
    mpich) mpirun.mpich -n 2 env LD_PRELOAD="$folder/libthroughline-mpich.so" "$folder/overhead.mpich" "$calls" ;;
    esac
}

status=0
# WHAT VALUE UNIT GOAL
line() {
    awk -v what="$1" -v value="$2" -v unit="$3" -v goal="$4" 'BEGIN {
        good = value != "" && value + 0 <= goal + 0
        printf "%-58s %10s %-5s goal %8s  %s\n", what, value == "" ? "-" : value, unit, goal, good ? "PASS" : "FAIL"
        exit !good
    }' || status=2
}
figure() { awk -v name="$1" '$1 == name { print $2 }' "$2"; }

for mpi in openmpi mpich; do
    "mpicc.$mpi" -O2 -Wall -Wextra -o "$folder/overhead.$mpi" "$here/overhead.c"
    goal=40
    test "$mpi" = openmpi || goal=45
    run "$mpi" >"$folder/on"
    THROUGHLINE_SHIM=off run "$mpi" >"$folder/off"
    for call in sendrecv allreduce; do
        line "$mpi $call of 8 bytes, added" "$(figure "$call" "$folder/on")" ns "$goal"
        line "$mpi $call of 8 bytes, THROUGHLINE_SHIM=off, added" "$(figure "$call" "$folder/off")" ns 5
    done
    line "$mpi testany of 16 pending requests, added" "$(figure testany "$folder/on")" ns 10
    line "$mpi testany and test of them in turn, each" "$(figure in_turn "$folder/on")" ns 10
done

cc -O2 -shared -fPIC -o "$folder/libmpistub.so" "$bridge/tests/programs/stub_mpi.c"
cc -O2 -pthread -o "$folder/stub" "$here/stub.c" -Wl,--no-as-needed "$folder/libthroughline-mpich.so" \
    "$folder/libmpistub.so" -Wl,-rpath,"$folder"
export STUB_RANKS=1024
if command -v valgrind >/dev/null; then
    valgrind -q --tool=callgrind --callgrind-out-file="$folder/callgrind" "$folder/stub" count >"$folder/counts" 2>&1
    callgrind_annotate --inclusive=yes --threshold=100 --show-percs=no "$folder/callgrind" >"$folder/annotated"
    for kind in send recv allreduce isend_waitall; do
        added=$(awk -v kind="$kind" '
            FNR == NR { if ($1 == kind) calls = $2; next }
            match($0, ":(past|through)_" kind " ") {
                gsub(",", "", $1)
                if (index($0, ":through_")) through = $1
                else past = $1
            }
            END { if (calls && through && past) printf "%.0f", (through - past) / calls }' "$folder/counts" "$folder/annotated")
        goal=250
        test "$kind" != isend_waitall || goal=430
        line "stub, $kind, instructions added to a call" "$added" "" "$goal"
    done
else
    echo "instructions a call: not counted, as valgrind is not installed"
fi
for threads in 1 4; do
    "$folder/stub" "$threads" "$calls" >"$folder/on"
    THROUGHLINE_SHIM=off "$folder/stub" "$threads" "$calls" >"$folder/off"
    line "stub, $threads threads, Isend x 64 + Waitall, processor time added" \
        "$(figure "isend_waitall_$threads" "$folder/on")" ns 60
    line "stub, $threads threads, Send, processor time added" "$(figure "send_$threads" "$folder/on")" ns 60
    line "stub, $threads threads, Allreduce, processor time added" "$(figure "allreduce_$threads" "$folder/on")" ns 60
    if test "$threads" = 1; then # with several, requests are looked up before each call
        line "stub, a test that fails, in a row, processor time added" "$(figure test_1 "$folder/on")" ns 5
        line "stub, the same of 16 requests (Testany)" "$(figure testany_1 "$folder/on")" ns 5
        line "stub, the same of 16 requests, THROUGHLINE_SHIM=off" "$(figure testany_1 "$folder/off")" ns 5
    fi
    line "stub, $threads threads, Isend x 64 + Waitall, THROUGHLINE_SHIM=off" \
        "$(figure "isend_waitall_$threads" "$folder/off")" ns 5
    test "$threads" != 1 || line "stub, begin or end of a region" "$(figure region_1 "$folder/on")" ns 60
    test "$threads" != 1 || line "stub, Send after 1.1 ms of computing, added" "$(figure after_computing "$folder/on")" ns 1000
    test "$threads" != 1 || line "flush thread, pushing each second, share of a core" "$(figure flush_share "$folder/on")" % 0.02
    on=$(figure "resident_$threads" "$folder/on")
    off=$(figure "resident_$threads" "$folder/off")
    line "stub, $threads threads, 1,024 peers: resident memory added" "$((on - off))" KiB 2048
done
exit $status
