#!/bin/sh
# Shares of links on generated fabrics: the distribution of their errors, and time and memory of one window of large fabrics.
# `errors [SEEDS]` or `large [FABRIC]` alone. `window`: a window of 1,428 hosts and 200 jobs with the database, as upkeep makes it, and
# the API's answers about it; builds the gateway's tests in release.
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" = window ]; then
    exec cargo test -q --release -p throughline-gateway --lib -- --ignored --exact --nocapture \
        api::tests::link_shares_scale::a_window_of_1428_hosts_and_200_jobs
fi
exec cargo bench -q -p throughline-shares --bench shares -- "$@"
