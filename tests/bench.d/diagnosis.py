"""diagnosis.py RPROF FOLDER RUNS ONLY SOURCES: prints a row for each program of the folder SOURCES."""
import csv
import json
import os
import re
import subprocess
import sys
import time

RPROF, FOLDER, RUNS, ONLY, SOURCES = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
# Points of the elapsed time by which a real gain may lie outside of the interval, and the widest interval.
MARGIN, WIDEST = 0.15, 0.30


def source_of(case):
    """The path of the program's source; C if its name says nothing else."""
    return f"{SOURCES}/{case['case']}" + ("" if "." in case["case"] else ".c")


def build(case, after):
    """The command that runs the program."""
    source = source_of(case)
    program = f"{FOLDER}/{case['case']}.{'after' if after else 'before'}"
    flags = case["flags"].split()
    defined = ["-DAFTER"] if after else []
    compilers = {
        "c": ["gcc", "-O2", "-g", *flags, *defined, source, "-o", program, "-lm"],
        "cc": ["g++", "-std=c++17", "-O2", "-g", *flags, *defined, source, "-o", program],
        "f90": ["gfortran", "-cpp", "-O2", "-g", "-J", FOLDER, *flags, *defined, source, "-o", program],
        "rs": ["rustc", "-O", "-g", *flags, *(["--cfg", "after"] if after else []), source, "-o", program],
    }
    language = source.rsplit(".", 1)[1]
    if language == "py":
        return ["/usr/bin/python3", os.path.realpath(source), *(["AFTER"] if after else [])]
    subprocess.run(compilers[language], check=True, stderr=subprocess.DEVNULL)
    return [program]


def seconds(program):
    """The least elapsed time of three runs."""
    def once():
        start = time.perf_counter()
        subprocess.run(program, cwd=FOLDER, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start
    return min(once() for _ in range(3))


def verdict(program, name, run):
    out = f"{FOLDER}/{name}.{run}"
    command = [RPROF, "--quiet", "-o", out, "--", *program]
    subprocess.run(command, cwd=FOLDER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    answer = subprocess.run([RPROF, "query", out, "verdict", "--json"], capture_output=True, check=True)
    return json.loads(answer.stdout)


def own_name(function):
    """The name as the source writes it: without scopes and parameters."""
    return re.split(r"[(<\[]", function)[0].split("::")[-1]


def judge(case, found, gain):
    """Whether cause, advice, place and saving are right."""
    advice = found["advice"] or ""
    says = lambda words: bool(re.search(words, advice, re.IGNORECASE))
    is_advice = says(case["advice"]) and not (case["never"] and says(case["never"])) and len(advice) <= 200
    function = (found["where"] or {}).get("function") or "?"
    own = own_name(function)
    # A script's main program has no name of its own, nor has a main program of Fortran after compilation.
    is_main = own in ("main", "<module>", "MAIN__")
    is_place = is_main or bool(own) and bool(re.search(rf"\b{re.escape(own)}\b *\(", open(source_of(case)).read()))
    saves = found["saves_s"]
    is_saving = False
    if saves:
        least, most = (end / found["of_s"] for end in saves)
        is_saving = most - least <= WIDEST and least - MARGIN <= gain <= most + MARGIN
    return bool(re.fullmatch(case["cause"], found["cause"])), is_advice, is_place, is_saving


def main():
    sums = [0, 0, 0, 0]
    cases = [c for c in csv.DictReader(open(f"{SOURCES}/answers.tsv"), delimiter="\t") if re.search(ONLY, c["case"])]
    print(f"{'program':10} {'cause':4} {'advice':6} {'place':5} {'saving':6}   real gain, stated; cause and advice")
    for case in cases:
        before, after = build(case, False), build(case, True)
        gain = 1 - seconds(after) / seconds(before)
        found = [verdict(before, case["case"], run) for run in range(RUNS)]
        right = [all(column) for column in zip(*(judge(case, one, gain) for one in found))]
        sums = [s + r for s, r in zip(sums, right)]
        marks = ["ok" if r else "NO" for r in right]
        saves = found[0]["saves_s"]
        stated = "-" if not saves else " to ".join(f"{end / found[0]['of_s']:.0%}" for end in saves)
        words = f"{found[0]['cause']}: {found[0]['advice']}"
        print(f"{case['case']:10} {marks[0]:5} {marks[1]:6} {marks[2]:5} {marks[3]:6}   {gain:.0%}, {stated}; {words[:110]}", flush=True)
    print(f"{len(cases)} programs: cause {sums[0]}, advice {sums[1]}, place {sums[2]}, saving {sums[3]}")


main()
