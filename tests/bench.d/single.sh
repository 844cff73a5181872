#!/bin/bash
# What the single pass costs, and how far its counts are from exact ones: see single.py.
#   BENCH_REPEAT=N                      rounds of each program (3)
#   BENCH_ONLY=RE                       of the programs; BENCH_COST=no, BENCH_TRUTH=no: without that table
set -u
. tests/bench.d/common.sh

RPROF=$(realpath "$RPROF")
root=$PWD
cd "$work_dir" || exit 1
cc -O2 -o recursion "$root/fixtures/visits/recursion.c" && cc -O2 -DROUNDS=16000 -o kernels "$root/fixtures/visits/kernels.c" || exit 1
awk -f "$root/fixtures/programs/lines.awk" -v n=2500000 >lines
cp "$root/fixtures/programs/algebra.py" .
BENCH_ONLY=$ONLY python3 "$root/tests/bench.d/single.py" "$RPROF" "$REPEAT"
