#!/bin/bash
# What the counted pass (--memory off) costs over programs of Debian that run for seconds: wall time of the pass, from exec to exit,
# as a ratio to native, runs interleaved, the least of BENCH_REPEAT (3) rounds; the limits are a geometric mean of 1.4 and none above 1.9. Then the same
# for processes side by side, which are to be translated side by side, too; and what it adds to programs that only start, in seconds (at most 0.03 and 0.25).
set -u
. tests/bench.d/common.sh

seq 1 4000000 | sort -R --random-source=/dev/zero >"$work_dir/numbers"
cat >"$work_dir/fib.lua" <<'LUA'
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print(fib(38))
LUA
for n in $(seq 1 400); do
    echo "double work$n(const double *a, int n) { double s = $n; for (int i = 0; i < n; i++) if (a[i] > s) s += a[i] * $n;"
    echo "switch (n % 5) { case 0: s *= 2; break; case 1: s -= $n; break; case 2: return a[n / 2]; default: s /= n; } return s; }"
done >"$work_dir/many.c"

# seconds KIND COMMAND…: elapsed; standard output and exit status are left in the files KIND.out and KIND.status.
seconds() {
    local kind=$work_dir/$1 status=0 start=$EPOCHREALTIME
    shift
    "$@" >"$kind.out" 2>/dev/null </dev/null || status=$?
    awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
    echo "$status" >"$kind.status"
}

# as_natively: whether both runs ended well and wrote the same; else says what is wrong.
as_natively() {
    local native counted
    native=$(<"$work_dir/native.status") counted=$(<"$work_dir/counted.status")
    [ "$native" = 0 ] || { echo "exit status $native natively"; return 1; }
    [ "$counted" = 0 ] || { echo "exit status $counted under rprof"; return 1; }
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

results=$work_dir/results
measured ratio program/gzip gzip -9 -c "$work_dir/numbers"
has xz && measured ratio program/xz xz -T1 -1 -c "$work_dir/numbers"
has lua5.4 && measured ratio program/lua lua5.4 "$work_dir/fib.lua"
measured ratio program/sort sort --parallel=1 -n "$work_dir/numbers"
has python3 && measured ratio program/python "$(python3 -c 'import sys; print(sys.executable)')" -c \
    'print(sum(i * i % 7 for i in range(30000000)))'
measured ratio program/gcc gcc -O2 -S -o - "$work_dir/many.c"
awk '$2 != "FAILED:" { s += log($4); n++ } END { if (n) printf "%-20s %17.3f\n", "geometric mean", exp(s / n) }' "$results"
cp "$work_dir/many.c" "$work_dir/more.c"
measured ratio together/two_gcc sh -c "cd '$work_dir'; rm -f many.o more.o; for f in many more; do gcc -O2 -c -o \$f.o \$f.c & done; wait; cat many.o more.o"
measured ratio together/pipeline sh -c "head -n 1000000 '$work_dir/numbers' | gzip -1 -c | gzip -dc | sort --parallel=1 -n | tail -n 1"
measured difference start/true /bin/true
/usr/bin/python3 -c 'import numpy' 2>/dev/null && measured difference start/import_numpy /usr/bin/python3 -c 'import numpy'
! grep -q FAILED "$results"
