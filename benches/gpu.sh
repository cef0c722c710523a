#!/bin/sh
# GPU readings against the NVML test double: what one poll costs in time, instructions of our own code and allocations,
# what the agent costs, how long a sampler takes to start, what looking for users' profilers costs and how soon one has the GPUs. Each figure stands against its goal; status 2 where one is
# missed. Needs valgrind for the instructions, and an idle machine for the times. Options: --seconds N (of the agent, 60).
set -eu
cd "$(dirname "$0")/.."
seconds=60
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=$2; shift 2 ;;
    *) echo "usage: benches/gpu.sh [--seconds N]" >&2; exit 64 ;;
    esac
done
cargo build --release --quiet -p throughline-agent -p throughline-benches
make -s -C crates/gpu/testdouble OUT="$PWD/target/release/lib/throughline"
status=0
missed() { [ "$1" -eq 2 ] || exit "$1"; status=2; }

echo "== one poll of 8 GPUs with 18 links"
THROUGHLINE_NVML_SCENARIO=$PWD/crates/gpu/scenarios/hgx-h200.scenario
export THROUGHLINE_NVML_SCENARIO
target/release/bench-gpu poll || missed $?

if command -v valgrind >/dev/null; then
    # Self cost by object, of many polls less that of few: start and survey drop out, and the double's share is listed by itself.
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    for count in 100 600; do
        valgrind --tool=callgrind --callgrind-out-file="$folder/$count" --compress-strings=no --compress-pos=no \
            target/release/bench-gpu poll --count "$count" >/dev/null 2>"$folder/log" || { [ $? -eq 2 ] || { cat "$folder/log"; exit 1; }; }
    done
    awk '
        FNR == 1 { file++ }
        /^ob=/ { object = substr($0, 4); next }
        /^calls=/ { getline; next }                     # the cost of a call belongs to what was called
        /^(0x|[0-9+*-])/ { self[file, object ~ /bench-gpu$/ ? "own" : object ~ /libnvidia-ml/ ? "double" : "system"] += $2 }
        END {
            for (part in self) { split(part, key, SUBSEP); names[key[2]] = 1 }
            for (name in names) printf "  %-44s %10.0f instructions a poll\n", name, (self[2, name] - self[1, name]) / 500
        }' "$folder/100" "$folder/600" | sed 's/^  own   /  our code/; s/^  double      /  the test double/; s/^  system      /  C library   /'
else
    echo "  instructions: left out, valgrind is not installed"
fi

echo "== allocations"
if cargo test --quiet -p throughline-gpu --test allocations >/dev/null 2>&1; then
    echo "  none in the steady state (crates/gpu/tests/allocations.rs): met"
else
    echo "  crates/gpu/tests/allocations.rs fails: MISSED"; status=2
fi

echo "== counters that wrap and are reset: 1,000,000 random sequences"
if THROUGHLINE_TEST_SEQUENCES=1000000 cargo test --release --quiet -p throughline-gpu --test all sequences:: >/dev/null 2>&1; then
    echo "  no rate is negative or absurd: met"
else
    echo "  crates/gpu/tests/all/sequences.rs fails: MISSED"; status=2
fi
if THROUGHLINE_TEST_SEQUENCES=1000000 cargo test --quiet -p throughline-store --test all gpu_rates >/dev/null 2>&1; then
    echo "  the database makes the same of them: met"
else
    echo "  crates/store/tests/all/gpu_rates.rs fails: MISSED"; status=2
fi

echo "== start"
target/release/bench-gpu start || missed $?
echo "== agent"
target/release/bench-gpu agent --seconds "$seconds" || missed $?
echo "== users' profilers"
target/release/bench-gpu profilers --seconds "$seconds" || missed $?
exit "$status"
