"""Prints predicted savings beside real ones. savings.py FIXTURES TIMES PROFILES (see savings.sh)."""
import json
import pathlib
import re
import sys

fixtures, times, profiles = (pathlib.Path(p) for p in sys.argv[1:])
what = {m[1]: m[2] for m in re.finditer(r"CASE == (\d+) // (.*)", (fixtures / "changes.c").read_text())}
removes = {}
for line in (fixtures / "changes.txt").read_text().splitlines():
    if line and not line.startswith("#"):
        case, *names = line.split()
        removes[case] = names
least = {}
for line in times.read_text().splitlines():
    case, side, *seconds = line.split()
    if seconds:
        key = case, side
        least[key] = min(least.get(key, float("inf")), float(seconds[0]))

print(f"{'case':>4} {'before':>7} {'real':>6} {'predicted':>9} {'first':22} {'class':20} {'model':>5}  change")
near = above = over = first_right = known = 0
for case in removes:
    try:
        functions = json.load(open(profiles / case / "profile.json"))["functions"]
    except OSError:
        continue
    hot = next((f for f in functions if f["name"] == "hot"), None)
    if hot is None or (case, "before") not in least:
        continue
    known += 1
    before = least[case, "before"]
    real = 1 - least[case, "after"] / before
    # Seconds of the function: at work and in the kernel on its behalf.
    time_s = (hot["time_s"] or 0) + (hot.get("kernel_s") or 0)
    # The first name that a saving has is the change itself.
    told = [s["seconds_max"] for name in removes[case] for s in hot["savings"] if name in s["remove"]]
    predicted = told[0] / time_s if told and time_s else 0
    first = "+".join(hot["savings"][0]["remove"]) if hot["savings"] else "-"
    near += abs(predicted - real) <= 0.15
    above += real > predicted + 0.05
    over += any(s["seconds_max"] > time_s * 1.001 for s in hot["savings"])
    first_right += bool(hot["savings"]) and bool(set(removes[case]) & set(hot["savings"][0]["remove"]))
    account = hot.get("account")
    model = account["model_s"] / hot["cpu_s"] if account and hot["cpu_s"] else None
    print(
        f"{case:>4} {before:7.3f} {100 * real:5.0f}% {100 * predicted:8.0f}% {first:22} {hot.get('class') or '-':20} "
        f"{'-' if model is None else f'{model:5.2f}':>5}  {what.get(case, '')}"
    )
print(
    f"\n{known} changes: {near} predicted within 15 points, {above} gave more than predicted, "
    f"{over} functions with a saving above their time, {first_right} whose first advice is this change"
)
