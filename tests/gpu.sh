#!/bin/bash
# All checks that need a GPU, offline, from prebuilt binaries, in under 8 minutes: tests/gpu.sh [FOLDER]
#
# FOLDER (default: target/gpu) holds `rprof`, `gpu_check` (examples/gpu_check.rs) and `launches` (fixtures/gpu/app.c, linked against a
# libcuda.so.1); `tests/gpu.sh --prepare` puts them there. What is printed is quoted in closing notes. Ends with 1 where a check fails.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1

if [ "${1-}" = --prepare ]; then
    mkdir -p target/gpu
    cargo build --release --bins --example gpu_check || exit 1
    cp target/release/rprof target/release/examples/gpu_check target/gpu/ && strip -g target/gpu/rprof target/gpu/gpu_check
    work=$(mktemp -d) && cc -shared -fPIC -Wl,-soname,libcuda.so.1 fixtures/gpu/libcuda_traced.c -o "$work/libcuda.so.1" -ldl &&
        cc -O2 fixtures/gpu/app.c "$work/libcuda.so.1" -o target/gpu/launches && cp fixtures/gpu/train.py target/gpu/ && rm -r "$work"
    exit
fi

folder=$(realpath "${1:-target/gpu}")
work=$(mktemp -d)
export XDG_CACHE_HOME=$work/cache
failed=0
step() { printf '\n== %s\n' "$*"; }
check() { "$@" || { echo "FAILED ($?): $*"; failed=1; }; }
ms() { local start; start=$(date +%s%N); "$@" >"$work/log" 2>&1; local status=$?; echo $((($(date +%s%N) - start) / 1000)) >"$work/us"; return $status; }
python=$(command -v python3 || true)
has_torch=; [ -n "$python" ] && "$python" -c 'import torch' 2>/dev/null && has_torch=1

step "the host"
nvidia-smi -L 2>&1; nproc; grep RmProfilingAdminOnly /proc/driver/nvidia/params

step "ceilings: two full measurements and a quick one"
for run in 1 2; do
    check ms "$folder/rprof" machine --gpu --refresh --json; cp "$work/log" "$work/machine$run.json"
    echo "full measurement $run: $(($(cat "$work/us") / 1000)) ms"
done
check ms env XDG_CACHE_HOME="$work/other" "$folder/rprof" machine --gpu --quick --json
echo "quick measurement: $(($(cat "$work/us") / 1000)) ms"
check "$folder/gpu_check" --ceilings "$work/machine1.json" "$work/machine2.json"

step "known kernels: counts and classes"
check ms "$folder/rprof" __gpu_demo; echo "plain: $(($(cat "$work/us") / 1000)) ms"
check ms "$folder/rprof" demo --gpu -o "$work/demo"; echo "profiled, runs that count included: $(($(cat "$work/us") / 1000)) ms"
sed -n '/^GPU/,/^Waiting/p' "$work/log"
check "$folder/gpu_check" "$work/demo/profile.json"

step "cost of tracing: 120,000 launches by the driver API, alone and under rprof"
for _ in 1 2 3; do
    "$folder/launches" 60000 time >/dev/null
    "$folder/rprof" --quiet --passes timed -F 50 -o "$work/launches" -- "$folder/launches" 60000 time 2>&1 >/dev/null | grep 'a launch takes' | sed 's/$/ under rprof/'
done

if [ -n "$has_torch" ]; then
    step "PyTorch: traced and counted"
    check ms "$python" "$folder/train.py" 12 s g; tail -4 "$work/log"
    check ms "$folder/rprof" --passes timed --gpu-counts on -o "$work/torch" -- "$python" "$folder/train.py" 12 s g
    echo "profiled, runs that count included: $(($(cat "$work/us") / 1000)) ms"; grep -m3 'small us' "$work/log"
    sed -n '/^GPU/,/^off the CPU/p' "$work/log"; grep '^!' -A3 "$work/log" | head -30
fi

[ -n "${OUT-}" ] && tar czf "$OUT/gpu.tgz" -C "$work" --exclude cache .
rm -rf "$work"
echo; [ $failed = 0 ] && echo "all checks passed" || echo "SOME CHECKS FAILED"
exit $failed
