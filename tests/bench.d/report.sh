#!/bin/bash
# Reports of a synthetic profile of BENCH_SAMPLES (1,000,000) samples and BENCH_FUNCTIONS (5,000) functions: the seconds and bytes of
# each format, made from the file, against 1 s, and of the short text against 0.5 s; the CPU time beside them, which other work on the
# host does not lengthen; then how soon a browser paints the page, against 1 s, and how many functions it has details of.
set -u
. tests/bench.d/common.sh
samples=${BENCH_SAMPLES:-1000000} functions=${BENCH_FUNCTIONS:-5000}
profile=$work_dir/profile.json
python3 tests/bench.d/report.py fixtures/profiles/kernels.json "$samples" "$functions" "$profile" || exit 1
printf '%s samples, %s functions, %s bytes of profile.json; load %s\n' "$samples" "$functions" "$(stat -c %s "$profile")" "$(cut -d' ' -f1 /proc/loadavg)"

status=0
printf '%-12s %9s %9s %11s %7s\n' format seconds cpu_s bytes limit
for format in text json html svg csv md folded flamegraph firefox; do
    limit=1 best=
    [ $format = text ] && limit=0.5
    for _ in $(seq "$REPEAT"); do
        out=$work_dir/report.$format
        if ! taken=$({ TIMEFORMAT='%R %U %S'; time "$RPROF" report "$profile" --format $format >"$out" 2>"$work_dir/err"; } 2>&1); then
            echo "FAILED: $format: $(tail -n 1 "$work_dir/err")"
            exit 1
        fi
        best=$(printf '%s\n' "$best" "$taken" | grep . | sort -g | head -1)
    done
    awk -v f=$format -v b="$(stat -c %s "$out")" -v limit=$limit -v all="$best" 'BEGIN { split(all, t, " ")
        printf "%-12s %9.2f %9.2f %11d %7s\n", f, t[1], t[2] + t[3], b, (t[1] <= limit ? "ok" : "over"); exit t[1] > limit }' || status=1
done

page=$work_dir/report.html
if ! has chromium; then
    echo "SKIPPED: first paint: chromium is not installed"
    exit $status
fi
sections=$(grep -o 'data-detailed="[0-9]*"' "$page" | grep -o '[0-9]*')
# The page writes when it was painted first into a text that is dumped with it.
sed 's#</body>#<pre id="paint"></pre><script>new PerformanceObserver((all) => { for (const e of all.getEntries()) document.getElementById("paint").textContent += e.name + " " + (e.startTime / 1000).toFixed(2) + " s; "; }).observe({ type: "paint", buffered: true });</script></body>#' "$page" >"$work_dir/painted.html"
for _ in $(seq "$REPEAT"); do
    timeout 60 chromium --headless --no-sandbox --disable-gpu --timeout=4000 --dump-dom --user-data-dir="$work_dir/browser" "file://$work_dir/painted.html" 2>/dev/null |
        grep -o '<pre id="paint">[^<]*' | sed 's/.*>//'
done | sort | head -1 | awk -v sections="$sections" '{ at = $2 + 0; printf "%s details of %s functions  %s\n", $0, sections, (at > 0 && at <= 1 ? "ok" : "over"); exit !(at > 0 && at <= 1) }' || status=1
exit $status
