"""The table of tests/bench tried: tried.py RPROF FOLDER PARTS KILLS ONLY"""
import json, os, random, re, resource, signal, subprocess, sys, time

rprof, folder, parts, kills, only = sys.argv[1], sys.argv[2], sys.argv[3].split(), int(sys.argv[4]), re.compile(sys.argv[5])
cases = os.environ.get("CASES", "../shared/cases/diagnosis")
loops = os.path.join(folder, "loops")


def build(out, source, *flags):
    subprocess.run(["gcc", "-O2", "-g", "-w", "-o", out, source, *flags, "-lm"], check=True)
    return out


def native_s(command, times=3):
    """The least user CPU time of some native runs."""
    best = float("inf")
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run(command, stdout=subprocess.DEVNULL)
        best = min(best, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    return best


def tried(command, changes=None, budget="50%"):
    """The trials of a run, and its output and status."""
    out = os.path.join(folder, "rprof.out")
    subprocess.run(["rm", "-rf", out])
    environment = dict(os.environ)
    if changes is not None:
        environment["RPROF_TRY"] = changes
    ran = subprocess.run([rprof, "--try", "--quiet", "--budget", budget, "-o", out, "--", *command], env=environment,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    trials = json.load(open(os.path.join(out, "profile.json"))).get("trials") or {"made": [], "reasons": ["no trials"]}
    return trials, ran.stdout, ran.returncode


def ratio_words(ratio):
    return f"{ratio['value']:.3f} ({ratio['least']:.3f}–{ratio['most']:.3f})"


def first(trials, change=None):
    made = [t for t in trials["made"] if change is None or t["change"] == change]
    return made[0] if made else None


def why(trials, trial):
    return (trial or {}).get("reason") or "; ".join(trials.get("reasons", [])) or "nothing was hot"


def null():
    print("\nTwo copies of one moment, no change: ratio of their times (95 % interval)")
    rows = [("compute", 1, 4000), ("flat", 1, 4000), ("divide", 1, 8000), ("multiply", 1, 15000), ("convert", 1, 12000)]
    rows += [("reader", mb, int(100000 / mb)) for mb in (1, 10, 100)] + [("rewriter", mb, int(60000 / mb)) for mb in (1, 10, 100)]
    rows += [("random", mb, 3000) for mb in (1, 10, 100, 1000)]
    good = tried_ones = 0
    for kind, mb, rounds in rows:
        name = f"{kind} {mb} MB"
        if not only.search(name):
            continue
        trials, _, _ = tried([loops, kind, str(mb), str(rounds)], "")
        trial = first(trials)
        if not trial or not trial["unchanged"]:
            print(f"  {name:16} not tried: {why(trials, trial)}")
            continue
        tried_ones += 1
        r = trial["unchanged"]
        half = (r["most"] - r["least"]) / 2 / r["value"]
        is_good = r["least"] <= 1 <= r["most"] and half <= 0.05
        good += is_good
        print(f"  {name:16} {ratio_words(r)}  ± {100 * half:.1f} %  {len(trial['pairs'])} pairs {'' if is_good else '  <--'}")
    print(f"  {tried_ones} of {len(rows)} tried; the interval holds 1 and is at most ± 5 % in {good}")


def changes():
    print("\nA change in the source beside its trial: part of the time that it saves")
    pairs = []
    case = lambda name: os.path.join(cases, name)
    if os.path.isdir(cases):
        for name, change in (("denorm", "flush-denormals"), ("hugepages", "huge-pages")):
            before = build(os.path.join(folder, name + ".before"), case(name) + "/before.c")
            after = build(os.path.join(folder, name + ".after"), case(name) + "/after.c")
            pairs.append((name, [before], [after], change))
    shared, own = (build(os.path.join(folder, f"threads{n}"), "fixtures/trials/threads.c", "-pthread", f"-DPAD={n}") for n in (1, 16))
    pairs.append(("shared line", [shared, "6000"], [own, "6000"], "other-threads-stopped"))
    pairs.append(("divide", [loops, "divide", "1", "8000"], [loops, "multiply", "1", "8000"], "no-divisions"))
    pairs.append(("compute, FTZ", [loops, "compute", "1", "3000"], [loops, "compute", "1", "3000"], "flush-denormals"))
    pairs.append(("convert", [loops, "convert", "1", "12000"], [loops, "clear", "1", "12000"], "zeroed-destinations"))
    for name, before, after, change in pairs:
        if not only.search(name):
            continue
        trials, _, _ = tried(before, change)
        trial = first(trials, change)
        real = "–"
        if after:
            a, b = native_s(before), native_s(after)
            real = f"{100 * (1 - b / a):5.1f} %"
        if not trial or not trial["ratio"]:
            print(f"  {name:20} {change:22} source {real:8} not tried: {why(trials, trial)}")
            continue
        r = trial["ratio"]
        print(f"  {name:20} {change:22} source {real:8} trial {100 * (1 - r['value']):5.1f} % ({100 * (1 - r['most']):.1f} to {100 * (1 - r['least']):.1f})")


def living(path):
    """Processes that execute the file."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") == path:
                found.append(int(pid))
        except OSError:
            pass
    return found


def harm():
    print("\nPrograms with copies: the same output and status, no process left")
    rows = {"compute": [loops, "compute", "1", "2000"], "reader 100 MB": [loops, "reader", "100", "500"],
            "rewriter 10 MB": [loops, "rewriter", "10", "4000"], "random 10 MB": [loops, "random", "10", "1500"]}
    rows["two threads"] = [build(os.path.join(folder, "harm.threads"), "fixtures/trials/threads.c", "-pthread"), "6000"]
    script = "import hashlib\nx=b'a'\nfor i in range(3000000): x=hashlib.md5(x).digest()\nprint(x.hex())"
    rows["python"] = ["python3", "-c", script]
    for name, command in rows.items():
        if not only.search(name):
            continue
        begin = time.time()
        plain = subprocess.run(command, stdout=subprocess.PIPE)
        plain_s = time.time() - begin
        begin = time.time()
        trials, output, status = tried(command)
        with_s = time.time() - begin
        left = len(living(os.path.realpath(command[0]))) if command[0].startswith("/") else 0
        same = output == plain.stdout and status == plain.returncode
        print(f"  {name:16} {trials.get('copies', 0):4} copies, output and status {'the same' if same else 'DIFFER'}, {left} left, "
              f"stopped {trials.get('stopped_s', 0):.3f} s; {plain_s:.1f} s alone, {with_s:.1f} s with rprof {why(trials, None) if not trials.get('copies') else ''}")


def kill():
    print("\nrprof killed at random (SIGKILL): the program runs on, and no copy is left")
    fine = 0
    for n in range(kills):
        result = os.path.join(folder, "out")
        with open(result, "wb") as out:
            ran = subprocess.Popen([rprof, "--try", "--quiet", "-o", os.path.join(folder, "killed"), "--", loops, "compute", "1", "2000"],
                                   stdout=out, stderr=subprocess.DEVNULL)
            # After the first look at the program, while copies are made.
            time.sleep(2 + random.random() * 2)
            ran.send_signal(signal.SIGKILL)
            ran.wait()
        left = living(os.path.realpath(loops))
        deadline = time.time() + 60
        while living(os.path.realpath(loops)) and time.time() < deadline:
            time.sleep(0.05)
        expected = subprocess.run([loops, "compute", "1", "2000"], stdout=subprocess.PIPE).stdout
        ok = open(result, "rb").read() == expected
        fine += ok
        if not ok:
            print(f"  kill {n}: {len(left)} processes after it; wrong or no output")
    print(f"  {fine} of {kills}: the program ended with its output, and nothing was left")


build(loops, "fixtures/trials/loops.c")
for part, work in (("null", null), ("changes", changes), ("harm", harm), ("kills", kill)):
    if part in parts:
        work()
