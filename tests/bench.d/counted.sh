#!/bin/bash
# Cost of the counted pass beside its peers, all runs interleaved: ratios to native of the kernels' own time (start-up
# excluded) and of whole commands. Targets (rprof, --memory off): fp 1.05 in the geometric mean and none above 1.3, branchy
# and commands 1.4 and none above 1.9. Slow peers do a tenth of the work; kernel ratios are per unit of work.
set -u
. tests/bench.d/common.sh

fast=20 slow=2
declare -A command=(
    [rprof]="$RPROF --quiet --passes counted --memory off -o $work_dir/rprof.out --"
    [rprof_memory]="$RPROF --quiet --passes counted --memory sampled -o $work_dir/rprof.out --"
    [perf]="perf record -q -F 1000 -e cpu-clock -o $work_dir/perf.data --"
    [valgrind]="valgrind -q --tool=none"
    [lackey]="valgrind -q --log-file=/dev/null --tool=lackey"
    [qemu]="qemu-x86_64 -cpu max"
    [pyqbdi]="python3 $work_dir/qbdi.py"
)
read -ra tools <<<"${BENCH_TOOLS:-rprof rprof_memory perf valgrind lackey qemu pyqbdi}"
slow_tools=" valgrind lackey qemu pyqbdi "

skip() {
    echo "SKIPPED: $1: $2"
    unset "command[$1]"
}
has perf && perf record -q -e cpu-clock -o "$work_dir/perf.data" true >/dev/null 2>&1 || skip perf "perf record does not run here"
has valgrind || { skip valgrind "not installed"; skip lackey "not installed"; }
has qemu-x86_64 || skip qemu "qemu-user is not installed"
# PyQBDI instruments only what a Python process loads as a library: the kernels are built as libraries, too.
if ! python3 -c 'import pyqbdi' 2>/dev/null; then
    skip pyqbdi "not installed (python3 -m pip install pyqbdi)"
fi
cat >"$work_dir/qbdi.py" <<'PYTHON'
import ctypes, os, sys
import pyqbdi

library = ctypes.CDLL(sys.argv[1] + ".so")
start = ctypes.cast(library.bench_main, ctypes.c_void_p).value
arguments = [argument.encode() for argument in sys.argv[1:]]
argv = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
vm = pyqbdi.VM()
pyqbdi.allocateVirtualStack(vm.getGPRState(), 1 << 22)
vm.addInstrumentedModuleFromAddr(start)
done, status = vm.call(start, [len(arguments), ctypes.addressof(argv)])
ctypes.CDLL(None).fflush(None)
os._exit(status & 255 if done else 99)
PYTHON

row_tools=()
# row NAME UNITS_FAST UNITS_SLOW COMMAND…: {} in the command stands for the units of work.
row() {
    local name=$1 units_fast=$2 units_slow=$3
    shift 3
    [[ $name =~ $ONLY ]] || return 0
    row_tools=()
    measure "$name" native "$units_slow" "${@//\{\}/$units_slow}" || return
    sed -i '$d' "$results"
    for tool in "${tools[@]}"; do
        [ "${command[$tool]-}" ] || continue
        # A short trial: can the tool run it, with the right answer?
        # shellcheck disable=SC2086
        if measure "$name" "$tool" "$units_slow" ${command[$tool]} "${@//\{\}/$units_slow}"; then
            sed -i '$d' "$results"
            row_tools+=("$tool")
        fi
    done
    local repeat tool units
    for ((repeat = 0; repeat < REPEAT; repeat++)); do
        measure "$name" native "$units_fast" "${@//\{\}/$units_fast}"
        for tool in "${row_tools[@]}"; do
            units=$units_fast
            [[ $slow_tools == *" $tool "* ]] && units=$units_slow
            # shellcheck disable=SC2086
            measure "$name" "$tool" "$units" ${command[$tool]} "${@//\{\}/$units}"
        done
    done
}

build() {
    gcc "${@:2}" -o "$work_dir/$1" "fixtures/bench/${1%%.*}.c" -lm
    if [ "${command[pyqbdi]-}" ]; then
        gcc "${@:2}" -shared -fPIC -Dmain=bench_main -o "$work_dir/$1.so" "fixtures/bench/${1%%.*}.c" -lm
    fi
}

export OMP_NUM_THREADS=2
builds=(scalar avx2)
grep -q avx512f /proc/cpuinfo && builds+=(avx512)
declare -A flags=(
    [scalar]="-O2 -fno-tree-vectorize"
    [avx2]="-O3 -ffast-math -mavx2 -mfma"
    [avx512]="-O3 -ffast-math -mavx512f -mfma -mprefer-vector-width=512"
)
for kind in "${builds[@]}"; do
    for program in triad dgemm spmv stencil fft dot; do
        # shellcheck disable=SC2086
        build "$program.$kind" ${flags[$kind]}
    done
    for program in triad dgemm spmv stencil; do
        # shellcheck disable=SC2086
        build "$program.$kind.omp" ${flags[$kind]} -fopenmp
        rm -f "$work_dir/$program.$kind.omp.so" # PyQBDI would leave its threads alone
    done
    for size in L1:20000 L2:500000 L3:8000000 DRAM:400000000; do
        units=$fast
        [ "${size%%:*}" = DRAM ] && units=4
        row "fp/triad_${size%%:*}/$kind" $units $slow "$work_dir/triad.$kind" {} "${size#*:}"
    done
    for program in dgemm spmv stencil fft dot; do
        row "fp/$program/$kind" $fast $slow "$work_dir/$program.$kind" {}
    done
    # Two threads start, and meet whoever else wants a CPU: over 20 ms the row would show that instead of the kernel.
    for size in L2:1000000 L3:16000000 DRAM:800000000; do
        units=$((10 * fast))
        [ "${size%%:*}" = DRAM ] && units=8
        row "fp/triad_${size%%:*}/$kind/omp2" $units $slow "$work_dir/triad.$kind.omp" {} "${size#*:}"
    done
    for program in dgemm spmv stencil; do
        row "fp/$program/$kind/omp2" $((10 * fast)) $slow "$work_dir/$program.$kind.omp" {}
    done
done
for program in interpreter quicksort hashmap; do
    build "$program" -O2
    row "branchy/$program" $fast $slow "$work_dir/$program" {}
done

echo "Kernel time, ratio to native (native: ms a unit of work)"
table 3 "${tools[@]}"

# Whole commands, the slow peers with all the work. Of rprof it is the counted pass: what follows it is no slow-down.
whole_is_pass=1
: >"$results"
slow_tools=
seq 1 300000 | sort -R --random-source=/dev/zero >"$work_dir/numbers"
cat >"$work_dir/fib.lua" <<'LUA'
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print(fib(27))
LUA
python=$(python3 -c 'import sys; print(sys.executable)')
row "command/true" 1 1 /bin/true
has lua5.4 && row "command/lua_fib" 1 1 "$(command -v lua5.4)" "$work_dir/fib.lua"
row "command/python_loop" 1 1 "$python" -c 'print(sum(i * i % 7 for i in range(1000000)))'
/usr/bin/python3 -c 'import numpy' 2>/dev/null && row "command/import_numpy" 1 1 /usr/bin/python3 -c 'import numpy'
row "command/gzip" 1 1 "$(command -v gzip)" -9 -c "$work_dir/numbers"
row "command/sort" 1 1 "$(command -v sort)" -n "$work_dir/numbers"
row "command/gcc" 1 1 "$(command -v gcc)" -O2 -c -o "$work_dir/fft.o" fixtures/bench/fft.c
echo
echo "Whole commands, ratio to native (rprof: its counted pass)"
table 4 "${tools[@]}"
