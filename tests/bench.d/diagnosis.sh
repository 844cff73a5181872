#!/bin/bash
# Performance questions with known answers (fixtures/diagnosis, then the second set and the third): is the verdict's cause right, is its advice, is the
# place one of the program's functions, and does the real gain lie in the interval of the saving, give or take 15 points of the time? BENCH_REPEAT (1)
# default runs each, all of which must be right; BENCH_ONLY chooses by a regular expression.
set -u
. tests/bench.d/common.sh
for folder in fixtures/diagnosis fixtures/diagnosis-second fixtures/diagnosis-third; do
    python3 tests/bench.d/diagnosis.py "$(realpath "$RPROF")" "$work_dir" "${BENCH_REPEAT:-1}" "${BENCH_ONLY:-.}" "$folder"
done
