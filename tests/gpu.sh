#!/bin/bash
# All checks that need a GPU, offline, from prebuilt binaries, in under 8 minutes: tests/gpu.sh [FOLDER]
#
# FOLDER (default: target/gpu) holds `rprof`, `gpu_check` (examples/gpu_check.rs) and `launches` (fixtures/gpu/app.c, linked against a
# libcuda.so.1); `tests/gpu.sh --prepare` puts them there. What is printed, with the figure that is asked beside each one seen, is quoted in
# closing notes. Ends with 1 where a check fails.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

if [ "${1-}" = --prepare ]; then
    mkdir -p target/gpu
    cargo build --release --bins --example gpu_check || exit 1
    cp target/release/rprof target/release/examples/gpu_check target/gpu/ && strip -g target/gpu/rprof target/gpu/gpu_check
    work=$(mktemp -d) && cc -shared -fPIC -Wl,-soname,libcuda.so.1 fixtures/gpu/libcuda_traced.c -o "$work/libcuda.so.1" -ldl &&
        cc -O2 -pthread fixtures/gpu/app.c "$work/libcuda.so.1" -o target/gpu/launches && cp fixtures/gpu/train.py target/gpu/ && rm -r "$work"
    exit
fi

folder=$(realpath "${1:-target/gpu}")
work=$(mktemp -d)
export XDG_CACHE_HOME=$work/cache
failed=0
step() { printf '\n== %s\n' "$*"; }
check() { "$@" || { echo "FAILED ($?): $*"; failed=1; }; }
ms() { local start; start=$(date +%s%N); "$@" >"$work/log" 2>&1; local status=$?; echo $((($(date +%s%N) - start) / 1000000)) >"$work/ms"; return $status; }
# at_most WHAT SEEN UNIT ASKED
at_most() {
    local verdict=; awk "BEGIN { exit !($2 <= $4) }" || { verdict=" WRONG"; failed=1; }
    echo "$1: $2 $3, asked at most $4$verdict"
}
# same WHAT A B
same() { if [ "$2" = "$3" ]; then echo "$1: same"; else echo "$1: '$2' and '$3' WRONG"; failed=1; fi; }
python=$(command -v python3 || true)
has_torch=; [ -n "$python" ] && "$python" -c 'import torch' 2>/dev/null && has_torch=1

step "the host"
nvidia-smi -L 2>&1; nproc; grep RmProfilingAdminOnly /proc/driver/nvidia/params

step "ceilings: two full measurements and a quick one"
for run in 1 2; do
    check ms "$folder/rprof" machine --gpu --refresh --json; cp "$work/log" "$work/machine$run.json"
    at_most "full measurement $run" "$(cat "$work/ms")" ms $([ $run = 1 ] && echo 15000 || echo 13000)
done
check ms env XDG_CACHE_HOME="$work/other" "$folder/rprof" machine --gpu --quick --json
at_most "quick measurement" "$(cat "$work/ms")" ms 2000
check "$folder/gpu_check" --ceilings "$work/machine1.json" "$work/machine2.json"

step "known kernels: counts and classes"
check ms "$folder/rprof" __gpu_check; echo "the kernel of the start-up check: $(cat "$work/ms") ms"
check ms "$folder/rprof" __gpu_demo; plain=$(cat "$work/ms"); echo "plain: $plain ms"
check ms "$folder/rprof" demo --gpu -o "$work/demo"; echo "profiled, runs that count included: $(cat "$work/ms") ms"
sed -n '/^GPU/,/^Waiting/p' "$work/log"
check "$folder/gpu_check" "$work/demo/profile.json"

step "cost of tracing: 120,000 launches by the driver API, alone and under rprof, best of three"
least() { awk '/a launch takes/ { if (!n++ || $4 < least) least = $4 } END { print n ? least : "nan" }'; }
for _ in 1 2 3; do "$folder/launches" 60000 time 2>&1 >/dev/null; done >"$work/alone"
for _ in 1 2 3; do
    "$folder/rprof" --quiet --passes timed -F 50 -o "$work/launches" -- "$folder/launches" 60000 time 2>&1 >/dev/null
done >"$work/traced"
alone=$(least <"$work/alone") traced=$(least <"$work/traced")
echo "alone $alone us, under rprof $traced us"
at_most "a launch by the driver API, more" "$(awk "BEGIN { print $traced - $alone }")" us 1

if [ -n "$has_torch" ]; then
    step "PyTorch: traced and counted"
    sum() { grep -m1 '^sum ' "$work/log"; }
    check ms "$python" "$folder/train.py" 12 s g; tail -4 "$work/log"; sum=$(sum) small=$(awk '/small us/ { print $3; exit }' "$work/log")
    check ms "$folder/rprof" --passes timed --gpu-counts on -o "$work/torch" -- "$python" "$folder/train.py" 12 s g
    echo "profiled, runs that count included: $(cat "$work/ms") ms"
    same "the program's result, traced" "$sum" "$(sum)"
    at_most "a small launch of PyTorch, more" "$(awk -v alone="$small" '/small us/ { print $3 - alone; exit }' "$work/log")" us 8
    sed -n '/^GPU/,/^off the CPU/p' "$work/log"; grep '^!' -A3 "$work/log" | head -30
    check "$folder/gpu_check" --products "$work/torch/profile.json"

    step "PyTorch under the counting engine, and with a profiler of its own"
    check ms "$python" "$folder/train.py" 2; plain=$(cat "$work/ms") sum=$(sum)
    check ms timeout 150 "$folder/rprof" --memory off --passes counted -o "$work/engine" -- "$python" "$folder/train.py" 2
    same "the program's result, every CPU instruction counted" "$sum" "$(sum)"
    at_most "that run over the plain one" "$(awk "BEGIN { print $(cat "$work/ms") / $plain }")" times 4
    cat >"$work/own.py" <<'PYTHON'
import torch
from torch.profiler import ProfilerActivity, profile
x = torch.ones(1 << 20, device='cuda')
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
    for _ in range(100): x = x + 1
    torch.cuda.synchronize()
print('sum', float(x.sum()))
PYTHON
    check ms "$python" "$work/own.py"; sum=$(sum)
    check ms "$folder/rprof" --passes timed -o "$work/own" -- "$python" "$work/own.py"
    same "the result of a program with torch.profiler" "$sum" "$(sum)"
    grep -o 'another client of CUPTI[^.]*' "$work/log" || { echo "the report does not name torch.profiler WRONG"; failed=1; }
fi

[ -n "${OUT-}" ] && tar czf "$OUT/gpu.tgz" -C "$work" --exclude cache .
rm -rf "$work"
echo; at_most "all checks" $SECONDS s 480
[ $failed = 0 ] && echo "all checks passed" || echo "SOME CHECKS FAILED"
exit $failed
