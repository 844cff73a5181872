"""Prints what the single pass costs and how far its counts are from exact ones: single.py RPROF ROUNDS, in the folder of the programs (see single.sh)

Cost: elapsed time under --passes single, --passes timed, both passes (--passes both) and perf record over the native run just before; medians over
the rounds.
Truth: figures of each function with 5 % of the time, over those of the counted pass, by program: their geometric mean, the furthest, and how many of the
stated 95 % intervals hold the exact figure. The host's neighbours change the speed of a program from second to second, natively, too (the bench prints the spread
of native runs): means over rounds say more than one of them.
"""
import collections
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

PYTHON = "d = {}\nfor i in range(45_000_000): d[i % 1000] = d.get(i % 1000, 0) + i\nprint(sum(d.values()))"
LUA = "local t = {} for i = 1, 350000000 do t[i % 1000] = (t[i % 1000] or 0) + i % 7 end print(t[5])"
PERL = 'my $s = 0; for (1..5) { my %h; $h{$_ % 1000} .= $_ for 1..14000000; $s += length for values %h } print "$s\\n"'
SQL = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 18000000)
SELECT i % 17, count(*), sum(i * 7 % 1001) FROM n GROUP BY 1 ORDER BY 3;"""
AWK = "BEGIN { for (i = 0; i < 50000000; i++) { a[i % 1000] += i * 3 % 17; s += length(i) } print s }"
# The known kernels, and programs of Debian's packages: 5 s each on a fast host.
PROGRAMS = {
    "recursion": ["./recursion"],
    "kernels": ["./kernels"],
    "python3": ["python3", "-c", PYTHON],
    "lua": ["lua5.4", "-e", LUA],
    "perl": ["perl", "-e", PERL],
    "sqlite": ["sqlite3", ":memory:", SQL],
    "mawk": ["mawk", AWK],
    "gzip": ["gzip", "-6", "-c", "lines", "lines", "lines"],
    "xz": ["xz", "-2", "-T1", "-k", "-f", "lines"],
    "numpy": ["/usr/bin/python3", "algebra.py", "2500"],
}
FIGURES = {
    "instructions": lambda f: f["instructions"],
    "flops": lambda f: (f["flops"] or {}).get("total"),
    "bytes.l1": lambda f: (f["bytes"] or {}).get("l1"),
    "bytes.dram": lambda f: (f["bytes"] or {}).get("dram"),
}
LEAST_SHARE = 0.05
# Figures of less are start-up and noise; less from memory takes a hundredth of a second.
LEAST = {"instructions": 1e6, "flops": 1e6, "bytes.l1": 1e7, "bytes.dram": 2e8}

rprof, rounds = sys.argv[1], int(sys.argv[2])
only = re.compile(os.environ.get("BENCH_ONLY", "."))
environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


def run(command):
    begin = time.monotonic()
    try:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, env=environment, timeout=100)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{command}: {error.stderr.decode(errors='replace')}")
        raise
    return time.monotonic() - begin


def profiled(passes, command):
    shutil.rmtree(passes, ignore_errors=True)
    run([rprof, "--quiet", "--passes", passes, "-o", passes, "--", *command])
    with open(f"{passes}/profile.json") as file:
        return json.load(file)


def wall_s(profile):
    """Elapsed seconds of the program itself, in all runs: without rprof's ceilings and its report."""
    return sum(p["wall_s"] for p in profile["run"]["passes"] if p["kind"] in ("timed", "counted"))


def cost(programs):
    tools = {
        "single": lambda command: wall_s(profiled("single", command)),
        "timed": lambda command: wall_s(profiled("timed", command)),
        "two runs": lambda command: wall_s(profiled("both", command)),
    }
    if shutil.which("perf"):
        tools["perf record"] = lambda command: run(["perf", "record", "-q", "-e", "cpu-clock", "-g", "-o", "perf.data", "--", *command])
    print(f"cost: elapsed time over native, medians of {rounds}\n  {'':10}{'native s':>10}{'spread':>8}" + "".join(f"{t:>13}" for t in tools))
    for name, command in programs.items():
        ratios, natives = {tool: [] for tool in tools}, []
        for _ in range(rounds):
            for tool, seconds in tools.items():
                natives.append(run(command))
                ratios[tool].append(seconds(command) / natives[-1])
        spread = max(natives) / min(natives) - 1
        print(f"  {name:10}{statistics.median(natives):10.2f}{100 * spread:7.0f}%" + "".join(f"{statistics.median(of):13.3f}" for of in ratios.values()), flush=True)


def truth(programs):
    print(f"truth: single pass over counted pass, functions with 5 % of the time, {rounds} runs: mean [least .. most], held of intervals")
    print(f"  {'':10}" + "".join(f"{figure:>34}" for figure in FIGURES))
    sums = collections.Counter()
    for name, command in programs.items():
        exact = {(f["name"], f["module"]): f for f in profiled("counted", command)["functions"]}
        ratios, held = collections.defaultdict(list), collections.Counter()
        for _ in range(rounds):
            for f in profiled("single", command)["functions"]:
                known = exact.get((f["name"], f["module"]))
                if (f["share"] or 0) < LEAST_SHARE or not known:
                    continue
                for figure, of in FIGURES.items():
                    source = f["source"].get(figure) or f["source"].get(figure.split(".")[0]) or {}
                    if (of(known) or 0) < LEAST[figure]:
                        continue
                    if not of(f):
                        sums[figure, "without"] += 1
                        continue
                    ratios[figure].append(of(f) / of(known))
                    # The error is relative to the estimate.
                    held[figure] += source.get("error") is not None and abs(of(f) - of(known)) <= source["error"] * of(f)
        cells = ""
        for figure in FIGURES:
            r = ratios[figure]
            sums[figure, "held"] += held[figure]
            sums[figure, "of"] += len(r)
            mean = math.exp(statistics.mean(map(math.log, r))) if r else 0
            cells += f"{f'{mean:.3f} [{min(r):.2f} .. {max(r):.2f}] {held[figure]}/{len(r)}' if r else '-':>34}"
        print(f"  {name:10}{cells}", flush=True)
    for figure in FIGURES:
        print(f"  {figure}: {sums[figure, 'held']} of {sums[figure, 'of']} intervals hold the exact figure; {sums[figure, 'without']} have no figure")


chosen = {}
for name, command in PROGRAMS.items():
    if only.search(name):
        try:
            run(command)
            chosen[name] = command
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{name} SKIPPED: packages: {error}")
if os.environ.get("BENCH_COST") != "no":
    cost(chosen)
if os.environ.get("BENCH_TRUTH") != "no":
    truth(chosen)
