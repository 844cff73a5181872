#!/bin/bash
# What each estimator of the sampled memory model is worth: of the kernels of the part "memory" on this host's caches, and of five programs
# on small ones that windows see badly (parts in turns, phases of two speeds, conflicts), bytes a pass by the exact model, the error that
# the sampled model states, and in percent how far off it is as it is and without each of its estimators, all of them fed with the same
# windows of one run.
# "compulsory": percentage points of the misses. Behind it, by estimator and level: in how many rows leaving it out moves the figure by
# more than the stated error, and by how much that makes it worse and better. BENCH_REPEAT runs, of which the median by column counts.
set -u
. tests/bench.d/common.sh

kernels=(read copy copy_nt triad update write write_nt stencil transpose transpose_blocked matmul matmul_blocked spmv
    stride stride_padded)
# Passes over 64 MiB an array: enough for several windows of a sampled run. Exact runs do two.
declare -A passes=([matmul]=3 [matmul_blocked]=64 [transpose]=16 [transpose_blocked]=32 [stencil]=48)
# Seconds that one run may take.
patience=900
known=$work_dir/known

cargo build --release --quiet --example tools || exit 1
tools=${CARGO_TARGET_DIR:-target}/release/examples/tools
gcc -O3 -mavx2 -mfma -ffast-math -static -fno-tree-loop-distribute-patterns -fno-loop-interchange -fno-loop-unroll-and-jam \
    -o "$known" fixtures/memory/known.c || exit 1
for program in alternate records passes phased strided; do
    gcc -O1 -static -fno-tree-loop-distribute-patterns -o "$work_dir/$program" fixtures/memory/$program.c || exit 1
done

# rows NAME ARGUMENTS…: the rows of one program, the median of REPEAT runs.
rows() {
    local name=$1 round
    shift
    [[ $name =~ $ONLY ]] || return
    for ((round = 0; round < REPEAT; round++)); do
        timeout $patience "$tools" memory_ablation "$@" || echo "$name: no figures" >&2
    done >"$work_dir/rounds"
    python3 - "$work_dir/rounds" "$3" "$4" <<'PYTHON'
import statistics, sys
path, exact_passes, passes = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
# Bytes of the whole run, however many passes.
once = {(name, "dram") for name in ("clear", "fill", "pass_copy", "pass_triad", "pass_update")}
# Of fewer bytes a sample of one line in 32 has less than a hundred lines.
FEW = 100 * 32 * 64
rows = {}
for line in open(path):
    kernel, level, exact, stated, *off = line.split()
    if level != "compulsory" and float(exact) * passes < FEW:
        continue
    if (kernel, level) in once:
        exact = float(exact) * exact_passes
        off = [100 * ((1 + float(x) / 100) * passes / exact_passes - 1) for x in off]
    rows.setdefault((kernel, level), []).append([exact, stated, *off])
for (kernel, level), rounds in rows.items():
    columns = []
    for column in zip(*rounds):
        numbers = [float(x) for x in column if x not in ("-", "+NaN", "NaN")]
        columns.append(f"{statistics.median(numbers):+.1f}" if numbers else "-")
    exact = f"{statistics.median(float(r[0]) for r in rounds):.3e}"
    widths = (8, 9, 8, 8, 8, 10)
    stated = columns[1].lstrip("+")
    print(f"{kernel:18} {level:10} {exact:>10} {stated:>7} {columns[2]:>8} " + " ".join(f"{c:>{w}}" for c, w in zip(columns[3:], widths)))
PYTHON
}

printf '%-18s %-10s %10s %7s %8s %8s %9s %8s %8s %8s %10s\n' function level exact stated whole frames conflicts stays arrivals \
    weights regression
{
    for name in "${kernels[@]}"; do
        rows "$name" host "k_$name" "$([ "$name" = matmul ] && echo 1 || echo 2)" "${passes[$name]-64}" "$known" "$name"
    done
    rows alternate 16,256,4096 read_all,update_half,write_part,update_part 6 1500 "$work_dir/alternate"
    rows records 16,256,8192 clear,fill 4 4000 "$work_dir/records"
    rows passes 16,256,4096 pass_copy,pass_triad,pass_update,pass_gather,pass_small 20 3000 "$work_dir/passes"
    rows phased 16,256,4096 sum_all 2 60 "$work_dir/phased"
    rows strided 16,256,4096 walk 3000 200000 "$work_dir/strided"
} | tee "$work_dir/table"
echo
python3 - "$work_dir/table" <<'PYTHON'
import sys
names = ["frames", "conflicts", "stays", "arrivals", "weights", "regression"]
levels = {}
for line in open(sys.argv[1]):
    kernel, level, exact, stated, whole, *without = line.split()
    if whole == "-":
        continue
    error = float(stated) if stated != "-" else 0.0
    for name, figure in zip(names, without):
        move = abs(float(figure) - float(whole))
        worse = abs(float(figure)) - abs(float(whole))
        levels.setdefault((level, name), []).append((move > error and move > 0.05, worse, kernel))
for (level, name), moves in levels.items():
    beyond = sum(m[0] for m in moves)
    worst, kernel = max((m[1], m[2]) for m in moves)
    best, other = min((m[1], m[2]) for m in moves)
    print(f"without {name:10} at {level:10}: beyond the stated error in {beyond:2} of {len(moves)}; at worst {worst:+.1f} points of error ({kernel}), at best {best:+.1f} ({other})")
PYTHON
exit 0
