#!/bin/sh
# Enroot's hook, for Pyxis too: gives each container the agent's socket and the shim's folder, and preloads the object that
# THROUGHLINE_MPI (openmpi, openmpi5, mpich, mpi3; of the image or the job) names.
#
#   cp enroot-hook.sh /etc/enroot/hooks.d/50-throughline.sh
#
# An image whose C library can't load the objects (musl, or glibc before 2.17 or without its parts) gets nothing, and an
# LD_PRELOAD of ours that came along is taken away: its programs would end at once. Whatever fails, the container starts.
# Enroot hands over the image's root, and the files with the environment and the mounts of the container.
set -u
libraries=/usr/lib/throughline
run=/run/throughline

# Does this root's C library take the objects? They need its libpthread and libdl, which are parts of each glibc.
takes_objects() {
    for loader in "$1"/lib/ld-musl-*; do
        if [ -e "$loader" ]; then return 1; fi
    done
    for libc in "$1"/lib/*-linux-gnu/libc.so.6 "$1"/usr/lib/*-linux-gnu/libc.so.6 \
        "$1"/lib64/libc.so.6 "$1"/usr/lib64/libc.so.6 "$1"/lib/libc.so.6; do
        if [ -e "${libc%/*}/libpthread.so.0" ] && [ -e "${libc%/*}/libdl.so.2" ] && grep -aqs 'GLIBC_2\.17' "$libc"; then
            return 0
        fi
    done
    return 1
}

# variable NAME: its last value in the container's environment.
variable() { sed -n "s/^$1=//p" "$ENROOT_ENVIRON" | tail -n 1; }

if ! takes_objects "$ENROOT_ROOTFS"; then
    case ${LD_PRELOAD:-}$(variable LD_PRELOAD) in
    *libthroughline-*) echo 'LD_PRELOAD=' >>"$ENROOT_ENVIRON" ;;
    esac
    exit 0
fi
[ -d "$run" ] && [ -d "$libraries" ] || exit 0
echo "$run $run none x-create=dir,bind,rw" >>"$ENROOT_MOUNTS"
echo "$libraries $libraries none x-create=dir,bind,ro" >>"$ENROOT_MOUNTS"

for switch in "$(variable THROUGHLINE_SHIM)" "${THROUGHLINE_SHIM:-}"; do
    case $switch in off | 0 | no) exit 0 ;; esac
done
mpi=$(variable THROUGHLINE_MPI)
mpi=${mpi:-${THROUGHLINE_MPI:-}}
object=$libraries/libthroughline-$mpi.so
[ -n "$mpi" ] && [ -r "$object" ] || exit 0
before=$(variable LD_PRELOAD)
case $before in
*libthroughline-*) ;;
*) echo "LD_PRELOAD=$object${before:+:$before}" >>"$ENROOT_ENVIRON" ;;
esac
exit 0
