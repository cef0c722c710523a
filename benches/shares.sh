#!/bin/sh
# Shares of links on generated fabrics: the distribution of their errors, and time and memory of one window of large fabrics.
# `errors [SEEDS]` or `large [FABRIC]` alone.
set -eu
cd "$(dirname "$0")/.."
exec cargo bench -q -p throughline-shares --bench shares -- "$@"
