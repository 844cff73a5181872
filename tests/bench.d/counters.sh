#!/bin/bash
# Prints what counting hardware events costs: elapsed time of a fixed amount of work while its events are counted and read
# at 1 kHz, over that of the native run made just before it (median of the ratios; quartiles in brackets). Target: 1.01.
# bare-timer is an event that only interrupts: no reading at that rate can cost less on this host. Where there is no PMU,
# software events stand for hardware ones; four events in one group.
# timed and timed-counters are the timed pass of rprof at 1 kHz without and with these events: their difference is what
# counting adds to sampling, whose interrupts it mostly shares.
# stolen: the same from within, hardly moved by what else runs on the host: interrupts per second of a loop that spins, their
# median length and their share of its time (each the median over the rounds).
#
#   [THREADS=1] tests/bench.d/counters.sh [ROUNDS]
set -euo pipefail
rounds=${1:-9}
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
tools=${TOOLS:-$target/release/examples/tools}
rprof=${RPROF:-$target/release/rprof}
[ "${TOOLS:-}" ] || (cd "$root" && cargo build -q --release --bin rprof --example tools)
. "$root/tests/bench.d/common.sh"
fixed_work

from=()
variants=(bare-timer counters-500 counters-1000)
if [ ! -e /sys/bus/event_source/devices/cpu ] && [ ! -e /sys/bus/event_source/devices/cpu_core ]; then
    echo "no PMU here: software events stand for hardware ones"
    device=$work_dir/stand/sysfs/bus/event_source/devices/stand_in
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
    } >"$work_dir/stand/table.toml"
    from=(--from "$work_dir/stand")
    # where there is a PMU, rprof counts whether it is told to or not
    variants+=(timed timed-counters)
fi

run() { # VARIANT COMMAND…
    local variant=$1
    shift
    case $variant in
    bare-timer) "$work_dir/bare_timer" "$@" ;;
    counters-*) "$tools" counters --hz "${variant#counters-}" "${from[@]}" -- "$@" 2>"$work_dir/counts" ;;
    timed) timed -- "$@" ;;
    timed-counters) timed --counters-from "$work_dir/stand" -- "$@" ;;
    esac
}

timed() {
    "$rprof" --quiet --passes timed -F 1000 -o "$work_dir/timed" "$@" 2>"$work_dir/err"
    rm -rf "$work_dir/timed"
}

for threads in ${THREADS:-1 2}; do
    work=("$work_dir/fixed" "$threads" $((millions * threads)))
    for _ in $(seq "$rounds"); do
        for variant in "${variants[@]}"; do
            native=$("${work[@]}")
            echo "$variant $(awk -v a="$(run $variant "${work[@]}")" -v b="$native" 'BEGIN { print a / b }')"
        done
    done | quartiles "" "$threads"
done
sed 's/^/last run: /' "$work_dir/counts"

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

cc -O2 "$root/fixtures/sample/stolen.c" -o "$work_dir/stolen"
for _ in $(seq "$rounds"); do
    echo "native $("$work_dir/stolen")"
    for variant in "${variants[@]}"; do
        echo "$variant $(run "$variant" "$work_dir/stolen")"
    done
done >"$work_dir/holes"
for variant in native "${variants[@]}"; do
    column() { awk -v variant="$variant" -v column="$1" '$1 == variant { print $column }' "$work_dir/holes" | median; }
    printf 'stolen: %-14s %6.0f interrupts/s  %6.2f µs  %6.3f %%\n' "$variant" "$(column 2)" "$(column 3)" "$(column 4)"
done
