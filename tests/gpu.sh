#!/bin/bash
# All checks that need a GPU, offline, from prebuilt binaries, in under 8 minutes: tests/gpu.sh [FOLDER]
#
# FOLDER (default: target/gpu) holds `rprof`, `tools` (examples/tools/) and `launches` (fixtures/gpu/app.c, linked against a
# libcuda.so.1); `tests/gpu.sh --prepare` puts them there. What is printed, with the figure that is asked beside each one seen, is quoted in
# closing notes. Ends with 1 where a check fails.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

if [ "${1-}" = --prepare ]; then
    mkdir -p target/gpu
    cargo build --release --bins --example tools || exit 1
    cp target/release/rprof target/release/examples/tools target/gpu/ || exit 1
    strip -g target/gpu/rprof target/gpu/tools
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
# at_most WHAT SEEN UNIT ASKED. What is no number was not seen.
at_most() {
    local verdict=
    [[ $2 =~ ^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?$ ]] && awk "BEGIN { exit !($2 <= $4) }" || { verdict=" WRONG"; failed=1; }
    echo "$1: ${2:-nothing} $3, asked at most $4$verdict"
}
# by EXPRESSION A B: the expression of a and b, or nothing where one of them is no number
by() {
    local n; for n in "$2" "$3"; do [[ $n =~ ^[0-9]+(\.[0-9]+)?$ ]] || return 0; done
    awk "BEGIN { a = $2; b = $3; print $1 }"
}
# least PATTERN FIELD: the least number in that field of the lines with the pattern, or nothing
least() { awk -v field="$2" "/$1/"' { if (!n++ || $field < least) least = $field } END { if (n) print least }'; }
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
check "$folder/tools" gpu_check --ceilings "$work/machine1.json" "$work/machine2.json"

step "known kernels: counts and classes"
check ms "$folder/rprof" __gpu_check; echo "the kernel of the start-up check: $(cat "$work/ms") ms"
check ms "$folder/rprof" __gpu_demo; plain=$(cat "$work/ms"); echo "plain: $plain ms"
check ms "$folder/rprof" demo --gpu -o "$work/demo"; echo "profiled, runs that count included: $(cat "$work/ms") ms"
sed -n '/^GPU/,/^Waiting/p' "$work/log"
check "$folder/tools" gpu_check "$work/demo/profile.json"
check ms "$folder/rprof" --passes timed --gpu-counts l2 -o "$work/l2" -- "$folder/rprof" __gpu_demo
check "$folder/tools" gpu_check --received "$work/l2/profile.json"

step "cost of tracing: 120,000 launches by the driver API, alone and under rprof, best of three"
for _ in 1 2 3; do "$folder/launches" 60000 time 2>&1 >/dev/null; done >"$work/alone"
for _ in 1 2 3; do
    "$folder/rprof" --quiet --passes timed -F 50 -o "$work/launches" -- "$folder/launches" 60000 time 2>&1 >/dev/null
done >"$work/traced"
alone=$(least 'a launch takes' 4 <"$work/alone") traced=$(least 'a launch takes' 4 <"$work/traced")
echo "alone $alone us, under rprof $traced us"
at_most "a launch by the driver API, more" "$(by 'b - a' "$alone" "$traced")" us 1
at_most "warnings of lost records" "$(grep -c gpu-lost-records "$work/launches/profile.json")" "" 0

step "cost of tracing: the end of a program after 120,000 launches, and the nodes of a graph, best of three"
# Milliseconds from the end of main until the process is gone. The arguments run it.
ended() {
    for _ in 1 2 3; do
        "$@" sh -c '"$0" 60000 end; date "+gone at %s%N ns" >&2' "$folder/launches" 2>&1 >/dev/null
    done | awk '/^main ends at/ { end = $4 } /^gone at/ { print "took", ($3 - end) / 1e6 }' | least took 2
}
under=("$folder/rprof" --quiet --passes timed -F 50 -o "$work/under" --)
alone_ms=$(ended) traced_ms=$(ended "${under[@]}")
echo "alone $alone_ms ms, under rprof $traced_ms ms"
# 50 ms and 0.5 us a record
at_most "the end of the program, more" "$(by 'b - a' "$alone_ms" "$traced_ms")" ms 110
alone=$(for _ in 1 2 3; do "$folder/launches" 1 nodes 2>&1 >/dev/null; done | least 'a node takes' 4)
node=$(for _ in 1 2 3; do "${under[@]}" "$folder/launches" 1 nodes 2>&1 >/dev/null; done | least 'a node takes' 4)
echo "a node of a graph: alone $alone us, under rprof $node us"
at_most "a node of a CUDA graph, more" "$(by 'b - a' "$alone" "$node")" us 1

step "cost of counting"
check timeout 150 "$folder/tools" gpu_cost --yard "$folder/rprof"

if [ -n "$has_torch" ]; then
    step "PyTorch: traced and counted"
    sum() { grep -m1 '^sum ' "$work/log"; }
    check ms "$python" "$folder/train.py" 12 s g; tail -4 "$work/log"; sum=$(sum) small=$(awk '/small us/ { print $3; exit }' "$work/log")
    check ms "$folder/rprof" --passes timed --gpu-counts on -o "$work/torch" -- "$python" "$folder/train.py" 12 s g
    echo "profiled, runs that count included: $(cat "$work/ms") ms"
    same "the program's result, traced" "$sum" "$(sum)"
    at_most "a small launch of PyTorch, more" "$(by 'b - a' "$small" "$(awk '/small us/ { print $3; exit }' "$work/log")")" us 8
    sed -n '/^GPU/,/^off the CPU/p' "$work/log"; grep '^!' -A3 "$work/log" | head -30
    check "$folder/tools" gpu_check --products "$work/torch/profile.json"

    step "PyTorch: what tracing costs where the GPU takes longer than the host, best of three; what each group of counts costs"
    check ms "$python" "$folder/train.py" 1 b; cp "$work/log" "$work/bound.alone"
    check ms "$folder/rprof" --passes timed -o "$work/bound" -- "$python" "$folder/train.py" 1 b; cp "$work/log" "$work/bound.traced"
    for kind in "product 1" "rest 2"; do
        read -r what most <<<"$kind"
        alone=$(least "^$what us" 3 <"$work/bound.alone") bound=$(least "^$what us" 3 <"$work/bound.traced")
        echo "$what: alone $alone us, under rprof $bound us"
        at_most "$what, more" "$(by '100 * (b / a - 1)' "$alone" "$bound")" % "$most"
    done
    check timeout 150 "$folder/tools" gpu_cost 2 "$python" "$folder/train.py" 2

    step "PyTorch under the counting engine, and with a profiler of its own"
    check ms "$python" "$folder/train.py" 2; plain=$(cat "$work/ms") sum=$(sum)
    check ms timeout 150 "$folder/rprof" --memory off --passes counted -o "$work/engine" -- "$python" "$folder/train.py" 2
    same "the program's result, every CPU instruction counted" "$sum" "$(sum)"
    at_most "that run over the plain one" "$(by 'b / a' "$plain" "$(cat "$work/ms")")" times 4
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
