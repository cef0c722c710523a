#!/bin/sh
# How well a trace lines up: 4 ranks of a program with known pauses, on Open MPI, under the shim, through agent, server
# and database to the file; clocks with known offsets, drift and a step; each time in the file against the true one.
# Prints median, 90 %, 99 % and the largest error against the goal of 10 us, leaving out what is marked as near the
# step, and how many receives lie before their send. Status 2 when a goal is missed.
# For a machine that does nothing else: the figures are about microseconds.
set -eu
cd "$(dirname "$0")/.."
cargo build --quiet --package throughline-agent --package throughline-mpit-bridge --bins
cargo test --quiet --package throughline-cli --test all --no-run
cargo test --quiet --package throughline-cli --test all -- --ignored --exact job::trace::measured --nocapture || exit 2
