#!/bin/bash
# Prints what sampling costs: elapsed time of a fixed amount of work under each sampler, over that of the native run made
# just before it (median of the ratios; quartiles in brackets). One and two threads. rprof: the command with all that its timed
# pass does (the watch over the CPUs' placement, hardware counters), at the rate that it chooses, 1 kHz or less where a sample is
# dear, at most 1 % slower than native; rprof-1000: the same at 1 kHz; sampler: its sampler alone, at its own rate and at 1 kHz,
# with stacks and with frame pointers alone; sampler-ptrace: at most 5 %, its own rate. bare-timer is an event that only
# interrupts: no sampler of that rate can cost less on this host.
#
#   [THREADS=1] tests/bench.d/timed.sh [ROUNDS]
set -euo pipefail
rounds=${1:-9}
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
tools=${TOOLS:-$target/release/examples/tools}
[ "${TOOLS:-}" ] || (cd "$root" && cargo build -q --release --bin rprof --example tools)
RPROF=${RPROF:-$target/release/rprof}
. "$root/tests/bench.d/common.sh"
fixed_work

run() { # VARIANT THREADS: prints the seconds that the work took
    local work=("$work_dir/fixed" "$2" $((millions * $2)))
    case $1 in
    native) "${work[@]}" ;;
    bare-timer) "$work_dir/bare_timer" "${work[@]}" ;;
    rprof) timed -- "${work[@]}" ;;
    rprof-1000) timed -F 1000 -- "${work[@]}" ;;
    sampler) "$tools" sample --perf --quiet -- "${work[@]}" ;;
    sampler-1000) "$tools" sample --perf -F 1000 --quiet -- "${work[@]}" ;;
    sampler-fp-1000) "$tools" sample --perf -F 1000 --stack 0 --quiet -- "${work[@]}" ;;
    sampler-ptrace) "$tools" sample --ptrace --quiet -- "${work[@]}" 2>/dev/null ;;
    perf-record) perf record -q -F 1000 -e cpu-clock -g -o "$work_dir/perf.data" -- "${work[@]}" 2>/dev/null ;;
    esac
}

timed() { # OPTIONS -- COMMAND…: the command itself; what it writes is thrown away
    "$RPROF" --quiet --passes timed -o "$work_dir/timed" "$@" 2>"$work_dir/err"
    rm -rf "$work_dir/timed"
}

# limits: of quartiles' lines, whether the median keeps to what is promised of its variant.
limits() {
    awk '{ limit = $2 == "rprof" ? 1.01 : $2 == "sampler-ptrace" ? 1.05 : 0
           told = limit ? sprintf("  (at most %.2f) %s", limit, $5 <= limit ? "ok" : "over") : ""
           print $0 told }'
}

variants=(rprof bare-timer rprof-1000 sampler sampler-1000 sampler-fp-1000 sampler-ptrace)
command -v perf >/dev/null && variants+=(perf-record)
for threads in ${THREADS:-1 2}; do
    [ "$(nproc)" -ge "$threads" ] || { echo "SKIPPED: $threads threads on $(nproc) CPU"; continue; }
    for round in $(seq "$rounds"); do
        for variant in native "${variants[@]}"; do
            native=$(run native "$threads")
            echo "$variant $(awk -v a="$(run "$variant" "$threads")" -v b="$native" 'BEGIN { print a / b }')"
        done
    done | quartiles "timed " "$threads" | limits
done
