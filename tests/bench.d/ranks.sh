#!/bin/bash
# What merging 1,000 ranks costs: a profile of this host's rprof on a small program, copied as ranks of one job on 32 hosts, and put together.
# Prints elapsed and CPU seconds, and bytes that are read and written (asked: under 10 s).
#   BENCH_RANKS=N   instead of 1000
set -u
. tests/bench.d/common.sh

ranks=${BENCH_RANKS:-1000}
trap 'rm -rf "$work_dir"' EXIT
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE="$ranks" PMIX_NAMESPACE=bench \
    timeout 100 "$RPROF" --quiet --passes counted --memory off --no-merge -o "$work_dir/job" -- gzip --version >"$work_dir/out" 2>&1 </dev/null
[ -r "$work_dir/job/rank-0/profile.json" ] || { echo "ranks: no profile of a rank: $(tail -1 "$work_dir/out")"; exit 1; }
python3 - "$work_dir/job" "$ranks" <<'PYTHON'
import json, os, shutil, sys

job, ranks = sys.argv[1], int(sys.argv[2])
with open(f"{job}/rank-0/profile.json") as file:
    profile = json.load(file)
# As many functions as have time in a normal program.
profile["functions"] = profile["functions"][:50]
for rank in range(ranks):
    host = f"host{rank * 32 // ranks}"
    for one in profile["run"]["ranks"]:
        one.update(rank=rank, ranks=ranks, host=host)
    for thread in profile["run"]["threads"]:
        thread.update(rank=rank, host=host)
    os.makedirs(f"{job}/rank-{rank}", exist_ok=True)
    with open(f"{job}/rank-{rank}/profile.json", "w") as file:
        json.dump(profile, file)
PYTHON
read_bytes=$(cat "$work_dir"/job/rank-*/profile.json | wc -c)
TIMEFORMAT='%R %U %S'
times=$({ time timeout 300 "$RPROF" merge "$work_dir/job" -o "$work_dir/whole" >"$work_dir/out" 2>&1; } 2>&1)
[ -r "$work_dir/whole/profile.json" ] || { echo "ranks: not merged: $(tail -1 "$work_dir/out")"; exit 1; }
read -r elapsed user system <<<"$times"
echo "$ranks ranks merged in $elapsed s ($user s + $system s of CPU); read $read_bytes bytes, wrote $(cat "$work_dir"/whole/* | wc -c)"
