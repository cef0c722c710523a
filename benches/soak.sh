#!/bin/sh
# Long runs that `make test` has no time for: the same tests, longer, and the crawler for THROUGHLINE_SOAK_MINUTES (10).
set -eu
cd "$(dirname "$0")/.."

echo "== spool: 5,000 random histories, each crashed at every operation"
PROPTEST_CASES=5000 cargo test --quiet -p throughline-spool --test spool model

echo "== verdicts: precision and recall over 500 generated programs and as many fabrics"
THROUGHLINE_SEEDS=500 cargo test --quiet --release -p throughline-verdicts

echo "== delivery: serve killed 20 times, writers at random, the database 30 s away"
THROUGHLINE_AWAY_SECONDS=30 cargo test --quiet -p throughline-cli --test all -- crash_delivery:: --nocapture

echo "== chaos: all real processes killed, stopped, filled, torn and partitioned, ${THROUGHLINE_CHAOS_MINUTES:-60} minutes"
# Prints each fault with its time, and at the end PASS or FAIL with the seed; THROUGHLINE_CHAOS_SEED repeats one.
# For an hour beside other work: cargo run -p throughline-chaos -- --minutes 60 --seed 18
cargo build --quiet --workspace --bins
cargo run --quiet -p throughline-chaos -- --minutes "${THROUGHLINE_CHAOS_MINUTES:-60}"

echo "== fabric: 4 sweeps a second of 1,428 hosts with rows committed, ${THROUGHLINE_SOAK_MINUTES:-10} minutes"
benches/fabric.sh soak --minutes "${THROUGHLINE_SOAK_MINUTES:-10}"

echo "== fabrics: two with equal prefixes, crawlers and managers killed at random, ${THROUGHLINE_SOAK_MINUTES:-10} minutes"
benches/two-fabrics.sh --minutes "${THROUGHLINE_SOAK_MINUTES:-10}"
benches/two-fabrics.sh --minutes "${THROUGHLINE_SOAK_MINUTES:-10}" --same-name

echo "== MPI: the generated program on 1 to 8 ranks, with and without threads, in C and Fortran"
cargo test --quiet -p throughline-mpit-bridge --test all -- --ignored --exact mpi::generated::all_shapes --nocapture

echo "== MPI: 1,000 launches by one port are 1,000 jobs"
cargo test --quiet -p throughline-mpit-bridge --test all -- --ignored --exact mpi::launches::a_thousand_launches_are_a_thousand_jobs --nocapture

echo "== MPI: counting and faults on every library that is here or can be had"
benches/mpi-matrix.sh

echo "== traces: clocks with known faults lined up"
benches/trace.sh

echo "== remote write: receivers away for ten minutes, a vmstorage and serve killed"
AWAY_SECONDS=600 SECONDS_OF_SAMPLES=1200 benches/remote-write.sh
