#!/bin/sh
# PID 1 of new namespaces becomes systemd in a root file system: machine.sh ROOT KMSG, for benches/boot.sh.
# It has what a container has: the kernel is not its own, so /sys and /proc/sys are read-only, and it may neither load modules
# nor set the clock; and there are no devices.
# KMSG is a FIFO that takes what systemd logs: it reports cycles of the boot before the journal runs.
set -eu
root=$1 kmsg=$2
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc -o nosuid,nodev,noexec proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
mount -t tmpfs -o nosuid,mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    : >dev/$device
    mount --bind /dev/$device dev/$device
done
: >dev/kmsg
mount --bind "$kmsg" dev/kmsg
mkdir dev/pts dev/shm dev/host
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
pivot_root . dev/host
umount -l /dev/host
rmdir /dev/host
exec env -i container=throughline-boot PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    setpriv --bounding-set=-sys_module,-sys_time /sbin/init --log-target=journal-or-kmsg --show-status=no
