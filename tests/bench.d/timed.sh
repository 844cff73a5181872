#!/bin/bash
# Prints what sampling costs: elapsed time of a fixed amount of work under each sampler, over that of the native run made
# just before it (median of the ratios; quartiles in brackets). One and two threads, 1 kHz. bare-timer is an event that only
# interrupts: no sampler of that rate can cost less on this host.
#
#   [THREADS=1] tests/bench.d/timed.sh [ROUNDS]
set -euo pipefail
rounds=${1:-9}
root=$(cd "$(dirname "$0")/../.." && pwd)
sample=${SAMPLE:-$root/target/release/examples/sample}
[ -x "$sample" ] || (cd "$root" && cargo build -q --release --example sample)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cc -O2 -pthread "$root/fixtures/sample/fixed.c" -o "$scratch/fixed"
cc -O2 "$root/fixtures/sample/bare_timer.c" -o "$scratch/bare_timer"

# About half a second of work a run.
probe=$("$scratch/fixed" 1 100)
millions=$(awk -v t="$probe" 'BEGIN { printf "%d", 100 * 0.5 / t + 1 }')

run() { # VARIANT THREADS: prints the seconds that the work took
    local work=("$scratch/fixed" "$2" $((millions * $2)))
    case $1 in
    native) "${work[@]}" ;;
    bare-timer) "$scratch/bare_timer" "${work[@]}" ;;
    rprof-perf) "$sample" --perf --quiet -- "${work[@]}" ;;
    rprof-perf-fp) "$sample" --perf --stack 0 --quiet -- "${work[@]}" ;;
    rprof-ptrace) "$sample" --ptrace --quiet -- "${work[@]}" 2>/dev/null ;;
    perf-record) perf record -q -F 1000 -e cpu-clock -g -o "$scratch/perf.data" -- "${work[@]}" 2>/dev/null ;;
    esac
}

variants=(bare-timer rprof-perf rprof-perf-fp rprof-ptrace)
command -v perf >/dev/null && variants+=(perf-record)
for threads in ${THREADS:-1 2}; do
    [ "$(nproc)" -ge "$threads" ] || { echo "SKIPPED: $threads threads on $(nproc) CPU"; continue; }
    for round in $(seq "$rounds"); do
        for variant in native "${variants[@]}"; do
            native=$(run native "$threads")
            echo "$variant $(awk -v a="$(run "$variant" "$threads")" -v b="$native" 'BEGIN { print a / b }')"
        done
    done | sort -k1,1 -k2,2g | awk -v threads="$threads" '
        function flush() { if (n) printf "timed %-14s %d threads  %.4f  [%.4f %.4f]\n", name, threads,
                                        r[int((n + 1) / 2)], r[int((n + 3) / 4)], r[int((3 * n + 3) / 4)]; n = 0 }
        $1 != name { flush(); name = $1 }
        { r[++n] = $2 }
        END { flush() }'
done
