#!/bin/bash
# What the record of a call of MPI costs: the time of a message of 8 bytes between two ranks on one host (fixtures/mpi/pingpong.c), natively and in both kinds
# of pass that record calls, BENCH_REPEAT (3) times in turn. A message is two calls, a send and a receive. Asked: 0.15 µs a call with as many ranks as CPUs, with
# reading the records. Needs two idle CPUs.
set -u
. tests/bench.d/common.sh

rprof=$(realpath "$RPROF")
for library in openmpi mpich; do
    has "mpicc.$library" && has "mpirun.$library" || { echo "$library: not installed"; continue; }
    . fixtures/mpi/launchers.sh
    "mpicc.$library" -O2 -o "$work_dir/pingpong" fixtures/mpi/pingpong.c || exit 1
    message() { timeout 100 "${launch[@]}" -np 2 "$@" "$work_dir/pingpong" 8 2>"$work_dir/err" </dev/null | awk '$1 == 8 { print $2 }'; }
    for ((i = 0; i < REPEAT; i++)); do
        echo "native $(message)"
        for passes in counted single; do
            rm -rf "$work_dir/ranks"
            echo "$passes $(message "$rprof" --quiet --passes $passes --memory off -o "$work_dir/ranks" --)"
        done
    done >"$work_dir/lines"
    python3 - "$library" "$work_dir/lines" <<'PYTHON'
import collections, statistics, sys

library, lines = sys.argv[1:]
seconds = collections.defaultdict(list)
for line in open(lines):
    passes, *value = line.split()
    seconds[passes] += map(float, value)
if not all(seconds[p] for p in ("native", "counted", "single")):
    sys.exit(f"{library}: a launch printed no figure")
native = statistics.median(seconds["native"])
for passes in ("counted", "single"):
    added = (statistics.median(seconds[passes]) - native) / 2
    print(f"{library:8} a message of 8 bytes takes {1e6 * native:.3f} µs natively; {passes}: {1e6 * added:+.3f} µs a call (asked 0.15)")
PYTHON
done
