"""Prints what the profiles of a folder explain: a line for each function with at least 3 % of its program's time, and the sums.

real.py FOLDER: each sub-folder holds a profile.json; a name that ends in `*` was never used to adjust the model.
"""
import json
import pathlib
import statistics
import sys

LEAST_SHARE = 0.03
WITHIN = 0.25

rows = []
for path in sorted(pathlib.Path(sys.argv[1]).glob("*/profile.json")):
    program = path.parent.name
    profile = json.load(open(path))
    functions = profile["functions"]
    total = sum((f["cpu_s"] or 0) + (f.get("kernel_s") or 0) for f in functions)
    for f in functions:
        cpu_s = f["cpu_s"] or 0
        if total <= 0 or cpu_s < LEAST_SHARE * total:
            continue
        account = f.get("account")
        ratio = account["model_s"] / cpu_s if account else None
        rows.append((program, f, cpu_s / total, ratio, account))

print(f"{'program':14} {'function':34} {'share':>6} {'class':22} {'conf':6} {'at':>5} {'model':>6} {'±':>5}  largest causes")
for program, f, share, ratio, account in rows:
    parts = sorted((account or {"parts": {}})["parts"].items(), key=lambda p: -p[1])[:4]
    causes = ", ".join(f"{name} {100 * s / account['model_s']:.0f} %" for name, s in parts)
    at = f.get("roof_fraction")
    confidence = (f.get("confidence") or {}).get("level", "-")
    error = account and account.get("error")
    print(
        f"{program:14} {f['name'][:34]:34} {100 * share:5.1f}% {f.get('class') or '-':22} {confidence:6} "
        f"{'-' if at is None else f'{at:5.2f}':>5} {'-' if ratio is None else f'{ratio:6.2f}':>6} "
        f"{'-' if error is None else f'{error:5.2f}':>5}  {causes}"
    )


def summary(name, chosen):
    weight = sum(share for _, _, share, _, _ in chosen)
    if not weight:
        return
    classed = sum(s for _, f, s, _, _ in chosen if f.get("class") not in (None, "unknown"))
    within = sum(s for _, _, s, r, _ in chosen if r is not None and 1 - WITHIN <= r <= 1 + WITHIN)
    errors = [abs(r - 1) for _, _, _, r, _ in chosen if r is not None]
    median = statistics.median(errors) if errors else float("nan")
    programs = len({p for p, *_ in chosen})
    print(
        f"{name}: {programs} programs, {len(chosen)} functions: {100 * classed / weight:.0f} % of their time classed, "
        f"{100 * within / weight:.0f} % modelled within 25 %, median error {100 * median:.0f} %, "
        f"{len(chosen) - len(errors)} without an account"
    )


print()
summary("all", rows)
summary("used to adjust", [r for r in rows if not r[0].endswith("*")])
summary("never used (*)", [r for r in rows if r[0].endswith("*")])
