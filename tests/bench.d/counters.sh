#!/bin/bash
# Prints what counting hardware events costs: elapsed time of a fixed amount of work while its events are counted and read
# at 1 kHz, over that of the native run made just before it (median of the ratios; quartiles in brackets). Target: 1.01.
# Where there is no PMU, software events and a breakpoint that is never met stand for hardware ones; four events in one group.
#
#   [THREADS=1] tests/bench.d/counters.sh [ROUNDS]
set -euo pipefail
rounds=${1:-9}
root=$(cd "$(dirname "$0")/../.." && pwd)
counters=${COUNTERS:-$root/target/release/examples/counters}
[ -x "$counters" ] || (cd "$root" && cargo build -q --release --example counters)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cc -O2 -pthread "$root/fixtures/sample/fixed.c" -o "$scratch/fixed"

from=()
if [ ! -e /sys/bus/event_source/devices/cpu ] && [ ! -e /sys/bus/event_source/devices/cpu_core ]; then
    echo "no PMU here: software events stand for hardware ones"
    for pmu in stand_in:1; do
        device=$scratch/stand/sysfs/bus/event_source/devices/${pmu%:*}
        mkdir -p "$device/format"
        echo "${pmu#*:}" >"$device/type"
        echo 'config:0-63' >"$device/format/event"
    done
    {
        printf "[cpu]\nname = 'stand-in'\nvendor = 'none'\nfamily = 0\nmodels = [0]\npmu = ['stand_in']\n"
        printf "general_counters = 4\nfixed_counters = true\n"
        # page faults, context switches, migrations, task clock
        for event in 2 3 4 1; do
            printf "[[event]]\nname = 'software.%s'\nrole = 'l1_fill'\nevent = %s\numask = 0\nweight = 1.0\n" $event $event
            printf "headline = true\nconfidence = 'inference'\nsource = 'bench'\n"
        done
    } >"$scratch/stand/table.toml"
    from=(--from "$scratch/stand")
fi

probe=$("$scratch/fixed" 1 100)
millions=$(awk -v t="$probe" 'BEGIN { printf "%d", 100 * 0.5 / t + 1 }')

for threads in ${THREADS:-1 2}; do
    work=("$scratch/fixed" "$threads" $((millions * threads)))
    for _ in $(seq "$rounds"); do
        for hz in 1000 10000; do
            native=$("${work[@]}")
            counted=$("$counters" --hz $hz "${from[@]}" -- "${work[@]}" 2>"$scratch/counts")
            echo "$hz $(awk -v a="$counted" -v b="$native" 'BEGIN { print a / b }')"
        done
    done | sort -k1,1n -k2,2g | awk -v threads="$threads" '
        function flush() { if (n) printf "counters %5d Hz  %d threads  %.4f  [%.4f %.4f]\n", name, threads,
                                        r[int((n + 1) / 2)], r[int((n + 3) / 4)], r[int((3 * n + 3) / 4)]; n = 0 }
        $1 != name { flush(); name = $1 }
        { r[++n] = $2 }
        END { flush() }'
done
sed 's/^/last run: /' "$scratch/counts"
