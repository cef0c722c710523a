#!/bin/sh
# What the MPI shim adds to a call, on each MPI and over a stub library. Needs Open MPI, MPICH, a C compiler and
# an idle machine of at least 2 cores:
#   benches/shim/run.sh [CALLS]
# A reader stands in for the agent, so that the flush thread does its work as usual.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bridge=$here/../../crates/mpit-bridge
calls=${1:-1000000}
folder=$(mktemp -d)
reader=
trap 'test -z "$reader" || kill "$reader"; rm -rf "$folder"' EXIT

make -s -C "$bridge/shim" OUT="$folder"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 THROUGHLINE_SOCKET="$folder/mpi.sock"
python3 - "$THROUGHLINE_SOCKET" <<'PYTHON' &
import selectors, socket, sys
listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listening.bind(sys.argv[1])
listening.listen(64)
waiting = selectors.DefaultSelector()
waiting.register(listening, selectors.EVENT_READ)
while True:
    for key, _ in waiting.select():
        if key.fileobj is listening:
            waiting.register(listening.accept()[0], selectors.EVENT_READ)
            continue
        try:
            data = key.fileobj.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            waiting.unregister(key.fileobj)
            key.fileobj.close()
PYTHON
reader=$!
while ! test -S "$THROUGHLINE_SOCKET"; do sleep 0.05; done

# The shim is preloaded into the ranks only.
run() {
    case $1 in
    openmpi) mpirun.openmpi --mca btl self,vader --oversubscribe -n 2 env LD_PRELOAD="$folder/libthroughline-openmpi.so" "$folder/overhead.openmpi" "$calls" ;;
    mpich) mpirun.mpich -n 2 env LD_PRELOAD="$folder/libthroughline-mpich.so" "$folder/overhead.mpich" "$calls" ;;
    esac
}

for mpi in openmpi mpich; do
    "mpicc.$mpi" -O2 -Wall -Wextra -o "$folder/overhead.$mpi" "$here/overhead.c"
    echo "$mpi"
    run "$mpi"
    echo "$mpi, THROUGHLINE_SHIM=off"
    THROUGHLINE_SHIM=off run "$mpi"
done

cc -O2 -shared -fPIC -o "$folder/libmpistub.so" "$bridge/tests/programs/stub_mpi.c"
cc -O2 -pthread -o "$folder/stub" "$here/stub.c" -Wl,--no-as-needed "$folder/libthroughline-mpich.so" \
    "$folder/libmpistub.so" -Wl,-rpath,"$folder"
echo "stub library"
for threads in 1 2 4; do "$folder/stub" "$threads" "$calls"; done
