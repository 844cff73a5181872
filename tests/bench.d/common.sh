# Sourced by the parts of tests/bench: measuring a command beside its native run.
#
# Results are lines "row tool kernel_seconds_per_unit whole_seconds share_not_counted"; medians and ratios are made of them by
# `table`. A figure that there is not is "-".

RPROF=${RPROF:-target/release/rprof}
REPEAT=${BENCH_REPEAT:-3}
ONLY=${BENCH_ONLY:-.}
work_dir=$(mktemp -d)
results=$work_dir/results
: >"$results"
trap 'rm -rf "$work_dir"' EXIT

has() { command -v "$1" >/dev/null; }

# of_counted_pass FILE: "SECONDS SHARE" of the counted pass in a profile: from exec to exit, and what of its CPU time was not
# counted. Yields 1 where there is none.
of_counted_pass() {
    python3 -c 'import json, sys
counted = [p for p in json.load(open(sys.argv[1]))["run"]["passes"] if p["kind"] == "counted"]
print(counted[0]["wall_s"], counted[0]["uncounted_share"])' "$1" 2>/dev/null
}

# measure ROW TOOL UNITS COMMAND…: runs it, appends a line to the results; the native run's output is kept, that of any
# other tool must be the same. Yields 1 and a line of "failed" if it cannot run or answers wrong.
measure() {
    local row=$1 tool=$2 units=$3 start end reason=
    shift 3
    rm -rf "$work_dir/rprof.out"
    start=$EPOCHREALTIME
    local status=0
    { timeout 100 "$@" >"$work_dir/out" 2>"$work_dir/err" </dev/null || status=$?; } 2>/dev/null
    end=$EPOCHREALTIME
    local answer=$work_dir/answer.${row//[^a-zA-Z0-9]/_}.$units
    if [ $status -eq 124 ]; then
        reason="slow"
    elif [ $status -ne 0 ]; then
        reason="exit_$status"
    elif [ "$tool" = native ]; then
        cp "$work_dir/out" "$answer"
    elif [ -e "$answer" ] && ! cmp -s "$work_dir/out" "$answer"; then
        reason="wrong_output"
    fi
    local kernel pass share=-
    if [ -z "$reason" ] && [ "$1" = "$RPROF" ]; then
        read -r pass share < <(of_counted_pass "$work_dir/rprof.out/profile.json") || reason="no_profile"
        [ "${whole_is_pass-}" ] && start=0 end=$pass
    fi
    if [ "$reason" ]; then
        echo "$row $tool failed $reason" >>"$results"
        return 1
    fi
    kernel=$(awk '$1 == "kernel" { print $2; exit }' "$work_dir/err")
    awk -v row="$row" -v tool="$tool" -v k="$kernel" -v u="$units" -v s="$start" -v e="$end" -v share="$share" \
        'BEGIN { printf "%s %s %s %.6f %s\n", row, tool, (k > 0 ? sprintf("%.9f", k / u) : "-"), e - s, share }' >>"$results"
}

# table COLUMN TOOL…: ratios of the tools' medians to native, of column 3 (kernel) or 4 (whole command),
# and the greatest share that a run of rprof did not count.
table() {
    local column=$1
    shift
    awk -v column="$column" -v tools="$*" '
        function median(key,   n, i, j, t, v) {
            n = count[key]
            if (!n) return 0
            for (i = 1; i <= n; i++) v[i] = value[key, i]
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
            return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
        }
        !($1 in seen) { seen[$1] = 1; rows[++nrows] = $1 }
        $3 == "failed" { reason[$1, $2] = $4; next }
        !($column > 0) { reason[$1, $2] = "no_figure"; next }
        $5 != "-" && (!($1 in share) || $5 > share[$1]) { share[$1] = $5 }
        { key = $1 SUBSEP $2; value[key, ++count[key]] = $column }
        END {
            ntools = split(tools, tool, " ")
            printf "%-26s %10s", "", "native_ms"
            for (t = 1; t <= ntools; t++) printf " %13s", tool[t]
            printf " %12s\n", "not_counted"
            for (r = 1; r <= nrows; r++) {
                native = median(rows[r] SUBSEP "native")
                if (native == 0) {
                    printf "%-26s FAILED: native %s\n", rows[r], reason[rows[r], "native"]
                    continue
                }
                printf "%-26s %10.3f", rows[r], native * 1000
                split(rows[r], part, "/")
                for (t = 1; t <= ntools; t++) {
                    m = median(rows[r] SUBSEP tool[t])
                    if (m) {
                        printf " %13.3f", m / native
                        logs[part[1], t] += log(m / native); number[part[1], t]++
                    } else printf " %13s", ((rows[r], tool[t]) in reason ? reason[rows[r], tool[t]] : "-")
                }
                groups[part[1]] = 1
                printf " %12s\n", rows[r] in share ? sprintf("%.1f %%", 100 * share[rows[r]]) : "-"
            }
            for (group in groups) {
                printf "%-26s %10s", "geometric mean " group, ""
                for (t = 1; t <= ntools; t++)
                    if (number[group, t]) printf " %13.3f", exp(logs[group, t] / number[group, t])
                    else printf " %13s", "-"
                print ""
            }
        }' "$results"
}

# fixed_work: builds fixtures that do a fixed amount of work for about half a second, `$millions` of it a thread, and the
# bare timer.
fixed_work() {
    local here
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
    cc -O2 -pthread "$here/fixtures/sample/fixed.c" -o "$work_dir/fixed"
    cc -O2 "$here/fixtures/sample/bare_timer.c" -o "$work_dir/bare_timer"
    millions=$(awk -v t="$("$work_dir/fixed" 1 100)" 'BEGIN { printf "%d", 100 * 0.5 / t + 1 }')
}

# quartiles LABEL THREADS: of lines "variant ratio" each variant's median and, in brackets, quartiles.
quartiles() {
    sort -k1,1 -k2,2g | awk -v label="$1" -v threads="$2" '
        function flush() { if (n) printf "%s%-14s %d threads  %.4f  [%.4f %.4f]\n", label, name, threads,
                                        r[int((n + 1) / 2)], r[int((n + 3) / 4)], r[int((3 * n + 3) / 4)]; n = 0 }
        $1 != name { flush(); name = $1 }
        { r[++n] = $2 }
        END { flush() }'
}

# seconds KIND COMMAND…: elapsed; standard output and exit status are left in the files KIND.out and KIND.status.
seconds() {
    local kind=$work_dir/$1 status=0 start=$EPOCHREALTIME
    shift
    "$@" >"$kind.out" 2>/dev/null </dev/null || status=$?
    awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
    echo "$status" >"$kind.status"
}

# as_natively: whether both runs ended alike and wrote the same; else says what is wrong.
as_natively() {
    local native counted
    native=$(<"$work_dir/native.status") counted=$(<"$work_dir/counted.status")
    [ "$native" = "$counted" ] || { echo "exit status $counted under rprof, $native natively"; return 1; }
    cmp -s "$work_dir/native.out" "$work_dir/counted.out" || { echo "output differs from the native one"; return 1; }
}

# measured WHAT NAME COMMAND…: ratio or difference of the least times, and the greatest share that was not counted. What the
# command makes goes to its standard output, so that it is compared.
measured() {
    local what=$1 name=$2 native='' counted='' shares='' t share failed=
    shift 2
    [[ $name =~ $ONLY ]] || return 0
    for _ in $(seq "$REPEAT"); do
        t=$(seconds native "$@")
        native=$(printf '%s\n' $native "$t" | sort -g | head -1)
        rm -rf "$work_dir/rprof.out"
        seconds counted "$RPROF" --quiet --passes counted --memory off -o "$work_dir/rprof.out" -- "$@" >/dev/null
        failed=$(as_natively) || break
        read -r t share < <(of_counted_pass "$work_dir/rprof.out/profile.json") || { failed="no counted pass"; break; }
        counted=$(printf '%s\n' $counted "$t" | sort -g | head -1)
        shares=$(printf '%s\n' $shares "$share" | sort -g | tail -1)
    done
    if [ "$failed" ]; then
        printf '%-20s FAILED: %s\n' "$name" "$failed" | tee -a "$results"
        return
    fi
    awk -v what="$what" -v name="$name" -v a="$native" -v b="$counted" -v share="$shares" 'BEGIN {
        share = sprintf("%.1f %% not counted", 100 * share)
        if (what == "ratio") printf "%-20s %7.3f s %7.3f  %s\n", name, a, b / a, share
        else printf "%-20s %7.3f s  +%.3f s  %s\n", name, a, b - a, share }' | tee -a "$results"
}
