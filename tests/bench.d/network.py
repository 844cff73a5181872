"""Prints sustained rates and transfer times of late messages beside what is asked: network.py FOLDER, which network.sh filled."""
import json
import pathlib
import sys

# Megabytes a second that are asked for, and how far off they may be.
ASKED = {"800mbit": (97.0, 3.0), "200mbit": (24.3, 0.7)}
MIB = 1 << 20


def pair(network):
    """The curve of one pair of ranks on two hosts."""
    found = [p for p in (network or {}).get("pairs", []) if p["distance"] == "other-host" and p["at_once"] == 1]
    return found[0] if found else None


def read(path):
    """The JSON at the begin of a file: a launcher may have printed behind it."""
    try:
        return json.JSONDecoder().raw_decode(path.read_text())[0]
    except (OSError, ValueError):
        return None


def verdict(is_right):
    return "ok" if is_right else "OFF"


def rate_row(name, path):
    """Two measurements of one link; the mean rate in MB/s, or None."""
    curves = [pair(read(path.with_name(f"{path.name}.{i}"))) for i in (1, 2)]
    if None in curves or any(c["bytes_per_s"] is None for c in curves):
        print(f"{name:28} not measured")
        return None
    first, second = (c["bytes_per_s"] / 1e6 for c in curves)
    apart, mean = abs(first - second) / min(first, second), (first + second) / 2
    bursts = " ".join("–" if c["burst_bytes"] is None else f"{c['burst_bytes'] / 1024:.0f}k" for c in curves)
    asked, room = ASKED.get(name.split()[1], (None, None))
    judged = "" if asked is None else f"  asked {asked} ± {room}: {verdict(all(abs(r - asked) <= room for r in (first, second)))}"
    print(f"{name:28} {first:8.2f} {second:8.2f} MB/s, {100 * apart:4.1f} % apart: {verdict(apart <= 0.05)}, bursts {bursts}{judged}")
    return mean


def late_row(name, path):
    """Waiting against the program's own clock, transfer against the curve of the same profile."""
    profile = read(path.with_name(path.name + ".profile"))
    lines = path.with_name(path.name + ".late").read_text().splitlines()
    own = next((line.split() for line in lines if line.startswith("early_receive ")), None)
    sites = (profile or {}).get("mpi", {}).get("sites", [])
    site = next((s for s in sites if s["caller"] == "early_receive"), None)
    curve = pair((profile or {}).get("network"))
    if own is None or site is None or site["waiting_s"] is None or curve is None:
        print(f"{name:28} not measured")
        return
    calls, waiting, in_call = int(own[2]), float(own[3]), float(own[4])
    point = next((p for p in curve["one_way"] if p["bytes"] == MIB), None)
    transfer = site["time_s"] - site["waiting_s"]
    print(f"{name:28} waiting {site['waiting_s']:.4f} s, own {waiting:.4f}: {100 * (site['waiting_s'] / waiting - 1):+.1f} %", end="")
    if point is None:
        print(f"; transfer {transfer:.4f} s, own {in_call - waiting:.4f}; no point of 1 MiB")
        return
    # In the pause before each message a bucket fills: those bytes go at once.
    expected = calls * point["seconds"]
    less = expected - calls * (curve["burst_bytes"] or 0) / curve["bytes_per_s"]
    print(
        f"; transfer {transfer:.4f} s, own {in_call - waiting:.4f}, curve {expected:.4f} ({100 * (transfer / expected - 1):+.1f} %), "
        f"curve less the burst {less:.4f} ({100 * (transfer / less - 1):+.1f} %)"
    )


def main():
    folder = pathlib.Path(sys.argv[1])
    names = sorted(path.name.removesuffix(".late") for path in folder.glob("*.late"))
    means = {}
    print("sustained rate, two measurements")
    for name in names:
        means[name] = rate_row(name.replace("-", " "), folder / name)
    for link in sorted({name.split("-", 1)[1] for name in names}):
        both = [means.get(f"{library}-{link}") for library in ("openmpi", "mpich")]
        if None not in both:
            apart = abs(both[0] - both[1]) / min(both)
            print(f"{link.replace('-', ' '):28} libraries {100 * apart:.1f} % apart: {verdict(apart <= 0.03)}")
    print("200 messages of 1 MiB, each 20 ms late (asked: waiting ± 2 %, transfer ± 5 % of the curve)")
    for name in names:
        late_row(name.replace("-", " "), folder / name)


main()
