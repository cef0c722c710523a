#!/bin/sh
# Makes sure that the compilers, headers and tools that a build or a test needs are there.
# Installs what is missing with apt where it may (root, or sudo without a password); else it says exactly what
# is missing and how to install it. No package in this list starts a service.
set -eu

# package:file that proves it is there
needed='
gcc:/usr/bin/gcc
libc6-dev:/usr/include/stdio.h
binutils:/usr/bin/readelf
gfortran:/usr/bin/gfortran
musl-tools:/usr/bin/musl-gcc
make:/usr/bin/make
libibumad-dev:/usr/include/infiniband/umad.h
libopenmpi-dev:/usr/bin/mpicc.openmpi
openmpi-bin:/usr/bin/mpirun.openmpi
libmpich-dev:/usr/bin/mpicc.mpich
mpich:/usr/bin/mpirun.mpich
nodejs:/usr/bin/node
npm:/usr/bin/npm
python3:/usr/bin/python3
python3-pip:/usr/bin/pip3
python3-mpi4py:/usr/lib/python3/dist-packages/mpi4py
tcl:/usr/bin/tclsh
lua5.4:/usr/bin/lua5.4
shellcheck:/usr/bin/shellcheck
'

# PostgreSQL does not run as root: what root starts runs as a user of its own, never as nobody.
if [ "$(id -u)" = 0 ] && ! id throughline >/dev/null 2>&1 && ! id postgres >/dev/null 2>&1; then
    echo "deps: making the system user throughline, as which root runs the database" >&2
    useradd --system --no-create-home --shell /usr/sbin/nologin throughline
fi

missing=''
for entry in $needed; do
    [ -e "${entry#*:}" ] || missing="$missing ${entry%%:*}"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "deps: missing:$missing" >&2
    echo "deps: this system has no apt-get: install the like of these packages with its own tool" >&2
    exit 69
fi
if [ "$(id -u)" = 0 ]; then
    as_root=''
elif sudo -n true 2>/dev/null; then
    as_root='sudo'
else
    echo "deps: missing packages, and neither root nor sudo without a password. Run once:" >&2
    echo "    sudo apt-get install --no-install-recommends$missing" >&2
    exit 77
fi

echo "deps: installing$missing" >&2
# A source that can't be reached must not stop the others: the installation below decides.
$as_root apt-get -qq update || echo "deps: apt-get update had errors" >&2
# shellcheck disable=SC2086 # words are wanted: a list of packages, an optional sudo
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $missing >/dev/null
