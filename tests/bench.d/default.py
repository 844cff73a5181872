"""Prints what a run with default passes explains and costs: default.py RPROF ROUNDS [OPTION...] <PROGRAMS, see default.sh

elapsed: all that the user waits for rprof, ceilings excepted, over native runs in the same rounds; first: the user's own run over them. Medians.
"""
import collections
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

LEAST_SHARE = 0.03
WITHIN = 0.25

rprof, rounds, options = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


def programs():
    words = sys.stdin.buffer.read().decode().split("\0")[:-1]
    while words:
        name, count = words[0], int(words[1])
        yield name, words[2 : 2 + count]
        words = words[2 + count :]


def seconds(command):
    begin = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    return time.monotonic() - begin, done


def verdict(name, command):
    """One profiled run: elapsed seconds, the profile, the first line of advice, and whether there was a second run."""
    folder = f"profiles/{name.rstrip('*')}"
    shutil.rmtree(folder, ignore_errors=True)
    elapsed, done = seconds([rprof, *options, "-o", folder, "--", *command])
    told = done.stderr.decode(errors="replace")
    with open(f"{folder}/profile.json") as file:
        profile = json.load(file)
    advice = next((line for line in told.splitlines() if line.startswith("→")), "-")
    passes = "+".join(p["kind"] for p in profile["run"]["passes"])
    ended = next((line.split("before ", 1)[1] for line in told.splitlines() if "ended the second run before" in line), "")
    return elapsed, profile, advice, passes, ended


def explained(profile):
    """(share with a class, share modelled) of the time in functions with 3 % of it."""
    functions = profile["functions"]
    times = [((f["cpu_s"] or 0) + (f.get("kernel_s") or 0), f) for f in functions]
    total = sum(s for s, _ in times)
    large = [(s, f) for s, f in times if total > 0 and s >= LEAST_SHARE * total]
    weight = sum(s for s, _ in large)
    if weight <= 0:
        return 0, 0
    classed = sum(s for s, f in large if f.get("class") not in (None, "unknown"))

    def ratio(f):
        return f["account"]["model_s"] / f["cpu_s"] if f.get("account") and f["cpu_s"] else None

    modelled = sum(s for s, f in large if (r := ratio(f)) is not None and abs(r - 1) <= WITHIN)
    return classed / weight, modelled / weight


def alike(answers):
    """How many of the answers are the most frequent one."""
    return collections.Counter(answers).most_common(1)[0][1]


print(f"{'program':10} {'native s':>8} {'first':>6} {'elapsed':>8} {'classed':>8} {'modelled':>9} {'class':>6} {'advice':>7}  passes")
rows = []
for name, command in programs():
    natives, firsts, all_s, shares, classes, advices = [], [], [], [], [], []
    for _ in range(rounds):
        native_s, _ = seconds(command)
        elapsed, profile, advice, passes, ended = verdict(name, command)
        natives.append(native_s)
        first = next((p["wall_s"] for p in profile["run"]["passes"] if p["kind"] == "timed"), None)
        firsts.append(first / native_s)
        all_s.append(elapsed)
        shares.append(explained(profile))
        hottest = max(profile["functions"], key=lambda f: (f["cpu_s"] or 0) + (f.get("kernel_s") or 0), default={})
        classes.append((hottest.get("name"), hottest.get("class")))
        # Figures in the sentence vary.
        advices.append("".join(c for c in advice if not c.isdigit()))
    classed, modelled = (statistics.median(of) for of in zip(*shares))
    native_s = statistics.median(natives)
    rows.append((name, classed, modelled, alike(classes), alike(advices)))
    print(
        f"{name:10} {native_s:8.2f} {statistics.median(firsts):6.3f} {statistics.median(all_s) / native_s:7.2f}x {100 * classed:7.0f}% {100 * modelled:8.0f}% "
        f"{alike(classes):3}/{rounds} {alike(advices):4}/{rounds}  {passes}{' until ' + ended if ended else ''}",
        flush=True,
    )
    print(f"{'':10} {classes[0][0]}: {classes[0][1]}  {advices[0][:100]}", flush=True)
if rows:
    count = len(rows)
    print(f"\nof {count}: classed at least 90 %: {sum(r[1] >= 0.9 for r in rows)}, at least 80 %: {sum(r[1] >= 0.8 for r in rows)}; ", end="")
    print(f"same class each time: {sum(r[3] == rounds for r in rows)}, same advice: {sum(r[4] == rounds for r in rows)}")
