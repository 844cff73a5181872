"""Prints the steps of fixtures/paper: the point that was measured, the ceilings around it, advice, and what the next step gave.

paper.py FIXTURES STEPS TIMES PROFILES (see paper.sh)
"""
import json
import pathlib
import re
import sys

fixtures, steps_file, times, profiles = (pathlib.Path(p) for p in sys.argv[1:])
HOT = re.compile(r"^[a-z]+_step\d")

removes = {}
for line in (fixtures / "removes.txt").read_text().splitlines():
    if line and not line.startswith("#"):
        name, *names = line.split()
        removes[name] = set(names)
least, work = {}, {}
for line in times.read_text().splitlines():
    program, step, *words = line.split()
    if "kernel" in words:
        seconds = float(words[words.index("kernel") + 1])
        least[program, step] = min(least.get((program, step), seconds), seconds)
    if "work" in words:
        at = words.index("work")
        work[program, step] = float(words[at + 1]), words[at + 2]


def number(value, digits=3):
    """With an SI prefix."""
    if value is None:
        return "-"
    for factor, prefix in (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"):
        if value >= factor:
            return f"{value / factor:.{digits}g}{prefix}"
    return f"{value:.{digits}g}"


def ceiling(c):
    return f"{c[1]} {number(c[0])}" if c else "(none)"


def ceilings(profile, f):
    """(FLOP/s, name) of the function's own ceilings and, as in the figures of the paper, of the machine's for this intensity."""
    found = [(c["value"], c["id"]) for c in f["ceilings"] if c["value"] is not None and not c["refuted"]]
    for c in profile["machine"]["ceilings"]:
        if c["value"] is None or c["threads"] != f["team"]:
            continue
        level, _, kind = c["id"].partition(".")
        if c["id"] in ("dp.tlp", "dp.ilp", "dp.simd", "dp.fma"):
            found.append((c["value"], kind))
        elif level in ("dram", "l3") and kind in ("read", "copy", "triad", "noprefetch", "random", "copy.nt") and f["oi"][level]:
            found.append((c["value"] * f["oi"][level], c["id"]))
    return found


rows = []
for line in steps_file.read_text().splitlines():
    program, step, repeats, what = line.split(maxsplit=3)
    try:
        profile = json.load(open(profiles / f"{program}.{step}" / "profile.json"))
    except OSError:
        profile = {"functions": []}
    hot = [f for f in profile["functions"] if HOT.match(f["name"]) and f["cpu_s"]]
    hottest = max(hot, key=lambda f: f["time_s"] or 0, default=None)
    around = ceilings(profile, hottest) if hottest else []
    rows.append((program, step, int(repeats), what, hottest, hot, around))

print(
    f"{'step':12} {'what was changed':38} {'function':30} {'ms/rep':>7} {'flop/s':>6} {'op/B':>6} {'bound':>6} {'at':>5} "
    f"{'ceiling below':20} {'ceiling above':20} {'class':20} {'model':>5} {'first advice':24} {'saves':>5}   next: {'said':>4} {'real':>5}"
)
known = below_bound = sandwiched = none_below = changes = said = near = more = first_right = 0
for i, (program, step, repeats, what, f, hot, around) in enumerate(rows):
    seconds = least.get((program, step))
    per_repeat = seconds / repeats if seconds else None
    gained = None
    if i + 1 < len(rows) and rows[i + 1][0] == program and (program, rows[i + 1][1]) in least and per_repeat:
        gained = 1 - least[program, rows[i + 1][1]] / rows[i + 1][2] / per_repeat
    head = f"{program + '.' + step:12} {what:38}"
    tail = "-" if gained is None else f"{100 * gained:.0f}%"
    if f is None or f["flop_rate"] is None:
        print(f"{head} no rate of a hot function; next {tail}")
        continue
    rate, at = f["flop_rate"], f["roof_fraction"]
    below = max((c for c in around if c[0] <= rate), default=None)
    above = min((c for c in around if c[0] >= rate), default=None)
    known += 1
    below_bound += at is not None and at <= 1.05
    sandwiched += above is not None and below is not None
    none_below += above is not None and below is None
    whole = sum((g["time_s"] or 0) + (g.get("kernel_s") or 0) for g in hot)

    def share(saving):
        """Of the time of all hot functions of this step."""
        return min(saving["seconds_max"] / whole, 1) if whole else 0

    first = f["savings"][0] if f["savings"] else None
    named = None
    if gained is not None:
        names = removes[f"{program}.{rows[i + 1][1]}"]
        # Of each hot function the largest saving that the next change is about.
        found = [max((share(s) for s in g["savings"] if names & set(s["remove"])), default=None) for g in hot]
        named = sum(x for x in found if x is not None) if any(x is not None for x in found) else None
        changes += 1
        said += named is not None
        near += abs((named or 0) - gained) <= 0.15
        more += gained > (named or 0) + 0.05
        first_right += bool(first) and bool(names & set(first["remove"]))
    account = f.get("account")
    model = account["model_s"] / f["cpu_s"] if account else None
    print(
        f"{head} {f['name'].replace('._omp_fn', '')[:30]:30} {'-' if per_repeat is None else f'{1e3 * per_repeat:.3g}':>7} {number(rate):>6} "
        f"{number(f['oi']['dram']):>6} {number(rate / at if at else None):>6} {'-' if at is None else f'{at:.2f}':>5} "
        f"{ceiling(below):20} {ceiling(above):20} {f.get('class') or '-':20} {'-' if model is None else f'{model:.2f}':>5} "
        f"{'+'.join(first['remove']) if first else '-':24} {f'{100 * share(first):.0f}%' if first else '-':>5}         "
        f"{'-' if named is None else f'{100 * named:.0f}%':>4} {tail:>5}"
    )

for (program, step), (amount, unit) in sorted(work.items()):
    if (program, step) in least:
        print(f"{program}.{step}: {number(amount / least[program, step])} {unit}/s")
print(
    f"\n{known} steps: {below_bound} at most 5 % above the bound; {sandwiched} between two ceilings, {none_below} below all of them\n"
    f"{changes} changes: {said} named by a saving, {near} gave what it says within 15 points (0 where none names it), {more} gave more, "
    f"{first_right} are the first advice of the step before"
)
