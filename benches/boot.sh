#!/bin/sh
# Boots a node with all units enabled, systemd as PID 1 of a Debian root file system with what `make install` puts there, 13
# times, and looks at each boot and shutdown; status 2 where one is not right. In the last boot MPI programs of another user
# end while the agent is stopped, and the next agent has to have all their calls. Needs root, and mmdebstrap (installed by
# apt where it is missing). Namespaces, no virtual machine: nothing is tested that needs devices or cgroup controllers.
#   BOOTS=13  SUITE=(this machine's)  FROM=target/release  UNITS=deploy/systemd (others, to see what they do)  PATIENCE=60 (s)
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "boot: needs root, for a root file system and namespaces" >&2 && exit 77; }
boots=${BOOTS:-13} units=${UNITS:-deploy/systemd}
suite=${SUITE:-$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)}
prefix=${THROUGHLINE_PREFIX:-/var/lib/throughline/prefix}
patience_seconds=${PATIENCE:-60}
folder=$(mktemp -d) machine='' init='' reader=''
root=$folder/root
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
[ -n "$cgroups" ] || { echo "boot: cgroup2 is mounted nowhere on this machine" >&2 && exit 69; }
cgroup=$cgroups/throughline-boot-$$

# shellcheck disable=SC2317,SC2329 # the trap calls it
finish() {
    # With the parent of its PID 1 the whole machine ends, mounts included.
    for process in $machine $reader; do
        kill -s KILL "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    [ ! -d "$cgroup" ] || find "$cgroup" -depth -type d -exec rmdir {} + || true
    rm -rf --one-file-system "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM

make_root() {
    if [ -n "${FROM:-}" ]; then
        from=$FROM
    else
        from=target/release
        make -s build
    fi
    [ -e "$prefix/.ready-postgres" ] || cargo xtask prefix postgres
    command -v mmdebstrap >/dev/null || apt-get -qq -y install --no-install-recommends mmdebstrap >/dev/null
    mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,mpich,libibumad3 "$suite" "$root"
    make -s install DESTDIR="$root" FROM="$from" >/dev/null
    cp "$units"/* "$root/usr/lib/systemd/system"
    mkdir -p "$root$prefix" "$root/etc/throughline" "$root/var/log/journal"
    cp -a "$prefix/postgres" "$prefix/.ready-postgres" "$root$prefix"
    printf '[database]\npg_bin = "%s/postgres/bin"\n' "$prefix" >"$root/etc/throughline/server.toml"
    echo node1 >"$root/etc/hostname"
    echo "127.0.0.1 localhost node1" >"$root/etc/hosts"
    : >"$root/etc/machine-id"
    chroot "$root" systemd-sysusers 2>/dev/null
    chroot "$root" useradd --create-home alice
    chroot "$root" useradd --create-home bob
    # Later systemctl warns that a root file system at rest has no /proc.
    for unit in "$units"/*.service; do
        chroot "$root" systemctl --quiet enable "${unit##*/}" 2>/dev/null ||
            { echo "boot: ${unit##*/} can't be enabled" >&2 && exit 1; }
    done
    mpicc.mpich -O1 -o "$root/usr/bin/allreduce" crates/mpit-bridge/tests/programs/allreduce.c
}

# until_true COMMAND...: whether it succeeded before patience ended.
until_true() {
    tries=$((patience_seconds * 5))
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.2
    done
}

boot() {
    rm -rf "$root"/var/log/journal/* "$folder/kmsg.log"
    [ -p "$folder/kmsg" ] || mkfifo "$folder/kmsg"
    # Open for writing as well: it has no end while nobody writes.
    cat <>"$folder/kmsg" >"$folder/kmsg.log" &
    reader=$!
    mkdir -p "$cgroup"
    # shellcheck disable=SC2016 # for the inner shell
    setsid sh -c 'echo $$ >"$1/cgroup.procs" && exec unshare --mount --uts --ipc --net --pid --cgroup --fork --kill-child \
        sh benches/boot/machine.sh "$2" "$3"' sh "$cgroup" "$root" "$folder/kmsg" </dev/null >"$folder/console" 2>&1 &
    machine=$!
    until_true is_up
}

is_up() {
    init=$(cat "/proc/$machine/task/$machine/children" 2>/dev/null) && init=${init% } && [ -n "$init" ] &&
        [ "$(cat "/proc/$init/comm")" = systemd ] && inside systemctl is-active --quiet multi-user.target
}

inside() {
    nsenter --all --target "$init" "$@" 2>>"$folder/stderr"
}

as() {
    user=$1
    shift
    inside setpriv --reuid "$user" --regid "$user" --clear-groups env -i HOME=/tmp PATH=/usr/bin:/bin "$@"
}

# page PORT PATH: what a daemon of the machine serves; the network is the machine's, curl this one's.
page() {
    nsenter --net --target "$init" curl -s --max-time 5 "http://127.0.0.1:$1$2"
}

is_ok() { page "$1" /healthz | grep -q '^ok'; }
is_substate() { [ "$(inside systemctl show -P SubState "$1")" = "$2" ]; }
is_first_start() { [ "$(inside systemctl show -P NRestarts "$1")" = 0 ]; }
has_status() { [ "$(inside systemctl show -P ExecMainStatus "$1")" = "$2" ]; }
is_owned() { [ "$(inside stat -c '%U:%G %a' "$1")" = "$2" ]; }
# Apart from the crawler, which later systemd counts as failed before each new start.
no_failed_unit() { ! inside systemctl list-units --failed --plain --no-legend | grep -qv '^throughline-fabric'; }
no_line() { ! grep -q "$2" "$1"; }
is_gone() { ! kill -0 "$machine" 2>/dev/null; }

# Whether the journal has the first text before the second one.
is_before() {
    awk -v first="$1" -v second="$2" 'index($0, first) { a = NR } index($0, second) { b = NR } END { exit !(a && b && a < b) }' \
        "$folder/journal"
}

# expect WHAT COMMAND...: adds to what is wrong with this boot.
expect() {
    what=$1
    shift
    "$@" >/dev/null || wrong="$wrong; $what"
}

look_at_boot() {
    expect "local-fs.target was not reached" is_substate local-fs.target active
    expect "tmpfiles did not run" is_substate systemd-tmpfiles-setup.service exited
    expect "/run/throughline is not throughline's" is_owned /run/throughline 'throughline:throughline 755'
    expect "last totals are not mounted" is_substate run-throughline-mpi.sock.last.mount mounted
    expect "last totals have another owner or mode" is_owned /run/throughline/mpi.sock.last 'throughline:throughline 3733'
    expect "serve is not well" until_true is_ok 9460
    expect "the agent is not well" until_true is_ok 9461
    # Without an adapter the crawler ends with 69 and is started again (docs/FABRIC.md).
    expect "the crawler did not end with 69" until_true has_status throughline-fabric 69
    for unit in serve agent; do
        expect "$unit does not run" is_substate throughline-$unit running
        expect "$unit was started again" is_first_start throughline-$unit
    done
    expect "units failed" no_failed_unit
}

shut_down() {
    inside systemctl poweroff || true
    expect "no shutdown in $patience_seconds s" until_true is_gone
    kill -s KILL "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
    kill "$reader"
    wait "$reader" 2>/dev/null || true
    machine='' reader=''
    journalctl --directory "$root/var/log/journal" --no-pager >"$folder/journal" 2>/dev/null
    cat "$folder/kmsg.log" >>"$folder/journal"
    expect "systemd found a cycle" no_line "$folder/journal" 'ordering cycle'
    expect "the agent uses no folder of last totals" no_line "$folder/journal" 'leave no totals'
    expect "something had to be killed" no_line "$folder/journal" 'timed out\|Killing process\|Failed unmounting'
    expect "the mount did not go after the agent" is_before 'Stopped throughline-agent.service' \
        'Unmounted run-throughline-mpi.sock.last.mount'
    expect "PostgreSQL was not stopped" test ! -e "$root/var/lib/throughline/db/data/postmaster.pid"
}

. benches/boot/last_totals.sh

make_root
failed=0
mkdir -p target/boot
for number in $(seq "$boots"); do
    wrong=''
    expect "multi-user.target was not reached" boot
    look_at_boot
    totals=''
    [ "$number" != "$boots" ] || last_totals
    shut_down
    if [ -n "$wrong" ]; then
        failed=$((failed + 1))
        cp "$folder/journal" "target/boot/journal-$number"
        echo "boot $number: WRONG: ${wrong#; } (target/boot/journal-$number)"
    else
        echo "boot $number: right$totals"
    fi
done
echo "$((boots - failed)) of $boots boots of $suite right, $(chroot "$root" systemctl --version | sed -n '1s/ (.*//p')"
[ $failed = 0 ] || exit 2
