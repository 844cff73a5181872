#!/bin/bash
# Prints what counting hardware events costs: elapsed time of a fixed amount of work while its events are counted and read
# at 1 kHz, over that of the native run made just before it (median of the ratios; quartiles in brackets). Target: 1.01.
# bare-timer is an event that only interrupts: no reading at that rate can cost less on this host. Where there is no PMU,
# software events stand for hardware ones; four events in one group.
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
cc -O2 "$root/fixtures/sample/bare_timer.c" -o "$scratch/bare_timer"

from=()
if [ ! -e /sys/bus/event_source/devices/cpu ] && [ ! -e /sys/bus/event_source/devices/cpu_core ]; then
    echo "no PMU here: software events stand for hardware ones"
    device=$scratch/stand/sysfs/bus/event_source/devices/stand_in
    mkdir -p "$device/format"
    echo 1 >"$device/type"
    echo 'config:0-63' >"$device/format/event"
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

run() { # VARIANT COMMAND…
    local variant=$1
    shift
    case $variant in
    bare-timer) "$scratch/bare_timer" "$@" ;;
    counters-*) "$counters" --hz "${variant#counters-}" "${from[@]}" -- "$@" 2>"$scratch/counts" ;;
    esac
}

for threads in ${THREADS:-1 2}; do
    work=("$scratch/fixed" "$threads" $((millions * threads)))
    for _ in $(seq "$rounds"); do
        for variant in bare-timer counters-500 counters-1000; do
            native=$("${work[@]}")
            echo "$variant $(awk -v a="$(run $variant "${work[@]}")" -v b="$native" 'BEGIN { print a / b }')"
        done
    done | sort -k1,1 -k2,2g | awk -v threads="$threads" '
        function flush() { if (n) printf "%-14s %d threads  %.4f  [%.4f %.4f]\n", name, threads,
                                        r[int((n + 1) / 2)], r[int((n + 3) / 4)], r[int((3 * n + 3) / 4)]; n = 0 }
        $1 != name { flush(); name = $1 }
        { r[++n] = $2 }
        END { flush() }'
done
sed 's/^/last run: /' "$scratch/counts"
