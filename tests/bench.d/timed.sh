#!/bin/bash
# Prints what sampling costs: elapsed time of a fixed amount of work under each sampler, over that of the native run made
# just before it (median of the ratios; quartiles in brackets). One and two threads. rprof: at the rate that it chooses, 1 kHz or
# less where a sample is dear. All others: 1 kHz, ptrace at most. bare-timer is an event that only interrupts: no sampler of that
# rate can cost less on this host.
#
#   [THREADS=1] tests/bench.d/timed.sh [ROUNDS]
set -euo pipefail
rounds=${1:-9}
root=$(cd "$(dirname "$0")/../.." && pwd)
sample=${SAMPLE:-$root/target/release/examples/sample}
[ -x "$sample" ] || (cd "$root" && cargo build -q --release --example sample)
. "$root/tests/bench.d/common.sh"
fixed_work

run() { # VARIANT THREADS: prints the seconds that the work took
    local work=("$work_dir/fixed" "$2" $((millions * $2)))
    case $1 in
    native) "${work[@]}" ;;
    bare-timer) "$work_dir/bare_timer" "${work[@]}" ;;
    rprof) "$sample" --perf --quiet -- "${work[@]}" ;;
    rprof-perf) "$sample" --perf -F 1000 --quiet -- "${work[@]}" ;;
    rprof-perf-fp) "$sample" --perf -F 1000 --stack 0 --quiet -- "${work[@]}" ;;
    rprof-ptrace) "$sample" --ptrace --quiet -- "${work[@]}" 2>/dev/null ;;
    perf-record) perf record -q -F 1000 -e cpu-clock -g -o "$work_dir/perf.data" -- "${work[@]}" 2>/dev/null ;;
    esac
}

variants=(rprof bare-timer rprof-perf rprof-perf-fp rprof-ptrace)
command -v perf >/dev/null && variants+=(perf-record)
for threads in ${THREADS:-1 2}; do
    [ "$(nproc)" -ge "$threads" ] || { echo "SKIPPED: $threads threads on $(nproc) CPU"; continue; }
    for round in $(seq "$rounds"); do
        for variant in native "${variants[@]}"; do
            native=$(run native "$threads")
            echo "$variant $(awk -v a="$(run "$variant" "$threads")" -v b="$native" 'BEGIN { print a / b }')"
        done
    done | quartiles "timed " "$threads"
done
