#!/bin/bash
# Table 4 of the 2008 paper and the applications of the 2014 paper, redone: each step of the programs of fixtures/paper is timed, in BENCH_REPEAT (3)
# interleaved rounds of which the least counts, and profiled; one table shows rprof's bound, ceilings and advice beside what the next step really gave.
# BENCH_ONLY restricts the steps (names like spmv.3), BENCH_KEEP=DIR keeps profiles and times. See docs/paper.md.
set -u
. tests/bench.d/common.sh

RPROF=$(realpath "$RPROF")
here=$PWD
cd "$work_dir" || exit 1
export OMP_WAIT_POLICY=passive
seconds_of() { "$@" 2>&1 >/dev/null </dev/null | awk '$1 == "kernel" { print $2 }'; }

mkdir profiles
for program in spmv lbm stencil fft multigrid pic planewave; do
    gcc -O2 -fopenmp -g "$here/fixtures/paper/$program.c" -o $program -lm || exit 1
    ./$program check >check.log || { echo "$program: check failed"; grep WRONG check.log; exit 1; }
    ./$program list | while read -r step what; do
        [[ $program.$step =~ $ONLY ]] || continue
        # As many repeats as last for 0.8 s; of particles, which are sorted each tenth time, a multiple of ten.
        unit=2
        [ $program = pic ] && unit=10
        repeats=$(awk -v s="$(seconds_of ./$program "$step" $unit)" -v unit=$unit 'BEGIN { print int(0.8 / s + 1) * unit }')
        echo "$program $step $repeats $what"
    done >steps
    for _ in $(seq "$REPEAT"); do
        while read -r _ step repeats _; do
            echo "$program $step $(./$program "$step" "$repeats" 2>&1 >/dev/null </dev/null | paste -s -d ' ')"
        done <steps
    done >>times
    while read -r _ step repeats _; do
        "$RPROF" --quiet --passes both -o "profiles/$program.$step" -- ./$program "$step" "$repeats" >/dev/null 2>err.log </dev/null ||
            echo "$program.$step FAILED: $(tail -1 err.log)"
    done <steps
    cat steps >>all_steps
done
python3 "$here/tests/bench.d/paper.py" "$here/fixtures/paper" all_steps times profiles
status=$?
[ -z "${BENCH_KEEP:-}" ] || cp -r all_steps times profiles "$BENCH_KEEP"
exit $status
