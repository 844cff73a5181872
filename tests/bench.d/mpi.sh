#!/bin/bash
# The seven algorithms of fixtures/mpi over four "hosts" (network namespaces) at 200 and 800 Mbit/s and without limit: native seconds, and Table 2.6 of the
# communication-aware roofline redone: the error of the original roofline, of the thesis' two models and of rprof's two. Needs root, and a quiet host. The links
# themselves are measured by tests/bench network.
#   BENCH_ONLY=RE               of the algorithms
#   BENCH_MPI=openmpi:4,mpich:2 libraries and ranks (MPICH spins while it waits: no more ranks than CPUs); BENCH_RATES="200mbit 800mbit none"
#   BENCH_SIZES=first|all       only the first size of each (all)
#   BENCH_OWN=no                without rprof's own model, which needs a run under rprof for each size
#   BENCH_KEEP=DIR              keeps the lines of the runs, and what `rprof machine --json` said
#   BENCH_FLOPS, BENCH_MEMORY   ceilings of one rank in operations and bytes a second, instead of those of rprof; BENCH_NETWORK instead of the ping-pong's
set -u
. tests/bench.d/common.sh

fixtures=fixtures/mpi
cpus=$(nproc)
pairs=${BENCH_MPI:-openmpi:4,mpich:$((cpus < 4 ? cpus : 4))}
[ "$(id -u)" -eq 0 ] && has ip && has tc || { echo "mpi: needs root, ip and tc (Debian: iproute2)"; exit 0; }

hosts=
trap '[ -z "$hosts" ] || "$fixtures/hosts" down "$hosts"; rm -rf "$work_dir"' EXIT

# sizes ALGORITHM: each takes a millisecond or more on four ranks; a stencil's inner rows and a SUMMA's tiles must come out even. Arrays that
# stream through memory are larger than any last-level cache: the "hosts" share one, which no launcher says.
sizes() {
    case "$1" in
    summa) echo 256 512 1024 ;;
    fft) echo 16384 65536 262144 1048576 ;;
    stencil) echo 3074 4098 6146 ;;
    mst) echo 4096 16384 65536 ;;
    dgemv) echo 6144 8192 10240 ;;
    ddot) echo 16777216 33554432 67108864 ;;
    dijkstra) echo 256 512 1024 ;;
    esac
}

# measure_rate LIBRARY RANKS RATE: lines "LIBRARY RATE pingpong BYTES SECONDS BYTES_PER_S" and "LIBRARY RATE ALGORITHM …" as `seven` prints them.
measure_rate() {
    local library=$1 ranks=$2 rate=$3 algorithm n all line
    hosts=$("$fixtures/hosts" up "$ranks" "$rate" 64k) || { hosts=; return 1; }
    "$fixtures/hosts" run "$hosts" "$library" 2 "$work_dir/$library/pingpong" 0 4194304 2>"$work_dir/err" </dev/null | sed "s/^/$library $rate pingpong /"
    for algorithm in $("$work_dir/$library/seven" list); do
        [[ $algorithm =~ $ONLY ]] || continue
        [ "$algorithm" = summa ] && [[ ! $ranks =~ ^(1|4|9|16)$ ]] && continue
        read -r -a all < <(sizes "$algorithm")
        [ "${BENCH_SIZES:-all}" = first ] && all=("${all[0]}")
        for n in "${all[@]}"; do
            # What was printed counts however the launcher ends: MPICH 4.0.2 may hang in MPI_Finalize (fixtures/mpi/README.md).
            line=$("$fixtures/hosts" run "$hosts" "$library" "$ranks" "$work_dir/$library/seven" "$algorithm" "$n" 2>"$work_dir/err" </dev/null)
            if [[ $line =~ ^$algorithm\ $n\  ]]; then
                echo "$library $rate $line"
                [ "${BENCH_OWN-}" = no ] || profile_run "$library" "$ranks" "$rate" "$algorithm" "$n"
            else
                echo "$library at $rate: $algorithm $n FAILED: $(grep -v '^[-[:space:]]*$' "$work_dir/err" | tail -1)" >&2
            fi
        done
    done
    "$fixtures/hosts" down "$hosts"
    hosts=
}

# profile_run LIBRARY RANKS RATE ALGORITHM SIZE: "LIBRARY RATE profile ALGORITHM SIZE FOLDER" of a run under rprof, which measures the network, too.
profile_run() {
    local folder=$work_dir/profiles/$1-$3-$4-$5
    mkdir -p "$work_dir/profiles"
    MPI_HOSTS_TIMEOUT=300 MPI_HOSTS_PREFIX="$RPROF --quiet -o $folder --" \
        "$fixtures/hosts" run "$hosts" "$1" "$2" "$work_dir/$1/seven" "$4" "$5" >"$work_dir/own" 2>&1 </dev/null
    if [ -r "$folder/profile.json" ]; then
        echo "$1 $3 profile $4 $5 $folder"
    else
        echo "$1 at $3: $4 $5 under rprof FAILED: $(grep '^rprof:' "$work_dir/own" | tail -1)" >&2
    fi
}

for pair in ${pairs//,/ }; do
    library=${pair%:*}
    # Seconds for one run: what hangs with MPICH has long printed its figures.
    export MPI_HOSTS_TIMEOUT=$([ "$library" = mpich ] && echo 30 || echo 100)
    has "mpicc.$library" || { echo "$library: not installed" >&2; continue; }
    PYTHON=no "$fixtures/make" "$library" "$work_dir/$library" >"$work_dir/make" || { cat "$work_dir/make" >&2; exit 1; }
    for rate in ${BENCH_RATES:-200mbit 800mbit none}; do
        measure_rate "$library" "${pair#*:}" "$rate"
    done
done >"$work_dir/lines"
if [ -z "${BENCH_FLOPS-}" ] || [ -z "${BENCH_MEMORY-}" ]; then
    timeout 100 "$RPROF" machine --json >"$work_dir/machine.json" 2>/dev/null || rm -f "$work_dir/machine.json"
fi
[ -z "${BENCH_KEEP-}" ] || { mkdir -p "$BENCH_KEEP" && cp -r "$work_dir/lines" "$work_dir"/machine.json "$work_dir/profiles" "$BENCH_KEEP/"; }
python3 tests/bench.d/mpi.py "$work_dir/lines" "$work_dir/machine.json" "$cpus"
