"""Names of the hot functions of a program by rprof, perf and gdb.

names.py functions PROGRAM PERF.DATA PROFILE.JSON TOOLS: a line of JSON for each function with at least 1 % of the samples in
PERF.DATA. TOOLS has examples/tools/names.rs; PROFILE.JSON is rprof's own of the same command, which has to know that name, too.
names.py table [--all] <ROWS: the table of such lines; 1 if a name of rprof's is worse.

Verdicts: `same`; `alias`: both names stand at that address; `better`: rprof has a name where others have none, or others have that
of a function that ends before; `none`: nobody has a name; `worse`: rprof has none, or another one.
"""
import bisect
import collections
import json
import re
import struct
import subprocess
import sys

LEAST_SHARE = 0.01
UNKNOWN = "[unknown]"
# A function with as many samples in one run has some in the next.
SURELY_SEEN = 40


def run(*command, text=None):
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace").stdout


def segments(path):
    """(file offset, bytes in the file, virtual address) of each loaded segment."""
    found = []
    with open(path, "rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            return found
        place, size, count = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
        for i in range(count):
            file.seek(place + i * size)
            kind, _, offset, address, _, in_file = struct.unpack("<IIQQQQ", file.read(40))
            if kind == 1:
                found.append((offset, in_file, address))
    return found


def virtual(path, offset, known={}):
    """The virtual address of what lies at an offset of a file."""
    if path not in known:
        try:
            known[path] = segments(path)
        except OSError:
            known[path] = []
    return next((a + offset - o for o, n, a in known[path] if o <= offset < o + n), None)


def samples(data):
    """(path, virtual address, perf's name) of each sample in a file."""
    maps = collections.defaultdict(dict)
    mapped = re.compile(r"PERF_RECORD_MMAP2? (-?\d+)/\d+: \[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0) [^]]*\]: (\S+) (.*)$")
    forked = re.compile(r"PERF_RECORD_FORK\((\d+):\d+\):\((\d+):\d+\)")
    sampled = re.compile(r"^\s*(\d+)\s+([0-9a-f]+) (.*?)(?:\+0x[0-9a-f]+)? \((.*)\)$")
    script = run("perf", "script", "-i", data, "--show-mmap-events", "--show-task-events", "-F", "pid,ip,sym,symoff,dso")
    for line in script.splitlines():
        if match := mapped.search(line):
            pid, start, size, offset, rights, path = match.groups()
            start, size = int(start, 16), int(size, 16)
            own = maps[int(pid)]
            for other in [s for s, (e, *_) in own.items() if s < start + size and start < e]:
                del own[other]
            if "x" in rights:
                own[start] = (start + size, int(offset, 16), path)
        elif match := forked.search(line):
            child, parent = map(int, match.groups())
            if child != parent and child not in maps:
                maps[child] = dict(maps[parent])
        elif match := sampled.match(line):
            pid, at, name, path = match.groups()
            at = int(at, 16)
            place = next(((at - s + o, p) for s, (e, o, p) in maps[int(pid)].items() if s <= at < e), None)
            if place and place[1].startswith("/"):
                path, at = place[1], virtual(place[1], place[0])
            yield path, at, name


def symbols(path, known={}):
    """Sorted (address, bytes, names) of the functions of a file by its own tables and those of its debug file."""
    if path in known:
        return known[path]
    build = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path))
    files = [path] + ([f"/usr/lib/debug/.build-id/{build[1][:2]}/{build[1][2:]}.debug"] if build else [])
    found = collections.defaultdict(lambda: [0, set()])
    for file in files:
        for line in run("readelf", "-sW", file).splitlines():
            fields = line.split()
            if len(fields) >= 8 and fields[3] in ("FUNC", "IFUNC", "NOTYPE") and fields[6] != "UND":
                entry = found[int(fields[1], 16)]
                entry[0] = max(entry[0], int(fields[2], 0))
                entry[1].add(fields[7].split("@")[0])
    known[path] = sorted((at, size, names) for at, (size, names) in found.items())
    return known[path]


def names_at(path, at):
    """All names of symbols that begin at an address."""
    table = symbols(path)
    here = bisect.bisect_left(table, (at,))
    return table[here][2] if here < len(table) and table[here][0] == at else set()


def holds(path, name, offset, at):
    """Whether a symbol called `name`, `offset` bytes before `at`, is that long; None if it has no size."""
    table = symbols(path)
    here = bisect.bisect_left(table, (at - offset,))
    if here == len(table) or table[here][0] != at - offset or not table[here][1]:
        return None
    return offset < table[here][1]


def of_gdb(places):
    """gdb's (name, offset) for each (path, address)."""
    answers = {}
    for path in {path for path, _ in places}:
        addresses = [at for p, at in places if p == path]
        asked = [argument for at in addresses for argument in ("-ex", f"echo {at:#x}:", "-ex", f"info symbol {at:#x}")]
        options = ["-ex", "set debuginfod enabled off", "-ex", "set print asm-demangle on"]
        for line in run("gdb", "-batch", "-nx", *options, *asked, path).splitlines():
            if match := re.match(r"(0x[0-9a-f]+):(.*?)(?: \+ (\d+))? in section ", line):
                answers[path, int(match[1], 16)] = (match[2], int(match[3] or 0))
    return answers


def functions(program, data, profile, tools):
    rows = list(samples(data))
    inside = [(path, at, name) for path, at, name in rows if at is not None and path.startswith("/")]
    asked = "".join(f"{path} {at:#x}\n" for path, at, _ in inside)
    answers = run(tools, "names", text=asked).splitlines()
    assert len(answers) == len(inside), f"{len(answers)} answers to {len(inside)} addresses"
    groups = collections.defaultdict(list)
    for (path, at, name), answer in zip(inside, answers):
        start, ours = answer.split(" ", 1)
        groups[path, int(start, 16), ours].append((at, name))
    with open(profile) as file:
        in_profile = {f["name"] for f in json.load(file)["functions"]}
    chosen = {}
    for (path, start, ours), members in groups.items():
        if len(members) >= LEAST_SHARE * len(rows):
            (at, perf), _ = collections.Counter(members).most_common(1)[0]
            chosen[path, at] = (start, ours, perf, len(members) / len(rows))
    gdb = of_gdb(list(chosen))
    for (path, at), (start, ours, perf, share) in chosen.items():
        name, offset = gdb.get((path, at), (None, 0))
        module = path.rsplit("/", 1)[1]
        known = (f"{module}+{start:#x}" if ours == "-" else ours) in in_profile
        row = {"program": program, "module": module, "path": path, "at": at, "start": start, "share": share, "samples": len(rows), "known": known}
        row |= {"rprof": None if ours == "-" else ours, "perf": None if perf == UNKNOWN else perf, "gdb": name, "gdb_offset": offset}
        row["gdb_holds"] = name and holds(path, name, offset, at)
        row["aliases"] = sorted(names_at(path, start))
        print(json.dumps(row))


def base(name):
    """A name without what tools add to it or leave out: parameters, parts, hashes, versions."""
    name = re.sub(r"@+(plt|[A-Z]+_[0-9.]+)$", "", name)
    name = re.sub(r"(\.(cold|part|isra|constprop|lto_priv)(\.\d+)*)+$", "", name)
    name = re.sub(r"\s*\[clone [^]]*\]", "", name)
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    while (short := re.sub(r"(\([^()]*\)|<[^<>]*>|\[abi:[^]]*\])", "", name)) != name:
        name = short
    name = re.sub(r"^(non-virtual thunk to |virtual thunk to )", "", name.replace(" const", "").strip())
    return re.sub(r"\s+", "", name)


def verdict(row):
    ours, others = row["rprof"], []
    if row["perf"]:
        others.append(row["perf"])
    if row["gdb"] and row["gdb_holds"] is not False:
        others.append(row["gdb"])
    false_name = row["gdb"] and row["gdb_holds"] is False
    if ours is None:
        return "worse" if others else "better" if false_name else "none"
    if not others:
        return "better"
    if any(base(other) == base(ours) for other in others):
        return "same"
    names = {base(alias) for alias in row["aliases"]}
    if any(base(other) in names for other in others):
        return "alias"
    return "worse"


def table(show_all):
    rows = [json.loads(line) for line in sys.stdin]
    counts = collections.Counter()
    print(f"{'program':9} {'module+offset':34} {'share':>6}  {'verdict':7} {'rprof':40} {'perf':40} gdb")
    for row in rows:
        row["verdict"] = verdict(row)
        counts[row["verdict"]] += 1
        if not show_all and row["verdict"] == "same":
            continue
        gdb = row["gdb"] and f"{row['gdb']}+{row['gdb_offset']:#x}" + (", which ends before" if row["gdb_holds"] is False else "")
        cells = [str(cell or "-") for cell in (row["rprof"], row["perf"], gdb)]
        place = f"{row['module']}+{row['at']:#x}"
        print(f"{row['program']:9} {place:34} {100 * row['share']:5.1f}%  {row['verdict']:7} {cells[0][:40]:40} {cells[1][:40]:40} {cells[2][:70]}")
    programs = len({row["program"] for row in rows})
    print(f"{programs} programs, {len(rows)} functions: " + ", ".join(f"{counts[v]} {v}" for v in ("same", "alias", "better", "none", "worse")))
    for row in rows:
        if not row["known"] and row["share"] * row["samples"] >= SURELY_SEEN:
            print(f"{row['program']}: {100 * row['share']:.1f} % of perf's samples are in {row['rprof'] or hex(row['start'])}, which rprof's profile does not have")
    return counts["worse"] > 0


if sys.argv[1] == "functions":
    functions(*sys.argv[2:])
else:
    sys.exit(table("--all" in sys.argv))
