#!/bin/bash
# The demo: each kernel's expected class, the class that was found, its roof fraction, and whether both are as they should be
# (0.9 to 1.05, kernels built to be unknown excepted); then the whole time against 60 s. Each of BENCH_REPEAT (1) rounds.
set -u
. tests/bench.d/common.sh
REPEAT=${BENCH_REPEAT:-1}

status=0
for round in $(seq "$REPEAT"); do
    rm -rf "$work_dir/demo"
    start=$EPOCHREALTIME
    if ! "$RPROF" demo --quiet -o "$work_dir/demo" >/dev/null 2>"$work_dir/err"; then
        echo "FAILED: rprof demo: $(tail -n 1 "$work_dir/err")"
        exit 1
    fi
    end=$EPOCHREALTIME
    python3 - "$work_dir/demo/profile.json" <<'PYTHON' || status=1
import json, sys
right, shown = 0, 0
print("%-28s %-18s %-28s %8s  %s" % ("kernel", "expected", "class", "at", "ok"))
for f in json.load(open(sys.argv[1]))["functions"]:
    expected, found, at = f["expected"], f["class"], f["roof_fraction"]
    if expected is None:
        continue
    near = expected == "unknown" or (at is not None and 0.9 <= at <= 1.05)
    ok = found == expected and near
    told = "%s (%s?)" % (found, f["nearest"]) if found == "unknown" and f["nearest"] else found or "not counted"
    print("%-28s %-18s %-28s %8s  %s" % (f["name"], expected, told, "-" if at is None else "%.3f" % at, "ok" if ok else "NO"))
    right, shown = right + ok, shown + 1
print("%d of %d kernels as they were built" % (right, shown))
sys.exit(0 if shown and right == shown else 1)
PYTHON
    awk -v a="$start" -v b="$end" \
        'BEGIN { printf "whole demo %.1f s (at most 60 s) %s\n", b - a, b - a <= 60 ? "ok" : "over"; exit b - a > 60 }' || status=1
done
exit $status
