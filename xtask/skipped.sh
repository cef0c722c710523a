#!/bin/sh
# Reports that a check outside of the test programs was skipped, as tests/support does for tests: one line, and the
# same line in the file of THROUGHLINE_SKIPPED_FILE. In continuous integration (CI=true) it exits with 69 after
# `missing`, which names something that can be installed there.
#
# xtask/skipped.sh missing WHAT REASON      what is missing can be had on a machine of continuous integration
# xtask/skipped.sh left-out WHAT REASON     it cannot
# xtask/skipped.sh list FILE                the list at the end of `make test`
set -eu
case $1 in
    missing | left-out)
        line="SKIPPED $2: $3"
        echo "$line" >&2
        [ -z "${THROUGHLINE_SKIPPED_FILE:-}" ] || echo "$line" >>"$THROUGHLINE_SKIPPED_FILE"
        if [ "$1" = missing ] && { [ "${CI:-}" = true ] || [ "${CI:-}" = 1 ]; }; then
            echo "CI=true: a check that checks nothing is a failure; install what is missing" >&2
            exit 69
        fi
        ;;
    list)
        if [ -s "$2" ]; then
            echo "$(wc -l <"$2") tests and checks were skipped:"
            sort "$2"
        else
            echo "no test and no check was skipped"
        fi
        ;;
    *)
        echo "skipped.sh: unknown command '$1': missing, left-out or list" >&2
        exit 64
        ;;
esac
