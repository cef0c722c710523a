#!/bin/sh
# Checks that what enters users' programs and containers needs no later glibc than 2.17. For want of a symbol's version the
# dynamic loader ends a program before anything of ours runs, so this is the only guard.
#   deploy/check-glibc.sh FILE...     names each symbol of a later version; exits 2 if there is one
set -eu
: "${1:?usage: deploy/check-glibc.sh FILE...}"
status=0
for file; do
    readelf --file-header "$file" >/dev/null || exit 69
    readelf --wide --version-info --dyn-syms "$file" | awk -v file="$file" '
        # GLIBC_2.2.5 is early; GLIBC_ABI_DT_RELR and GLIBC_PRIVATE, which have no number, are not.
        function late(version, number) {
            if (version !~ /^GLIBC_/) return 0
            split(substr(version, 7), number, ".")
            return number[1] != "2" || number[2] + 0 > 17
        }
        function report(symbol, version) {
            print file ": " symbol " needs " version ", later than GLIBC_2.17" | "cat >&2"
            found = 1
        }
        $2 == "Name:" && late($3) { needed[$3] }
        $7 == "UND" && split($8, symbol, "@") > 1 && late(symbol[2]) { report(symbol[1], symbol[2]); named[symbol[2]] }
        END {
            for (version in needed) if (!(version in named)) report("it", version)
            exit found ? 2 : 0
        }' || status=2
done
exit $status
