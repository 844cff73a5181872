"""The tables of tests/bench.d/gate.sh."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys

RPROF, WORK, REPEAT, ONLY, CASES = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
# Native runs of each side of a pair, in turns; the smallest CPU time counts.
NATIVE = 7
# Programs of fixtures/bench and how they are asked to be short.
PROGRAMS = [(name, ["1"]) for name in ("hashmap", "quicksort", "spmv", "interpreter", "fft")]
# The pairs, and how their sources are changed so that a run takes less: some 30 ms natively.
SHORTER = {
    "histo": ("k < 20000", "k < 400"),
    "bubble": ("N = 30000", "N = 3000"),
    "cmovchain": ("k < 60000", "k < 900"),
    "rngchain": ("k < 350000", "k < 4000"),
    "aos": ("N = 4000000", "N = 1000000"),
    "cols8192": ("k < 3", "k < 1"),
    "thisalias": ("k < 250000", "k < 4000"),
    "throw": ("k < 4000", "k < 50"),
    "denorm": ("k < 100000", "k < 50000"),
    "stdfill": ("k < 800000", "k < 8000"),
}
# Seconds that one gate may take.
PATIENCE = 900
COMPILERS = {".c": "gcc", ".cc": "g++", ".f90": "gfortran"}


def compile_source(source, program, flags):
    compiler = COMPILERS[os.path.splitext(source)[1]]
    return subprocess.run([compiler, "-O2", "-g", *flags, "-o", program, source, "-lm"], stderr=subprocess.DEVNULL).returncode == 0


def gate(program, arguments):
    """(instructions, cycles, error) of one run, or None."""
    out = os.path.join(WORK, "result.json")
    command = ["timeout", "-s", "KILL", str(PATIENCE), RPROF, "gate", "--quiet", "-o", out, "--", program, *arguments]
    if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        return None
    with open(out) as file:
        result = json.load(file)
    cycles = result["cycles"]
    return (result["instructions"], cycles["value"], cycles["error"]) if cycles else None


def cpu_seconds(command):
    """Of user and kernel together: the kernel divides them by ticks, which short programs hardly see."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cachegrind(program):
    """Its usual estimate of cycles, or None."""
    if not shutil.which("valgrind"):
        return None
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null", program]
    try:
        run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return None
    if run.returncode != 0:
        return None

    def figure(name):
        found = re.search(name + r":\s+([\d,]+)", run.stderr)
        return int(found.group(1).replace(",", "")) if found else 0

    misses = figure("I1 +misses") + figure("D1 +misses")
    return figure("I +refs") + 10 * misses + 100 * figure("LL misses")


def spread(values):
    return max(values) / min(values) - 1


def repeats():
    print(f"{'program':12} {'runs':>4} {'instructions':>14} {'spread':>9} {'cycles':>14} {'spread':>9}")
    for name, arguments in PROGRAMS:
        program = os.path.join(WORK, name)
        if not compile_source(f"fixtures/bench/{name}.c", program, []):
            print(f"{name:12} cannot be compiled")
            continue
        found = [run for run in (gate(program, arguments) for _ in range(REPEAT)) if run]
        if not found:
            print(f"{name:12} failed")
            continue
        instructions, cycles = [run[0] for run in found], [run[1] for run in found]
        print(
            f"{name:12} {len(found):4} {instructions[0]:14.6g} {100 * spread(instructions):8.4f}% "
            f"{cycles[0]:14.6g} {100 * spread(cycles):8.4f}%",
            flush=True,
        )


def ranks(values):
    order = sorted(range(len(values)), key=lambda n: values[n])
    rank = [0.0] * len(values)
    for place, n in enumerate(order):
        rank[n] = place
    return rank


def correlation(a, b):
    """Spearman's, without ties."""
    n = len(a)
    if n < 3:
        return float("nan")
    distance = sum((x - y) ** 2 for x, y in zip(ranks(a), ranks(b)))
    return 1 - 6 * distance / (n * (n * n - 1))


def pairs():
    with open(os.path.join(CASES, "cases.tsv")) as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    columns = ["native", "instructions", "cachegrind", "cycles"]
    print(f"\nafter / before\n{'case':12} " + " ".join(f"{column:>13}" for column in columns) + f" {'± 95 %':>8}")
    table = []
    for row in rows:
        name, flags = row[0], {"before": row[1].split(), "after": row[2].split()}
        if name not in SHORTER or not re.search(ONLY, name):
            continue
        folder, programs = os.path.join(CASES, name), {}
        for side in ("before", "after"):
            source = next((f for f in os.listdir(folder) if f.startswith(side + ".")), None)
            # Both sides have one path.
            program = os.path.join(WORK, name, side, "app")
            os.makedirs(os.path.dirname(program), exist_ok=True)
            if source and os.path.splitext(source)[1] in COMPILERS:
                with open(os.path.join(folder, source)) as file:
                    text = file.read()
                short = os.path.join(WORK, name, source)
                with open(short, "w") as file:
                    file.write(text.replace(*SHORTER[name]))
                if SHORTER[name][0] in text and compile_source(short, program, flags[side]):
                    programs[side] = program
        if len(programs) < 2:
            continue
        seconds = {side: [] for side in programs}
        for _ in range(NATIVE):
            for side, program in programs.items():
                seconds[side].append(cpu_seconds([program]))
        native = min(seconds["after"]) / max(min(seconds["before"]), 1e-9)
        modelled, estimated = {}, {}
        here = os.path.join(WORK, "app")
        for side, program in programs.items():
            shutil.copy(program, here)
            modelled[side], estimated[side] = gate(here, []), cachegrind(here)
        if not all(modelled.values()):
            print(f"{name:12} {native:13.3f} {'failed':>13}", flush=True)
            continue
        ratio = lambda of: of(modelled["after"]) / of(modelled["before"])
        cycles = ratio(lambda m: m[1])
        error = cycles * sum((modelled[s][2] / modelled[s][1]) ** 2 for s in modelled) ** 0.5
        by_cachegrind = estimated["after"] / estimated["before"] if all(estimated.values()) else None
        values = [native, ratio(lambda m: m[0]), by_cachegrind, cycles]
        table.append(values)
        texts = [f"{value:13.3f}" if value is not None else f"{'-':>13}" for value in values]
        print(f"{name:12} " + " ".join(texts) + f" {error:8.3f}", flush=True)
    for column, name in enumerate(columns[1:], 1):
        rows = [row for row in table if row[column] is not None and abs(row[0] - 1) >= 0.05]
        right = sum((row[column] - 1) * (row[0] - 1) > 0 for row in rows)
        rank = correlation([row[0] for row in rows], [row[column] for row in rows])
        print(f"{name}: sign right in {right} of {len(rows)} pairs that differ by 5 % or more; rank correlation {rank:.2f}")


if REPEAT > 0:
    repeats()
pairs()
