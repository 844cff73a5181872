#!/bin/bash
# rprof's ceilings beside likwid-bench's kernels of the same kind, interleaved in one run; best of several rounds.
#
# In-core kernels are compared in FLOP/s, streams in elements of eight bytes a second (the two count bytes by different
# conventions). Each round is a quick measurement of rprof and then a second of each of likwid-bench's kernels. What a core does by
# itself (registers, L1, L2) is compared at one clock: some hosts' jump by a fifth for seconds. That of likwid-bench is looked at before
# and after; runs between two different ones do not count there.
# Before it, what a measurement takes: quick, from the cache with the check for drift, and full; and what three pairs of full ones
# agree on, with the share of noisy ceilings by class.
# BENCH_REPEAT: rounds (3). BENCH_ONLY: rows (regular expression on "ceiling"). BENCH_THREADS: thread counts.
# BENCH_STATE: a file that keeps the rounds, so that several runs of this script add up to one table. From the second round
# on, each row runs the kernel of likwid-bench that was best in the first, for a fifth of a second.
set -u -o pipefail
has() { command -v "$1" >/dev/null; }
tools=${TOOLS:-target/release/examples/tools}
[ "${TOOLS:-}" ] || cargo build --release --quiet --example tools || exit 1
out=${BENCH_STATE:-$(mktemp)} cache=$(mktemp -d)
trap 'rm -rf "$cache"; [ "${BENCH_STATE:-}" ] || rm -f "$out"' EXIT

# takes WHAT LIMIT ARGUMENTS…: wall time and memory of one measurement.
takes() {
    local what=$1 limit=$2
    shift 2
    XDG_CACHE_HOME=$cache /usr/bin/time -f "%e %M" "$tools" machine "$@" 2>&1 >"$cache/out" | tail -1 |
        awk -v what="$what" -v limit="$limit" '{ printf "%-28s %6.2f s (at most %s s), %d MB\n", what, $1, limit, $2 / 1000 }'
}
if has /usr/bin/time && [ -z "${BENCH_ONLY:-}" ]; then
    takes "full" 30 --refresh --json
    mv "$cache/out" "$cache/first"
    # A few later runs measure again what was noisy; then the check is all that is left.
    for n in 1 2 3 4 5 6 7 8; do takes "cached, run $n" 1.5 --elements; done
    for n in 1 2 3 4 5; do takes "cached, checked for drift" 0.3 --elements; done
    for n in 1 2 3; do
        takes "full, again" 30 --refresh --json
        "$tools" machine_compare "$cache/first" "$cache/out"
        mv "$cache/out" "$cache/first"
    done
    rm -rf "$cache"/*
    takes "quick" 3 --quick --refresh --elements
fi

# FLOPs in double precision a cycle, FMA alone and with the additions that other pipes take: pipes x lanes x operations, from
# the vendors' optimization guides. Nothing is said of cores whose pipes are not known here.
pipes() {
    local family model
    family=$(awk -F: '/^cpu family/ { print $2 + 0; exit }' /proc/cpuinfo)
    model=$(awk -F: '/^model\t/ { print $2 + 0; exit }' /proc/cpuinfo)
    case "$(awk -F': ' '/^vendor_id/ { print $2; exit }' /proc/cpuinfo) $family" in
    # Zen, Zen+: two FMA pipes of 128 bits, whose third operand comes in through an adder; what both do together is not told.
    "AuthenticAMD 23") [ "$model" -lt 48 ] && echo "8" ;;
    "AuthenticAMD 25") echo "16 24" ;;                        # Zen 3, Zen 4: the same; 512 bits take two passes
    "AuthenticAMD 26") [ "$model" -le 31 ] && echo "32 48" ;; # Zen 5 servers: 512 bits wide
    esac
}
if [ -z "${BENCH_ONLY:-}" ] && known=$(pipes) && [ "$known" ]; then
    XDG_CACHE_HOME=$cache "$tools" machine --quick 2>/dev/null | awk -v known="$known" '
        BEGIN { split(known, per) }
        $1 == "dp.fma" || $1 == "dp.peak" {
            want = per[$1 == "dp.fma" ? 1 : 2]
            if (!want) next
            printf "%-8s %2d threads %7.3f FLOPs a cycle at %s GHz; pipes x width: %d; ratio %.3f (least 0.97)\n", $1, $2, $5, $7, want, $5 / want }'
fi
if ! has likwid-bench; then
    echo "SKIPPED: likwid-bench is not installed (apt-get install likwid)"
    exit 0
fi
rounds=${BENCH_REPEAT:-3}
only=${BENCH_ONLY:-.}
cpus=$(nproc)
flags=$(grep -m1 '^flags' /proc/cpuinfo)
widths=sse
[[ $flags == *" avx "* ]] && widths="avx"
[[ $flags == *" avx512f "* ]] && widths="avx512 avx"
size() { cat "/sys/devices/system/cpu/cpu0/cache/index$1/size" 2>/dev/null | tr -d 'K'; }
l1=$(size 0) l2=$(size 2) l3=$(size 3)
# As rprof: CPUs that a hypervisor puts under a last-level cache each must not find the stream in it.
dram=$((8 * l3 * (cpus < 4 ? cpus : 4)))

# likwid ROW THREADS WHAT SET_KB KERNEL…: runs the kernels; WHAT: `flops`, or the bytes that likwid counts an element.
likwid() {
    local row=$1 threads=$2 what=$3 set=$4 kernel
    shift 4
    [[ $row =~ $only ]] || return 0
    local best count duration before said
    best=$(awk -v row="$row" -v t="$threads" '
        $1 == "likwid" && $2 == row && $3 == t && $5 > most { most = $5; kernel = $4 }
        END { print kernel }' "$out")
    for kernel in "$@"; do
        [ -z "$best" ] || [ "$kernel" = "$best" ] || continue
        count=$(awk -v row="$row" -v k="$kernel" '
            $1 == "likwid" && $2 == row && $4 == k { each = $6 }
            END { if (each) print int(0.2 / each) + 1 }' "$out")
        duration="-s 1"
        [ -z "$count" ] || duration="-i $count"
        before=$("$tools" clock)
        said=$(likwid-bench -t "$kernel" -w "S0:${set}kB:$threads" $duration 2>/dev/null)
        awk -v row="$row" -v t="$threads" -v k="$kernel" -v what="$what" -v before="$before" -v after="$("$tools" clock)" '
                /^MFlops\/s:/ { flops = 1e6 * $2 }
                /^MByte\/s:/ { bytes = 1e6 * $2 }
                /^Time:/ { seconds = $2 }
                /^Iterations per thread:/ { iterations = $4 }
                END { value = what == "flops" ? flops : bytes / what
                      ghz = before < 0.98 * after || after < 0.98 * before ? 0 : (before + after) / 2
                      if (value > 0) printf "likwid %s %d %s %.6g %.6g %.3f\n", row, t, k, value, seconds / iterations, ghz }' \
            <<<"$said" >>"$out"
    done
}

# Kernel names of likwid-bench: base name and width.
named() { local base=$1 w; for w in $widths; do echo "${base}_$w"; done; }
known=$(likwid-bench -a 2>/dev/null | awk '{ print $1 }')
only() { local k; for k in "$@"; do grep -qx "$k" <<<"$known" && echo "$k"; done; }

streams() { # level, threads, set in kB for all threads
    local level=$1 threads=$2 set=$3
    likwid "$level.read" "$threads" 8 "$set" $(only $(named load))
    likwid "$level.copy" "$threads" 16 "$set" $(only $(named copy))
    likwid "$level.triad" "$threads" 24 "$set" $(only $(for w in $widths; do echo "stream_${w}_fma"; done) || only $(named stream))
    likwid "$level.update" "$threads" 16 "$set" $(only $(named update))
    likwid "$level.write" "$threads" 8 "$set" $(only $(named store))
}

for ((round = 0; round < rounds; round++)); do
    XDG_CACHE_HOME=$cache "$tools" machine --quick --refresh --elements 2>/dev/null | sed 's/^/rprof /' >>"$out"
    for threads in ${BENCH_THREADS:-1 $cpus}; do
        likwid dp.fma "$threads" flops $((threads * l1 / 2)) $(only $(for w in $widths; do echo peakflops_${w}_fma; done))
        likwid dp.balance.addmul "$threads" flops $((threads * l1 / 2)) $(only $(named peakflops))
        likwid sp.fma "$threads" flops $((threads * l1 / 2)) $(only $(for w in $widths; do echo peakflops_sp_${w}_fma; done))
        streams l1 "$threads" $((threads * l1 / 2))
        streams l2 "$threads" $((threads * l2 / 2))
        streams l3 "$threads" $((threads * l2 * 5))
        streams dram "$threads" $dram
        likwid dram.copy.nt "$threads" 16 $dram $(only $(named copy_mem))
        likwid dram.triad.nt "$threads" 24 $dram $(only $(named stream_mem))
        likwid dram.write.nt "$threads" 8 $dram $(only $(named store_mem))
    done
done

awk '
    { key = $2 " " $3
      if (!(key in seen)) { seen[key] = 1; order[++n] = key }
      if ($1 == "rprof" && $2 == "l1.read" && $3 == 1) rounds++
      value = $5
      if ($2 ~ /^([ds]p|l1|l2)\./) {
          ghz = $1 == "rprof" ? $4 : $7
          if (ghz == 0) next
          if (!reference) reference = ghz
          value *= reference / ghz
      }
      if ($1 == "rprof" && value > ours[key]) ours[key] = value
      if ($1 == "likwid" && value > theirs[key]) { theirs[key] = value; name[key] = $4 } }
    END {
        printf "%-18s %7s %12s %12s  %-22s %6s %6s\n", "ceiling", "threads", "rprof", "likwid", "its best kernel", "ratio", "least"
        for (i = 1; i <= n; i++) {
            key = order[i]
            if (!theirs[key]) continue
            split(key, part, " ")
            core = part[1] ~ /^[ds]p\./
            least = core ? 0.99 : 0.97
            rows++
            ratio = ours[key] / theirs[key]
            low += ratio < least
            printf "%-18s %7d %12.4g %12.4g  %-22s %6.3f %6.2f%s\n", part[1], part[2], ours[key], theirs[key], name[key], ratio, least, ratio < least ? "  LOW" : ""
        }
        printf "best of %d rounds; %d of %d rows below their least ratio (flop/s; elements of 8 bytes a second; ", rounds, low, rows
        printf "core, L1 and L2 at %.2f GHz)\n", reference
        exit low > 0
    }' "$out"
