#!/bin/bash
# The layer model against what the operations take: Tables 3.6 and 3.7 of Cardwell's thesis redone, its network 784 – 50 – 10 with ReLU and sigmoid.
# "actual": fixtures/blas/network.c, one thread of Debian's OpenBLAS; "predicted": rprof predict, which sees the sizes alone. MAPE: the mean of the
# absolute errors. NumPy's own times stand beside them: its call costs a microsecond and more. BENCH_BATCHES="32 64" restricts the batches.
set -u
. tests/bench.d/common.sh

gcc -O3 -o "$work_dir/network" fixtures/blas/network.c -lopenblas -lm 2>"$work_dir/err" ||
    { echo "layers: the network cannot be built (Debian: libopenblas-dev): $(head -1 "$work_dir/err")"; exit 0; }
export OPENBLAS_NUM_THREADS=1

for batch in ${BENCH_BATCHES:-32 64 128 256}; do
    cat >"$work_dir/net.toml" <<TABLE
batch = $batch
threads = 1
layers = [
    { name = "fc1", gemm = [$batch, 50, 784] },
    { name = "relu", relu = $((50 * batch)) },
    { name = "fc2", gemm = [$batch, 10, 50] },
    { name = "sigmoid", sigmoid = $((10 * batch)) },
]
TABLE
    for ((i = 0; i < REPEAT; i++)); do
        "$work_dir/network" "$batch" | sed "s/^/$batch actual /"
        "$RPROF" predict "$work_dir/net.toml" --json >"$work_dir/predicted" || exit 1
        python3 - "$batch" "$work_dir/predicted" <<'PYTHON'
import json, sys
for layer in json.load(open(sys.argv[2]))["layers"]:
    print(sys.argv[1], "predicted", layer["name"], layer["seconds"])
PYTHON
        /usr/bin/python3 fixtures/blas/network.py "$batch" 2>/dev/null | sed "s/^/$batch numpy /"
    done
done >"$results"

python3 - "$results" <<'PYTHON'
import statistics, sys
times = {}
for line in open(sys.argv[1]):
    batch, kind, name, seconds = line.split()
    times.setdefault((int(batch), name), {}).setdefault(kind, []).append(float(seconds))
print(f"{'operation':10}{'batch':>6}{'actual µs':>11}{'predicted':>11}{'error %':>9}{'NumPy µs':>10}")
errors = {}
for (batch, name), by_kind in times.items():
    median = {kind: statistics.median(values) for kind, values in by_kind.items()}
    error = 100 * (median["predicted"] - median["actual"]) / median["actual"]
    errors.setdefault(batch, []).append((abs(error), median["actual"]))
    numpy = f"{1e6 * median['numpy']:10.2f}" if "numpy" in median else f"{'-':>10}"
    print(f"{name:10}{batch:6}{1e6 * median['actual']:11.3f}{1e6 * median['predicted']:11.3f}{error:+9.1f}{numpy}")
for batch, all_errors in errors.items():
    long = [error for error, actual in all_errors if actual >= 1e-6]
    whole = statistics.mean(error for error, _ in all_errors)
    print(f"batch {batch:4}: MAPE {whole:5.1f} %, of operations of 1 µs and more {statistics.mean(long):5.1f} % (thesis: 44 to 62 %)")
print(f"all batches: MAPE {statistics.mean(e for all_errors in errors.values() for e, _ in all_errors):.1f} %")
PYTHON
