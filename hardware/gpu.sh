#!/bin/sh
# The seven checks on a machine with an NVIDIA GPU, as root; writes what it finds to REPORT (default gpu-report.txt).
# Everything is built before the first check; the checks take less than 8 minutes.
#   1 chip and start   2 fields and links   3 PCIe of a known copy   4 a second profiler   5 another user
#   6 latency, CPU, clocks   7 a sampler that is killed
# Checks of CUPTI are tests of crates/gpu named hardware_cupti; without that file they are named as left out.
set -eu
cd "$(dirname "$0")/.."
report=${1:-gpu-report.txt}
bytes=17179869184 # 16 GiB each way
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

command -v nvidia-smi >/dev/null || { echo "hardware/gpu.sh: there is no nvidia-smi: install the driver" >&2; exit 69; }
cargo build --release --quiet -p throughline-agent
cargo test --release --quiet --no-run -p throughline-gpu
cc -O2 -o "$folder/copy" hardware/copy.c -ldl
agent=$PWD/target/release/throughline-agent

# A test of hardware.rs, its output without the harness's own lines.
check() {
    timeout 120 cargo test --release --quiet -p throughline-gpu --test hardware -- --ignored --nocapture --exact "$1" 2>&1 |
        grep -v '^running \|^test \|^$' || echo "  failed: $1"
}
cupti() {
    if [ -f crates/gpu/tests/hardware_cupti.rs ]; then
        timeout 120 cargo test --release --quiet -p throughline-gpu --test hardware_cupti -- --ignored --nocapture "$1" 2>&1 |
            grep -v '^running \|^test \|^$' || echo "  failed: $1"
    else
        echo "  left out: there is no crates/gpu/tests/hardware_cupti.rs"
    fi
}
# Processor time of a process and its children, seconds.
processor() {
    for pid in "$1" $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        cat /proc/"$pid"/task/*/schedstat 2>/dev/null
    done | awk '{ sum += $1 } END { printf "%.3f", sum / 1e9 }'
}
clock() { nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw --format=csv,noheader -i 0; }

{
    begin=$(date +%s)
    echo "== machine"
    date -u '+%Y-%m-%dT%H:%M:%SZ'
    nvidia-smi --query-gpu=index,name,driver_version,pci.bus_id,mig.mode.current --format=csv,noheader
    uname -r
    "$agent" gpu doctor || true
    "$agent" gpu topo --physical || true

    echo "== 1 chip, PM sampling without a context, start-up"
    cupti start
    echo "== 2 fields and links with their codes"
    check each_field_answers_with_a_code_and_what_is_absent_is_told

    echo "== 3 a pinned copy of $bytes bytes each way"
    export THROUGHLINE_COPY_BYTES="$bytes" THROUGHLINE_COPY_READY="$folder/ready" THROUGHLINE_COPY_DONE="$folder/done"
    check a_copy_shows_in_pcie_bytes >"$folder/copies" &
    watcher=$!
    while kill -0 "$watcher" 2>/dev/null; do
        if [ -f "$folder/ready" ]; then
            rm "$folder/ready"
            "$folder/copy" "$bytes" >/dev/null || echo "  the copy failed"
            : >"$folder/done"
        fi
        sleep 0.1
    done
    cat "$folder/copies"

    echo "== 4 a second profiler during sampling"
    cupti busy
    echo "== 5 as another user"
    if id nobody >/dev/null 2>&1; then
        setpriv --reuid nobody --clear-groups "$agent" gpu doctor --state-dir "$folder/nobody" || true
    fi
    cupti user

    echo "== 6 latency of a poll, processor time, clocks"
    check a_poll_takes_so_long
    echo "  clocks with nothing running: $(clock)"
    THROUGHLINE__HTTP__LISTEN=127.0.0.1:0 THROUGHLINE__DELIVERY__COLLECTOR=http://127.0.0.1:9 \
        "$agent" run --log-level warn --state-dir "$folder/state" >"$folder/listening" &
    pid=$!
    sleep 5
    before=$(processor "$pid")
    sleep 30
    after=$(processor "$pid")
    echo "  agent and sampler at one reading a second: $before to $after s of processor time in 30 s"
    echo "  clocks with NVML sampling: $(clock)"
    cupti clocks

    echo "== 7 a sampler that is killed"
    sampler=$(tr ' ' '\n' <"/proc/$pid/task/$pid/children" | head -n 1)
    [ -n "$sampler" ] || sampler=$(cat /proc/"$pid"/task/*/children | tr ' ' '\n' | head -n 1)
    if [ -n "$sampler" ]; then
        kill -9 "$sampler"
        sleep 3
        echo "  killed $sampler; children now: $(cat /proc/"$pid"/task/*/children | tr '\n' ' ')"
    fi
    kill "$pid"
    wait "$pid" || true
    cupti killed
    echo "== took $(($(date +%s) - begin)) s"
} 2>&1 | tee "$report"
