#!/bin/bash
# rprof gate. First: BENCH_REPEAT (20) runs of five programs, and by how much their modelled cycles and instructions differ. Then pairs of
# programs before and after a change (/work/shared/cases or BENCH_CASES: folders with before.* and after.*, cases.tsv with flags; made
# shorter as gate.py lists them): native CPU time, instructions, cachegrind's estimate (Ir + 10 L1 misses + 100 last-level misses, where valgrind is) and modelled cycles, each as after /
# before; whether the sign is that of native time, and the rank correlation with it. BENCH_ONLY chooses pairs by a regular expression.
set -u
. tests/bench.d/common.sh
python3 tests/bench.d/gate.py "$(realpath "$RPROF")" "$work_dir" "${BENCH_REPEAT:-20}" "${BENCH_ONLY:-.}" \
    "${BENCH_CASES:-/work/shared/cases/diagnosis}"
