#!/bin/bash
# Savings that rprof predicts beside changes that were really made: each program of fixtures/savings is profiled as it was before the
# change, and timed before and after it, interleaved, the least of BENCH_REPEAT (3) rounds. predicted: the saving that names what the change
# removes, as a share of the function's time; real: what the change gave.
set -u
. tests/bench.d/common.sh

RPROF=$(realpath "$RPROF")
here=$PWD
cd "$work_dir" || exit 1
seconds_of_hot() { "$@" 2>&1 >/dev/null </dev/null | awk '$1 == "hot" { print $2 }'; }

while read -r case removes; do
    case "$case" in '' | '#'*) continue ;; esac
    [[ change/$case =~ $ONLY ]] || continue
    for side in "" -DAFTER; do
        gcc -O2 -fno-tree-vectorize -g "-DCASE=$case" $side "$here/fixtures/savings/changes.c" -o "change$side" -lm || exit 1
    done
    for _ in $(seq "$REPEAT"); do
        echo "$case before $(seconds_of_hot ./change)"
        echo "$case after $(seconds_of_hot ./change-DAFTER)"
    done >>times
    "$RPROF" --quiet --passes both -o "profiles/$case" -- ./change >/dev/null 2>err.log </dev/null || echo "$case FAILED: $(tail -1 err.log)"
done <"$here/fixtures/savings/changes.txt"
python3 "$here/tests/bench.d/savings.py" "$here/fixtures/savings" times profiles
