#!/bin/bash
# What merging many ranks costs. A profile of this host's rprof on a small program, copied as ranks of one job with 32 on a host, is put together, for 1,000
# ranks (asked: under 10 s). Then a real rank of Open MPI, its profile copied as those of 4 and of 8 ranks, and what a merge of 10,000 such ranks would
# read and write (docs/mpi.md):
#   read    = ranks × (bytes of a rank's profile.json + mpi.calls)
#   written = bytes written for 8 + (ranks − 8) × growth, growth = (written for 8 − written for 4) / 4
#   BENCH_RANKS=N   instead of 1000
set -u
. tests/bench.d/common.sh

ranks=${BENCH_RANKS:-1000}
trap 'rm -rf "$work_dir"' EXIT
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE="$ranks" PMIX_NAMESPACE=bench \
    timeout 100 "$RPROF" --quiet --passes counted --memory off --no-merge -o "$work_dir/job" -- gzip --version >"$work_dir/out" 2>&1 </dev/null
[ -r "$work_dir/job/rank-0/profile.json" ] || { echo "ranks: no profile of a rank: $(tail -1 "$work_dir/out")"; exit 1; }
mv "$work_dir/job" "$work_dir/one"

# copies FOLDER RANKS FUNCTIONS: the folder job with so many copies of the first rank in a job's FOLDER, each with at most so many functions.
copies() {
    rm -rf "$work_dir/job"
    mkdir "$work_dir/job" && cp "$1/job.json" "$work_dir/job/"
    python3 - "$1/rank-0/profile.json" "$work_dir/job" "$2" "$3" <<'PYTHON'
import json, os, sys

one, job, ranks, functions = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with open(one) as file:
    profile = json.load(file)
profile["functions"] = profile["functions"][:functions]
for rank in range(ranks):
    host = f"host{rank // 32}"
    for entry in profile["run"]["ranks"]:
        entry.update(rank=rank, ranks=ranks, host=host)
    for thread in profile["run"]["threads"]:
        thread.update(rank=rank, host=host)
    for site in (profile.get("mpi") or {}).get("sites", []):
        site["rank"] = rank
    os.makedirs(f"{job}/rank-{rank}", exist_ok=True)
    with open(f"{job}/rank-{rank}/profile.json", "w") as file:
        file.write(json.dumps(profile, separators=(",", ":"), ensure_ascii=False))  # dump is ten times as slow
PYTHON
}

# bytes FILE…: of all that are there.
bytes() { cat "$@" 2>/dev/null | wc -c; }

# merged FOLDER RANKS FUNCTIONS: "ELAPSED CPU MEMORY READ WRITTEN", in seconds and bytes, of a merge of such copies.
merged() {
    copies "$@"
    rm -rf "$work_dir/whole"
    python3 - "$RPROF" "$work_dir" <<'PYTHON' || return 1
import resource, subprocess, sys, time

rprof, work = sys.argv[1:]
begun = time.monotonic()
with open(f"{work}/out", "w") as out:
    subprocess.run([rprof, "merge", f"{work}/job", "-o", f"{work}/whole"], stdout=out, stderr=out, timeout=300, check=True)
elapsed, used = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{elapsed:.1f} {used.ru_utime + used.ru_stime:.1f} {used.ru_maxrss * 1024}", end=" ")
PYTHON
    echo "$(bytes "$work_dir"/job/rank-*/profile.json) $(bytes "$work_dir"/whole/*)"
}

# As many functions as have time in a normal program.
of_all=$(merged "$work_dir/one" "$ranks" 50) || { echo "ranks: not merged: $(tail -1 "$work_dir/out")"; exit 1; }
read -r elapsed cpu memory read_all written <<<"$of_all"
echo "$ranks ranks merged in $elapsed s ($cpu s of CPU, $memory bytes of memory); read $read_all bytes, wrote $written"

has mpicc.openmpi && has mpirun.openmpi || { echo "real ranks: no Open MPI here (Debian: libopenmpi-dev, openmpi-bin)"; exit 0; }
library=openmpi
. fixtures/mpi/launchers.sh
mpicc.openmpi -O2 -g -o "$work_dir/late" fixtures/mpi/late.c || exit 1
rounds=400
real() { timeout 100 "${launch[@]}" -np 2 "$RPROF" --quiet "$@" -- "$work_dir/late" allreduce $rounds 1 >"$work_dir/out" 2>&1 </dev/null; }
real --passes timed -o "$work_dir/two" && real --passes counted -o "$work_dir/two" && real --passes single -o "$work_dir/single" ||
    { echo "real ranks: $(tail -1 "$work_dir/out")"; exit 1; }

# at_scale WHAT FOLDER: the sizes of its first rank, and what they say of 10,000.
at_scale() {
    local what=$1 folder=$2 few many written_few written profile calls
    few=$(merged "$folder" 4 1000000) && many=$(merged "$folder" 8 1000000) || { echo "$what: not merged: $(tail -1 "$work_dir/out")"; return 1; }
    read -r _ _ _ _ written_few <<<"$few"
    read -r _ _ memory _ written <<<"$many"
    profile=$(bytes "$folder/rank-0/profile.json") calls=$(bytes "$folder/rank-0/mpi.calls")
    python3 - "$what" "$profile" "$calls" "$written_few" "$written" "$memory" <<'PYTHON'
import sys

what, (profile, calls, written_few, written, memory) = sys.argv[1], map(int, sys.argv[2:])
growth = (written - written_few) / 4
print(f"{what}: profile.json {profile} bytes, mpi.calls {calls}; 8 ranks wrote {written} bytes, each further adds {growth:.0f}, memory {memory}")
print(f"  10,000 such ranks: read {1e4 * (profile + calls) / 1e9:.1f} GB, written {(written + (1e4 - 8) * growth) / 1e9:.2f} GB")
PYTHON
}
at_scale "timed and counted, $rounds rounds" "$work_dir/two"
at_scale "one run" "$work_dir/single"
