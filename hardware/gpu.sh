#!/bin/sh
# The seven checks on a machine with an NVIDIA GPU, as root; writes what it finds to REPORT (default gpu-report.txt).
#   hardware/gpu.sh [REPORT]
# Everything is built before the first check. The checks together take less than 8 minutes: what would take longer is
# ended, and the report says so.
#   1 chip and start   2 fields and links, GPM (of partitions where there are some), the fabric of NVLinks
#   3 PCIe of a known copy   4 a second profiler, and whether the agent notices one   5 another user
#   6 latency, CPU, clocks   7 a sampler that is killed
# They are tests of crates/gpu named hardware and hardware_cupti. Environment: THROUGHLINE_CUPTI_LIBRARY is the path of a
# libcupti.so of CUDA 12.6 to 13.1 (else NVIDIA's package from the Python Package Index), THROUGHLINE_CHECK_SECONDS how long the
# agent's processor time is taken (default 30). On a machine without Rust, THROUGHLINE_AGENT is an agent that is built already, and
# THROUGHLINE_CHECKS the test program of crates/gpu (`cargo test --release --no-run -p throughline-gpu` names it), with
# throughline-gpu-sampler where it was built.
set -eu
cd "$(dirname "$0")/.."
report=${1:-gpu-report.txt}
seconds=${THROUGHLINE_CHECK_SECONDS:-30}
bytes=68719476736 # 64 GiB, some 1.2 seconds on a Gen5 slot
most=470          # seconds of all checks
folder=$(mktemp -d)
# An agent that a failure left running.
trap '[ ! -f "$folder/pid" ] || kill "$(cat "$folder/pid")" 2>/dev/null || true; rm -rf "$folder"' EXIT

command -v nvidia-smi >/dev/null || { echo "hardware/gpu.sh: there is no nvidia-smi: install the driver" >&2; exit 69; }
[ -n "${THROUGHLINE_AGENT-}" ] || cargo build --release --quiet -p throughline-agent
[ -n "${THROUGHLINE_CHECKS-}" ] || cargo test --release --quiet --no-run -p throughline-gpu
cc -O2 -o "$folder/copy" hardware/copy.c -ldl
# Another user must be able to run it, wherever the repository lies.
cp "${THROUGHLINE_AGENT:-target/release/throughline-agent}" "$folder/agent"
chmod 755 "$folder" "$folder/agent"
agent=$folder/agent
begin=$(date +%s)

# The test program, limited to so many seconds.
checks() {
    limit=$1; shift
    if [ -n "${THROUGHLINE_CHECKS-}" ]; then
        timeout "$limit" "$THROUGHLINE_CHECKS" "$@"
    else
        timeout "$limit" cargo test --release --quiet -p throughline-gpu --test all -- "$@"
    fi
}
# One check: a test of a module, its output without the harness's own lines.
check() {
    left=$((begin + most - $(date +%s)))
    [ "$left" -gt 0 ] || { echo "  left out, the time is over: $1 $2"; return 0; }
    [ "$left" -lt 120 ] || left=120
    status=0
    checks "$left" --ignored --nocapture --exact "$1::$2" >"$folder/said" 2>&1 || status=$?
    grep -v '^running \|^test \|^$' "$folder/said" || true
    [ "$status" -eq 0 ] || echo "  FAILED: $1 $2 (status $status)"
}
# The same for one that has copies made while it waits: it writes the direction of each, and waits for a file. One
# program makes them all: to begin one would hold up the readings.
copying() {
    rm -f "$THROUGHLINE_COPY_READY" "$THROUGHLINE_COPY_DONE" "$folder/orders"
    mkfifo "$folder/orders"
    "$folder/copy" "$bytes" <"$folder/orders" >"$folder/copied" 2>&1 &
    copier=$!
    exec 3>"$folder/orders"
    check "$1" "$2" >"$folder/copies" &
    watcher=$!
    ordered=0
    while kill -0 "$watcher" 2>/dev/null; do
        if [ -f "$THROUGHLINE_COPY_READY" ]; then
            direction=$(cat "$THROUGHLINE_COPY_READY")
            rm "$THROUGHLINE_COPY_READY"
            ordered=$((ordered + 1))
            order "$direction" || true
            while [ "$(grep -c '^[0-9]*$' "$folder/copied")" -lt "$ordered" ] && kill -0 "$copier" 2>/dev/null; do sleep 0.05; done
            [ "$(grep -c '^[0-9]*$' "$folder/copied")" -ge "$ordered" ] || echo "  the copy $direction the GPU failed: $(head -n 1 "$folder/copied")"
            : >"$THROUGHLINE_COPY_DONE"
        fi
        sleep 0.05
    done
    exec 3>&-
    wait "$copier" || true
    cat "$folder/copies"
}
# A copier that has ended reads no more: that is no end of the script.
order() { (trap '' PIPE; echo "$1" >&3) 2>/dev/null; }
# Processor time of a process and its children, milliseconds.
processor() {
    for one in "$1" $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        cat /proc/"$one"/task/*/schedstat 2>/dev/null
    done | awk '{ sum += $1 } END { printf "%d", sum / 1e6 }'
}
# Whether the log of an agent says this within 10 seconds.
logged() {
    for _ in $(seq 200); do
        ! grep -q "$1" "$folder/log" || return 0
        sleep 0.05
    done
    return 1
}
# How soon an agent that samples by CUPTI gives way to a program that is called as Nsight Compute is, and samples again.
notices() {
    echo 'int pause(void); int main(void) { return pause(); }' | cc -o "$folder/ncu" -x c -
    THROUGHLINE__CUPTI__ENABLED=true THROUGHLINE__CUPTI__LIBRARY="${THROUGHLINE_CUPTI_LIBRARY:-libcupti.so}" \
        THROUGHLINE__HTTP__LISTEN=127.0.0.1:0 THROUGHLINE__DELIVERY__COLLECTOR=http://127.0.0.1:9 \
        "$agent" run --log-level info --state-dir "$folder/noticing" >"$folder/listening" 2>"$folder/log" &
    pid=$!
    echo "$pid" >"$folder/pid"
    if logged 'CUPTI is open'; then
        sleep 2
        begun=$(date +%s%3N)
        "$folder/ncu" &
        profiler=$!
        if logged 'source.paused: ncu profiles'; then
            echo "  a program called ncu: noticed after $(($(date +%s%3N) - begun)) ms, $(grep -c 'the GPUs are given back' "$folder/log") times given back"
        else
            echo "  FAILED: a program called ncu is not noticed"
        fi
        kill "$profiler"
        wait "$profiler" 2>/dev/null || true
        begun=$(date +%s%3N)
        if logged 'over after .* ncu profiles'; then
            echo "  sampled again $(($(date +%s%3N) - begun)) ms after its end"
        else
            echo "  FAILED: it is not sampled again"
        fi
    else
        echo "  whether a profiler is noticed: left out, CUPTI does not start"
    fi
    kill "$pid"
    wait "$pid" || true
    rm "$folder/pid"
}
children() { cat /proc/"$1"/task/*/children 2>/dev/null | tr '\n' ' '; }
clock() { nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw --format=csv,noheader -i 0; }

{
    echo "== machine"
    date -u '+%Y-%m-%dT%H:%M:%SZ'
    nvidia-smi --query-gpu=index,name,driver_version,pci.bus_id,mig.mode.current --format=csv,noheader
    uname -r
    "$agent" gpu doctor || true
    "$agent" gpu topo --physical || true

    echo "== 1 chip, PM sampling without a context, start-up"
    check hardware_cupti start

    echo "== 2 fields and links with their codes"
    check hardware each_field_answers_with_a_code_and_what_is_absent_is_reported
    check hardware what_gpm_and_the_fabric_answer

    echo "== 3 pinned copies of $bytes bytes, to the GPU and from it"
    export THROUGHLINE_COPY_BYTES="$bytes" THROUGHLINE_COPY_READY="$folder/ready" THROUGHLINE_COPY_DONE="$folder/done"
    copying hardware a_copy_shows_in_pcie_bytes
    copying hardware_cupti copy

    echo "== 4 a second profiler during sampling"
    check hardware_cupti busy
    notices

    echo "== 5 as another user"
    if id nobody >/dev/null 2>&1; then
        setpriv --reuid nobody --clear-groups "$agent" gpu doctor --state-dir "$folder/nobody" || true
    fi
    check hardware_cupti user

    echo "== 6 latency of a poll, processor time, clocks"
    check hardware a_poll_takes_so_long
    echo "  clocks with nothing running: $(clock)"
    THROUGHLINE__HTTP__LISTEN=127.0.0.1:0 THROUGHLINE__DELIVERY__COLLECTOR=http://127.0.0.1:9 \
        "$agent" run --log-level warn --state-dir "$folder/state" >"$folder/listening" &
    pid=$!
    echo "$pid" >"$folder/pid"
    sleep 5
    before=$(processor "$pid")
    sleep "$seconds"
    used=$(($(processor "$pid") - before))
    echo "  agent and sampler at one reading a second: $used ms of processor time in $seconds s," \
        "$(awk "BEGIN { printf \"%.3f\", $used / $seconds / 10 }") % of a core"
    echo "  clocks with NVML sampling: $(clock)"
    check hardware_cupti clocks

    echo "== 7 a sampler that is killed"
    sampler=$(children "$pid" | cut -d ' ' -f 1)
    if [ -n "$sampler" ]; then
        kill -9 "$sampler"
        # A pause of a second comes first; a slow machine may take longer.
        now=''
        for _ in $(seq 100); do
            now=$(children "$pid")
            case $now in '' | "$sampler ") sleep 0.2 ;; *) break ;; esac
        done
        echo "  NVML's: killed $sampler; now there is $now"
    else
        echo "  NVML's: the agent has none, see the machine above"
    fi
    kill "$pid"
    wait "$pid" || true
    rm "$folder/pid"
    check hardware_cupti killed
    echo "== took $(($(date +%s) - begin)) s"
} 2>&1 | tee "$report"
# Status 2 where a check found something, as everywhere.
! grep -q '^  FAILED: \|^  left out, the time' "$report" || exit 2
