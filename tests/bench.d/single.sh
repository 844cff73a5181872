#!/bin/bash
# What the single pass costs, and how far its counts are from exact ones: see single.py.
#   BENCH_REPEAT=N                      rounds of each program (3)
#   BENCH_ONLY=RE                       of the programs; BENCH_COST=no, BENCH_TRUTH=no: without that table
#   BENCH_HOSTILE=no                    without the series of visits, signals and kills, 100 or 200 times each (tests/sampling/visits.rs)
set -u
. tests/bench.d/common.sh

RPROF=$(realpath "$RPROF")
root=$PWD
cd "$work_dir" || exit 1
cc -O2 -o recursion "$root/fixtures/visits/recursion.c" && cc -O2 -DROUNDS=16000 -o kernels "$root/fixtures/visits/kernels.c" || exit 1
awk -f "$root/fixtures/programs/lines.awk" -v n=2500000 >lines
cp "$root/fixtures/programs/algebra.py" .
BENCH_ONLY=$ONLY python3 "$root/tests/bench.d/single.py" "$RPROF" "$REPEAT"
if [ "${BENCH_HOSTILE-}" != no ]; then
    echo "hostile series:"
    cd "$root" && RPROF_FULL=1 cargo test --quiet --test sampling -- --show-output runs_on survive_visits 2>&1 | grep -E "ran on|test result|FAILED"
fi
