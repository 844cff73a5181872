#!/bin/bash
# Prints what the single pass costs and how far its counts are from exact ones.
#
# Cost: programs of fixed work, elapsed time under --passes single, timed, and perf record over the native run just before (medians).
# Truth: instructions of each function with 5 % of the time over those of the counted pass, with the stated 95 % interval; the last
# line counts the intervals that hold the exact figure.
#
#   tests/bench.d/single.sh [ROUNDS]
set -euo pipefail
rounds=${1:-5}
root=$(cd "$(dirname "$0")/../.." && pwd)
RPROF=${RPROF:-${CARGO_TARGET_DIR:-$root/target}/release/rprof}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -o "$work/recursion" "$root/fixtures/visits/recursion.c"
cc -O2 -o "$work/kernels" "$root/fixtures/visits/kernels.c"
python3 - "$RPROF" "$work" "$rounds" <<'PYTHON'
import json, shutil, statistics, subprocess, sys, time

rprof, work, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
programs = {"recursion": [f"{work}/recursion"], "kernels": [f"{work}/kernels"]}
python = "d = {}\nfor i in range(12_000_000): d[i % 1000] = d.get(i % 1000, 0) + i\nprint(sum(d.values()))"
programs["python3"] = ["python3", "-c", python]
tools = {
    "single": [rprof, "--quiet", "--passes", "single", "--memory", "off", "-o", f"{work}/single", "--"],
    "timed": [rprof, "--quiet", "--passes", "timed", "-o", f"{work}/timed", "--"],
}
if shutil.which("perf"):
    tools["perf record"] = ["perf", "record", "-q", "-e", "cpu-clock", "-g", "-o", f"{work}/perf.data", "--"]


def seconds(command):
    """Elapsed seconds of the program itself: rprof's own come from its profile, without the ceilings and the report."""
    for folder in ("single", "timed"):
        shutil.rmtree(f"{work}/{folder}", ignore_errors=True)
    begin = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    elapsed = time.monotonic() - begin
    for folder in ("single", "timed"):
        if command[0] == rprof and f"{work}/{folder}" in command:
            passes = json.load(open(f"{work}/{folder}/profile.json"))["run"]["passes"]
            return next(p["wall_s"] for p in passes if p["kind"] == "timed")
    return elapsed


print("cost, over native")
for name, command in programs.items():
    ratios = {tool: [] for tool in tools}
    for _ in range(rounds):
        for tool, before in tools.items():
            native = seconds(command)
            ratios[tool].append(seconds(before + command) / native)
    figures = "  ".join(f"{tool} {statistics.median(of):.3f}" for tool, of in ratios.items())
    print(f"  {name:10} {figures}")

print("truth, over the counted pass")
held = of = 0
for name, command in programs.items():
    counted = f"{work}/counted"
    shutil.rmtree(counted, ignore_errors=True)
    exact_run = [rprof, "--quiet", "--passes", "counted", "--memory", "off", "-o", counted, "--"] + command
    subprocess.run(exact_run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    exact = {f["name"]: f for f in json.load(open(f"{counted}/profile.json"))["functions"]}
    for _ in range(rounds):
        seconds(tools["single"] + command)
        functions = json.load(open(f"{work}/single/profile.json"))["functions"]
        line = []
        for f in (f for f in functions if (f["share"] or 0) >= 0.05 and f["name"] in exact):
            error = f["source"]["instructions"].get("error")
            if not f["instructions"] or not exact[f["name"]]["instructions"]:
                line.append(f"{f['name'][:24]} null")
                continue
            ratio = f["instructions"] / exact[f["name"]]["instructions"]
            of += 1
            held += error is not None and abs(ratio - 1) <= error
            line.append(f"{f['name'][:24]} {ratio:.2f} ± {error:.2f}" if error is not None else f"{f['name'][:24]} {ratio:.2f}")
        print(f"  {name:10} {', '.join(line)}")
print(f"  {held} of {of} intervals hold the exact figure")
PYTHON
