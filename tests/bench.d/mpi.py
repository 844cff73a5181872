"""Prints native seconds of the seven MPI algorithms, and the errors of models of their speed: mpi.py LINES MACHINE_JSON CPUS (see mpi.sh)

The error is the mean over sizes of |actual − predicted| / actual, of operations a second (MAPE, eq. 2.6 of Cardwell 2019), in %. Sizes that take less than a
millisecond are left out. Models of one rank, with the work that fixtures/mpi/seven states for it:
  original  min(F, M·OI)          eq. 2.1     OI = operations / bytes of memory
  eq. 2.3   min(F, N·CAI)                     CAI = operations / bytes of network
  eq. 2.5   min(F, M·OI, N·CAI)
  rprof     see `own_model`
  sampled   the same with the work as rprof sampled it: what its report of communication adds up
"""
import collections
import dataclasses
import functools
import json
import os
import statistics
import sys

SHORTEST_S = 1e-3
STREAM = "copy", "triad", "update", "write"  # as STREAM: the highest of what reads and writes


@dataclasses.dataclass
class Ceilings:
    """Of one rank: operations, bytes of memory and bytes of network a second; None where it is not known. And the CPUs that all ranks share."""

    flops: float | None
    memory: float | None
    network: float | None
    cpus: int


@dataclasses.dataclass
class Point:
    """One algorithm at one size, with the work of one rank."""

    algorithm: str
    size: int
    ranks: int
    flops: float
    memory: float
    network: float
    seconds: float
    profile: str | None = None

    @property
    def actual(self):
        return self.flops / self.seconds


def original(p, c):
    return min(c.flops, c.memory * p.flops / p.memory)


def thesis_network(p, c):
    return min(c.flops, c.network * p.flops / p.network) if p.network else c.flops


def thesis(p, c):
    return min(original(p, c), thesis_network(p, c))


RUNS = 6  # of `seven`: one to warm up, five that are measured


@functools.cache
def profile_in(folder):
    with open(folder + "/profile.json") as file:
        return json.load(file)


def own_model(p, c, seconds_of):
    """rprof's prediction in operations a second; None: there is no profile, or a part of it is not known.

    p.flops / T, T = work + network of a rank in one run, from the merged profile of a run under rprof:
      work     Σ over the algorithm's functions of `seconds_of`; ranks without a CPU of their own take turns
      network  Σ over its calls of the curves that the ranks measured
    """
    if not p.profile:
        return None
    profile = profile_in(p.profile)
    own = p.algorithm + "_"
    work = sum(seconds_of(f) for f in profile["functions"] if f["name"].startswith(own))
    needs = [f["network"] for f in (profile.get("mpi") or {}).get("functions", []) if f["calls_mpi"] and f["name"].startswith(own)]
    if not needs or None in needs:
        return None
    network = sum(n["latency_s"] + n["bandwidth_s"] for n in needs)
    seconds = (work / min(p.ranks, c.cpus) + network / p.ranks) / RUNS
    return p.flops / seconds if seconds else None


def explained(p, c):
    return own_model(p, c, seconds_of_work)


def sampled(p, c):
    return own_model(p, c, lambda function: function["cpu_s"] or 0.0)


# Bytes that are less certain hold nothing down (docs/single.md): a bound without them is too low.
LEAST_CERTAIN = 0.9


def seconds_of_work(function):
    """Of all ranks together, as their account of time or, without one, their lowest ceiling explains them; what neither explains is taken as it was sampled."""
    took = function["cpu_s"] or 0.0
    account = function.get("account") or {}
    if account.get("model_s") is not None:
        return account["model_s"]
    fraction = function["roof_fraction"] if function["class"] != "unknown" else None
    is_certain = (function["source"].get("bytes.dram") or {}).get("error", 0.0) < LEAST_CERTAIN
    return took * min(fraction, 1.0) if fraction is not None and is_certain else took


MODELS = {"original": original, "eq. 2.3": thesis_network, "eq. 2.5": thesis, "rprof": explained, "sampled": sampled}


def of_machine(path, cpus, ranks):
    """(F, M) of one of `ranks` ranks: the host's with as many threads as ranks, one a CPU at most, divided by ranks."""
    given = [float(os.environ[v]) if os.environ.get(v) else None for v in ("BENCH_FLOPS", "BENCH_MEMORY")]
    try:
        ceilings = json.load(open(path))["ceilings"]
    except OSError:
        return given
    threads = min(cpus, ranks)

    def highest(names):
        found = [x["value"] for x in ceilings if x["id"] in names and x["threads"] == threads and x["value"]]
        return max(found) / ranks if found else None

    measured = highest({"dp.fma"}), highest({f"dram.{kind}" for kind in STREAM})
    return [g or m for g, m in zip(given, measured)]


def scaled(value, units):
    for factor, prefix in (1e9, "G"), (1e6, "M"), (1e3, "k"):
        if value is not None and value >= factor:
            return f"{value / factor:.3g} {prefix}{units}"
    return "unknown" if value is None else f"{value:.3g} {units}"


def main():
    path, machine, cpus = sys.argv[1], sys.argv[2], int(sys.argv[3])
    points, network, latency, profiles = collections.defaultdict(list), {}, {}, {}
    for line in open(path):
        library, rate, what, *figures = line.split()
        if what == "pingpong":
            (latency if figures[0] == "0" else network)[library, rate] = float(figures[1] if figures[0] == "0" else figures[2])
        elif what == "profile":
            profiles[library, rate, figures[0], int(figures[1])] = figures[2]
        else:
            size, ranks, *work = figures
            points[library, rate].append(Point(what, int(size), int(ranks), *map(float, work)))
    for (library, rate), of_rate in points.items():
        for p in of_rate:
            p.profile = profiles.get((library, rate, p.algorithm, p.size))
    if not points:
        print("no run gave a figure")
    for library in dict.fromkeys(key[0] for key in points):
        rates = [key[1] for key in points if key[0] == library]
        seconds_table(library, rates, points)
        for rate in rates:
            of_rate = points[library, rate]
            flops, memory = of_machine(machine, cpus, of_rate[0].ranks)
            ceilings = Ceilings(flops, memory, float(os.environ.get("BENCH_NETWORK") or network.get((library, rate), 0)) or None, cpus)
            error_table(library, rate, of_rate, ceilings, latency.get((library, rate)))


def seconds_table(library, rates, points):
    rows = {}
    for rate in rates:
        for p in points[library, rate]:
            rows.setdefault((p.algorithm, p.size, p.ranks), {})[rate] = p
    print(f"\n{library}: milliseconds of a run, median of 5; bytes of network of a rank by the model\n{'':24}{'ranks':>6}{'network':>12}", end="")
    print("".join(f"{rate:>12}" for rate in rates))
    for (algorithm, size, ranks), found in rows.items():
        cells = "".join(f"{1e3 * found[rate].seconds:12.3f}" if rate in found else f"{'-':>12}" for rate in rates)
        print(f"{algorithm:10}{size:14}{ranks:6}{scaled(next(iter(found.values())).network, 'B'):>12}{cells}")


def error_table(library, rate, points, c, latency):
    print(f"\n{library}, {rate}: mean absolute percentage error over sizes; change = 100·(original − model)/original")
    micro = "unknown" if latency is None else f"{1e6 * latency:.1f} µs"
    print(f"a rank has F {scaled(c.flops, 'op/s')}, M {scaled(c.memory, 'B/s')}, N {scaled(c.network, 'B/s')}; 0 bytes take {micro}")
    if None in (c.flops, c.memory, c.network):
        print("no errors without ceilings: build rprof (cargo build --release), or give BENCH_FLOPS, BENCH_MEMORY and BENCH_NETWORK")
        return
    print(f"{'':10}{'sizes':>6}" + "".join(f"{name:>12}{'change':>9}" for name in MODELS))
    for algorithm in dict.fromkeys(p.algorithm for p in points):
        used = [p for p in points if p.algorithm == algorithm and p.seconds >= SHORTEST_S]
        if not used:
            print(f"{algorithm:10}{0:6}  all sizes take less than {1e3 * SHORTEST_S:g} ms")
            continue
        cells, first = "", None
        for model in MODELS.values():
            predicted = [model(p, c) for p in used]
            if None in predicted:
                cells += f"{'-':>12}{'-':>9}"
                continue
            error = 100 * statistics.mean(abs(p.actual - x) / p.actual for p, x in zip(used, predicted))
            first = error if first is None else first
            cells += f"{error:12.1f}{100 * (first - error) / first if first else 0:9.1f}"
        print(f"{algorithm:10}{len(used):6}{cells}")


main()
