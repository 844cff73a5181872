#!/bin/bash
# Ceilings of the network between two "hosts" (network namespaces), for each library, rate and burst: the sustained rate of two measurements, and 200 late
# messages of 1 MiB, whose transfer time is compared with the curve. Needs root, and a quiet host. Asked: 97 ± 3 MB/s at 800 Mbit/s and 24.3 ± 0.7 at 200,
# whatever the burst; two measurements within 5 %, the libraries within 3 %; waiting within 2 % of the program's own, transfer within 5 % of the curve.
#   BENCH_LIBRARIES="openmpi mpich"; BENCH_RATES="200mbit 800mbit"; BENCH_BURSTS="64k 256k"
set -u
. tests/bench.d/common.sh

fixtures=fixtures/mpi
rprof=$(realpath "$RPROF")
[ "$(id -u)" -eq 0 ] && has ip && has tc || { echo "network: needs root, ip and tc (Debian: iproute2)"; exit 0; }

hosts=
trap '[ -z "$hosts" ] || "$fixtures/hosts" down "$hosts"; rm -rf "$work_dir"' EXIT

# one LIBRARY RATE BURST: the files LIBRARY-RATE-BURST.1, .2 (ceilings), .late (what the program says) and .profile.
one() {
    local library=$1 name=$work_dir/of/$1-$2-$3 i
    hosts=$("$fixtures/hosts" up 2 "$2" "$3") || { hosts=; return 1; }
    for i in 1 2; do
        # What was printed counts however the launcher ends: MPICH 4.0.2 may hang in MPI_Finalize (fixtures/mpi/README.md).
        MPI_HOSTS_TIMEOUT=100 "$fixtures/hosts" run "$hosts" "$library" 2 "$rprof" machine --mpi --json --refresh >"$name.$i" 2>"$work_dir/err" </dev/null
    done
    MPI_HOSTS_TIMEOUT=150 MPI_HOSTS_PREFIX="$rprof --passes counted --memory off --quiet -o $work_dir/late --" \
        "$fixtures/hosts" run "$hosts" "$library" 2 "$work_dir/$library/late" sender 200 20 1048576 >"$name.late" 2>"$work_dir/err" </dev/null
    mv "$work_dir/late/profile.json" "$name.profile" 2>/dev/null || echo "$library at $2, burst $3: no profile: $(grep '^rprof:' "$work_dir/err" | tail -1)" >&2
    rm -rf "$work_dir/late"
    "$fixtures/hosts" down "$hosts"
    hosts=
}

mkdir "$work_dir/of"
for library in ${BENCH_LIBRARIES:-openmpi mpich}; do
    has "mpicc.$library" || { echo "$library: not installed" >&2; continue; }
    PYTHON=no "$fixtures/make" "$library" "$work_dir/$library" >"$work_dir/make" || { cat "$work_dir/make" >&2; exit 1; }
    for rate in ${BENCH_RATES:-200mbit 800mbit}; do
        for burst in ${BENCH_BURSTS:-64k 256k}; do
            one "$library" "$rate" "$burst" || exit 1
        done
    done
done
python3 tests/bench.d/network.py "$work_dir/of"
