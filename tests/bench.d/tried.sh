#!/bin/bash
# Trials in copies (rprof --try): do two copies without a change agree, does a trial gain what the same change in the source gains, and is the
# program unharmed? BENCH_PARTS="null changes harm kills" chooses; BENCH_REPEAT (20) kills; BENCH_ONLY chooses rows by a regular expression.
set -u
. tests/bench.d/common.sh
python3 tests/bench.d/tried.py "$(realpath "$RPROF")" "$work_dir" "${BENCH_PARTS:-null changes harm kills}" "${BENCH_REPEAT:-20}" "${BENCH_ONLY:-.}"
