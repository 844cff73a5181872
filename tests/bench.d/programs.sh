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
