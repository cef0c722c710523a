#!/bin/sh
# Puts what `make build` made, and the files of deploy/ that have one place on every machine, below $DESTDIR$PREFIX:
#   make build && sudo make install                          PREFIX is /usr, where the unit files look
#   make install DESTDIR=stage PREFIX=/opt/throughline       for a package, or another place; paths in files follow
# What a site has to choose or edit (configuration, module files, recipes of schedulers, Prometheus, Grafana) goes to
# share/throughline. Starts and enables nothing. Usage: deploy/install.sh FOLDER-WITH-THE-PROGRAMS
set -eu
from=${1:?usage: deploy/install.sh FOLDER-WITH-THE-PROGRAMS}
prefix=${PREFIX:-/usr}
root=${DESTDIR:-}$prefix
top=$(cd "$(dirname "$0")/.." && pwd)

case $prefix in
/*) ;;
*) echo "install: PREFIX=$prefix is no absolute path" >&2 && exit 64 ;;
esac
# throughline-demo stays out: it has simulators and test doubles in it.
programs='throughline throughline-agent throughline-fabric throughline-exec'
objects='openmpi openmpi5 mpich mpi3'
missing=''
for program in $programs; do [ -x "$from/$program" ] || missing="$missing $program"; done
for object in $objects; do
    [ -f "$from/lib/throughline/libthroughline-$object.so" ] || missing="$missing libthroughline-$object.so"
done
if [ -n "$missing" ]; then
    echo "install: not in $from:$missing; make build makes them" >&2
    exit 69
fi
# Programs of a build without .cargo/config.toml, or of another linker, may need the glibc of the machine that built them.
if command -v readelf >/dev/null; then
    "$top/deploy/check-glibc.sh" "$from/throughline-exec" "$from"/lib/throughline/libthroughline-*.so ||
        echo "install: programs in containers of older systems will end at once; make build makes what they need" >&2
fi

# put MODE FILE FOLDER: a copy in which paths below /usr are those of this prefix. New under its own name and then
# moved: a running program or a mapped object must not change below its user.
put() {
    name=$(basename "$2")
    mkdir -p "$root/$3"
    if [ "$prefix" = /usr ] || ! grep -Iq . "$2"; then
        cp "$2" "$root/$3/.$name.new"
    else
        sed -e "s,/usr/bin/throughline,$prefix/bin/throughline,g" \
            -e "s,/usr/lib/throughline,$prefix/lib/throughline,g" "$2" >"$root/$3/.$name.new"
    fi
    chmod "$1" "$root/$3/.$name.new"
    mv "$root/$3/.$name.new" "$root/$3/$name"
}

# put_program NAME: without debug information, which goes to a file of its own where debuggers and backtraces look for it
# (.gnu_debuglink, which holds that file's CRC): five sixths of a program, and needed on few nodes.
case $prefix in
/usr) debug=lib/debug/usr/bin ;;
*) debug=bin/.debug ;;
esac
put_program() {
    mkdir -p "$root/bin" "$root/$debug"
    objcopy --only-keep-debug "$from/$1" "$root/$debug/$1.debug"
    chmod 644 "$root/$debug/$1.debug"
    objcopy --strip-all --add-gnu-debuglink="$root/$debug/$1.debug" "$from/$1" "$root/bin/.$1.new"
    chmod 755 "$root/bin/.$1.new"
    mv "$root/bin/.$1.new" "$root/bin/$1"
}

if command -v objcopy >/dev/null; then
    for program in $programs; do put_program "$program"; done
else
    echo "install: the programs keep their debug information, as objcopy (package binutils) is not there" >&2
    for program in $programs; do put 755 "$from/$program" bin; done
fi
for object in $objects; do put 644 "$from/lib/throughline/libthroughline-$object.so" lib/throughline; done
put 755 "$top/deploy/slurm/task-prolog.sh" lib/throughline
put 755 "$top/deploy/containers/oci-hook" lib/throughline
put 644 "$top/crates/mpit-bridge/include/throughline.h" include
for file in "$top"/deploy/systemd/*; do put 644 "$file" lib/systemd/system; done
put 644 "$top/deploy/sysusers.d/throughline.conf" lib/sysusers.d
put 644 "$top/deploy/tmpfiles.d/throughline.conf" lib/tmpfiles.d
for file in "$top"/deploy/udev/*; do put 644 "$file" lib/udev/rules.d; done
(cd "$top/deploy" && find config containers grafana modulefiles pbs postgresql prometheus slurm -type f) | while read -r file; do
    put 644 "$top/deploy/$file" "share/throughline/$(dirname "$file")"
done
for file in "$top"/dashboards/*.json; do put 644 "$file" share/throughline/dashboards; done
put 644 "$top/dashboards/site.toml" share/throughline/dashboards
echo "installed below $root; next: $prefix/share/throughline/config, and deploy/README.md"
