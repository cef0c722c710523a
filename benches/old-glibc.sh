#!/bin/sh
# Programs of older systems under the shim and throughline-exec as `make build` makes them: root file systems of Debian 11,
# Ubuntu 18.04 and 16.04 (glibc 2.31, 2.27, 2.23) on this processor, and Debian 11 for aarch64 under qemu's user mode. Each
# program was compiled there, for the MPI libraries of that system, and runs three ways: bare, under throughline-exec, and
# with what Slurm's TaskProlog exports. Printed text and status must be the same, and the calls and bytes that an agent on
# this machine counted those that the program says it makes (crates/mpit-bridge/demo/traffic.c).
# Needs root, mmdebstrap, curl and apt's sources of Debian; Ubuntu's archive beside Debian's on the same mirror, or at
# UBUNTU_MIRROR. What can't be had is listed. Packages are unpacked below target/old-glibc, none of their scripts runs. Half a
# minute of download a system the first time. Exits 2 where something differs.
#   benches/old-glibc.sh [bullseye|bionic|xenial|arm64 ...]
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" != --within ]; then
    [ "$(id -u)" = 0 ] || { echo "old-glibc: needs root, for chroot and mounts" >&2 && exit 77; }
    for tool in mmdebstrap curl gpg; do
        command -v "$tool" >/dev/null || { echo "old-glibc: needs $tool: apt-get install $tool" >&2 && exit 69; }
    done
    cargo build --quiet --package throughline-agent --bin throughline-agent
    make --silent preloads
    # Mounts are seen by this bench only, and end with it.
    exec unshare --mount --propagation private "$0" --within "$@"
fi
shift
[ $# -gt 0 ] || set -- bullseye bionic xenial arm64
ubuntu_key=790BC7277767219C42C86F933B4FE6ACC0B21F32 # Ubuntu Archive Automatic Signing Key (2012)
rounds=50
work=$PWD/target/old-glibc
mkdir -p "$work"
folder=$(mktemp -d)
agent=
trap 'test -z "$agent" || kill "$agent"; rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

debian=$(sed -n 's/^URIs: *\([^ ]*\/debian\)\/*$/\1/p; s/^deb .*\(http[^ ]*\/debian\)\/* .*/\1/p' \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | head -n 1)
ubuntu=${UBUNTU_MIRROR:-${debian%/debian}/ubuntu}

# The key by which Ubuntu's archive is signed, out of that archive, by its fingerprint.
ubuntu_keyring() {
    [ -s "$work/ubuntu.gpg" ] && return
    /usr/lib/apt/apt-helper download-file "$ubuntu/pool/main/u/ubuntu-keyring/ubuntu-keyring_2012.05.19_all.deb" \
        "$folder/keyring.deb" >/dev/null 2>&1 || return
    dpkg-deb --extract "$folder/keyring.deb" "$folder/keyring"
    mkdir -m 700 "$folder/gnupg"
    gpg --quiet --homedir "$folder/gnupg" --no-default-keyring \
        --keyring "$folder/keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg" --export "$ubuntu_key" >"$work/ubuntu.gpg"
    [ -s "$work/ubuntu.gpg" ]
}

# unpack SYSTEM: its root file system, whose folder it leaves in $root.
unpack() {
    root=$work/$1
    [ -e "$root/.unpacked" ] && return
    rm -rf "$root"
    packages=dash,bash,coreutils,sed,libc-bin,gcc,libc6-dev,libmpich-dev,mpich,libopenmpi-dev,openmpi-bin
    case $1 in
    bullseye) set -- bullseye amd64 "deb $debian bullseye main" ;;
    arm64) set -- bullseye arm64 "deb $debian bullseye main" ;;
    *) ubuntu_keyring && set -- "$1" amd64 "deb $ubuntu $1 main universe" --keyring="$work/ubuntu.gpg" ;;
    esac || return
    test "$2" = amd64 || packages=dash,coreutils,libc-bin,libmpich-dev
    mmdebstrap --quiet --variant=extract --include="$packages" --mode=root --architectures="$2" ${4+"$4"} \
        "$1" "$root" "$3" >"$folder/mmdebstrap" 2>&1 || { tail -n 3 "$folder/mmdebstrap" >&2 && return 1; }
    # What the scripts of the packages would have made, as far as these programs need it.
    echo 'root:x:0:0::/root:/bin/sh' >"$root/etc/passwd"
    echo 'root:x:0:' >"$root/etc/group"
    echo 'hosts: files' >"$root/etc/nsswitch.conf"
    echo "127.0.0.1 localhost $(hostname)" >"$root/etc/hosts"
    test "$2" != amd64 || chroot "$root" /sbin/ldconfig
    touch "$root/.unpacked"
}

start_agent() {
    mkdir -p "$folder/run"
    THROUGHLINE__NODE=old-glibc THROUGHLINE__HTTP__LISTEN=127.0.0.1:0 THROUGHLINE__MPI__SOCKET="$folder/run/mpi.sock" \
        THROUGHLINE__DELIVERY__COLLECTOR=http://127.0.0.1:9 \
        target/debug/throughline-agent run --log-level error --state-dir "$folder/state" >"$folder/agent" &
    agent=$!
    for _ in $(seq 100); do
        [ -S "$folder/run/mpi.sock" ] && [ -s "$folder/agent" ] && break
        sleep 0.1
    done
    metrics=http://$(sed -n 's/^listening agent=//p' "$folder/agent")/metrics
}

# counted: what the agent has counted since it began, `operation calls bytes`, sorted.
counted() {
    curl --silent --fail --max-time 10 "$metrics" | awk -F '["}]' '
        /^throughline_mpi_calls_total/ { calls[$2] = $4 + 0 }
        /^throughline_mpi_bytes_total/ { bytes[$2] = $4 + 0 }
        END { for (operation in calls) printf "%s %.0f %.0f\n", operation, calls[operation], bytes[operation] }' | sort
}

# expected RANKS: what traffic.c's comments say of a run, in the same form, added to the file $folder/total.
expected() {
    awk -v n="$1" -v r="$rounds" -v pair=1024 '
        function row(operation, calls, bytes) { now[operation] = calls " " bytes }
        BEGIN {
            messages = r * (n == 4 ? 24 : 16)
            row("isend", messages, messages * pair)
            row("irecv", messages, 0)
            row("waitall", messages, 0)
            row("sendrecv", n * r, n * r * 4096)
            row("allreduce", n * r, n * r * 8192)
            row("alltoall", n * r, n * r * n * 512)
            row("bcast", n * r / 10, r / 10 * 65536)
            row("finalize", n, 0)
        }
        { before[$1] = $2; before_bytes[$1] = $3 }
        END {
            for (operation in now) {
                split(now[operation], add, " ")
                printf "%s %.0f %.0f\n", operation, before[operation] + add[1], before_bytes[operation] + add[2]
            }
        }' "$folder/total" | sort >"$folder/wanted"
    mv "$folder/wanted" "$folder/total"
}

# verdict WHAT STATUS: a line of the table.
verdict() {
    word="same, all calls and bytes of $counting ranks counted"
    test "$counting" != 0 || word="same, nothing counted"
    test "$2" = 0 || { word=DIFFERS && failed=2; }
    printf '%-10s glibc %-6s %-44s %s\n' "$system" "$glibc" "$1" "$word"
}

# compare WHAT RANKS COMMAND...: as the bare run printed and ended, and with as many calls and bytes counted; none of 0 ranks.
compare() {
    what=$1
    counting=${2:-0}
    shift 2
    status=0
    "$@" >"$folder/out" 2>"$folder/err" || status=$?
    { sed 's/, [0-9.]* s$//' "$folder/out" && cat "$folder/err" && echo "status $status"; } >"$folder/shown"
    if [ "$what" = bare ]; then mv "$folder/shown" "$folder/bare" && return; fi
    same=0
    cmp -s "$folder/bare" "$folder/shown" || { diff "$folder/bare" "$folder/shown" | head -n 5; same=1; }
    test "$counting" = 0 || expected "$counting"
    # What a rank sent as it ended is counted a moment later.
    for _ in $(seq 50); do
        counted >"$folder/counted"
        cmp -s "$folder/total" "$folder/counted" && break
        sleep 0.1
    done
    diff "$folder/total" "$folder/counted" || same=1
    cp "$folder/counted" "$folder/total"
    verdict "$what" "$same"
}

within() { chroot "$root" env -i PATH=/usr/bin:/bin HOME=/root OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_plm_rsh_agent=/bin/false OMPI_MCA_mca_base_component_show_load_errors=0 OMPI_MCA_btl=self,vader \
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0 "$@"; }

# What the prolog exports for a task with these variables: the object, or nothing.
prolog() { within env "$@" /bin/sh /usr/lib/throughline/task-prolog.sh | sed -n 's/^export LD_PRELOAD=//p'; }

# The folder that containers mount (deploy/containers), and the agent's socket.
mount_ours() {
    mkdir -p "$root/usr/lib/throughline" "$root/run/throughline" "$root/proc" "$root/dev" "$root/tmp/traffic"
    mount --bind "$folder/objects" "$root/usr/lib/throughline"
    mount --bind "$folder/run" "$root/run/throughline"
    mount --bind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    cp crates/mpit-bridge/demo/traffic.c crates/mpit-bridge/include/throughline.h "$root/tmp/traffic"
}

on_this_processor() {
    exec=/usr/lib/throughline/throughline-exec
    compare bare 0 within /bin/echo hello
    for object in openmpi openmpi5 mpich mpi3; do
        compare "/bin/echo, LD_PRELOAD of $object" 0 \
            within env LD_PRELOAD="/usr/lib/throughline/libthroughline-$object.so" /bin/echo hello
    done
    for mpi in mpich openmpi; do
        within /bin/sh -c "cd /tmp/traffic && mpicc.$mpi -std=gnu99 -O1 -o traffic.$mpi traffic.c"
        case $mpi in
        mpich) launch='mpirun.mpich -n 4' task=PMI_RANK=0 ;;
        openmpi) launch='mpirun.openmpi --allow-run-as-root -n 4' task=PMIX_RANK=0 ;;
        esac
        program="/tmp/traffic/traffic.$mpi --rounds $rounds --pair-bytes 1024"
        # shellcheck disable=SC2086 # words are wanted
        {
            compare bare 0 within $launch $program
            # An MPI that lacks functions of all objects (Open MPI 1.10 has MPI 3.0) is not measured, and that is said.
            ranks=4
            within "$exec" --dry-run ${program%% *} | grep '^preload' >/dev/null || ranks=0
            compare "$mpi, throughline-exec" "$ranks" within $launch "$exec" $program
            compare "$mpi, TaskProlog" 4 within $launch env LD_PRELOAD="$(prolog $task THROUGHLINE_MPI=$mpi)" $program
            preload=$(prolog $task THROUGHLINE_EXEC="$exec")
            compare "$mpi, TaskProlog without THROUGHLINE_MPI" "${preload:+4}" within $launch env LD_PRELOAD="$preload" $program
        }
    done
    # That the system is as old as it says: what this machine's compiler makes ends a program there.
    cp "$folder/late.so" "$root/tmp/traffic"
    status=0
    within env LD_PRELOAD=/tmp/traffic/late.so /bin/echo hello >"$folder/out" 2>&1 || status=$?
    printf '%-10s glibc %-6s %-44s status %s\n' "$system" "$glibc" "/bin/echo, LD_PRELOAD of this machine's gcc" "$status"
}

# Ranks are processes of this machine's launcher, each under qemu: no script of the root's runs.
under_qemu() {
    if [ ! -x "$work/qemu-aarch64-static" ]; then
        (cd "$folder" && apt-get --quiet=2 download qemu-user-static 2>/dev/null && dpkg-deb --extract qemu-user-static_*.deb qemu)
        cp "$folder/qemu/usr/bin/qemu-aarch64-static" "$work/"
    fi
    export THROUGHLINE_ARCH=aarch64
    make --silent -C crates/mpit-bridge/shim OUT="$work/objects-aarch64"
    deploy/check-glibc.sh "$work"/objects-aarch64/*.so || failed=2
    xtask/user-cc.sh -O1 -Icrates/mpit-bridge/include -I"$root/usr/include/aarch64-linux-gnu/mpich" -Wl,--allow-shlib-undefined \
        -o "$folder/traffic.aarch64" crates/mpit-bridge/demo/traffic.c "$root/usr/lib/aarch64-linux-gnu/libmpich.so.12"
    qemu="$work/qemu-aarch64-static -L $root"
    program="$folder/traffic.aarch64 --rounds $rounds --pair-bytes 1024"
    preload="-E LD_PRELOAD=$work/objects-aarch64/libthroughline-mpich.so -E THROUGHLINE_SOCKET=$folder/run/mpi.sock"
    # shellcheck disable=SC2086 # words are wanted
    {
        compare bare 0 $qemu "$root/bin/echo" hello
        for object in openmpi openmpi5 mpich mpi3; do
            compare "/bin/echo, LD_PRELOAD of $object" 0 \
                $qemu -E LD_PRELOAD="$work/objects-aarch64/libthroughline-$object.so" "$root/bin/echo" hello
        done
        compare bare 0 mpirun.mpich -n 2 $qemu $program
        compare "mpich, LD_PRELOAD" 2 mpirun.mpich -n 2 $qemu $preload $program
    }
}

mkdir "$folder/objects"
cp target/debug/lib/throughline/libthroughline-*.so target/debug/throughline-exec deploy/slurm/task-prolog.sh "$folder/objects"
echo 'int dlclose(void *); int late(void *handle) { return dlclose(handle); }' |
    cc -shared -fPIC -o "$folder/late.so" -x c - -ldl
for system; do
    if ! unpack "$system"; then
        echo "$system: not run: its packages can't be had here"
        continue
    fi
    glibc=$(basename "$(readlink "$root"/lib/*-linux-gnu/libc.so.6)" .so | sed 's/libc-//')
    : >"$folder/total"
    start_agent
    if [ "$system" = arm64 ]; then
        under_qemu
    else
        mount_ours
        on_this_processor
    fi
    kill "$agent"
    wait "$agent" || true
    agent=
    rm -rf "$folder/state" "$folder/agent" "$folder/run"
done
exit $failed
