#!/bin/bash
# The memory model. Real kernels of known traffic on this host's caches: bytes by arithmetic, by cachegrind at the same
# first and last level, exact and sampled, and what each costs; the same and more as access streams; data misses beside
# cachegrind's at small caches. What the counted pass costs over other programs is a column of the part "counted". Of a last level
# of hundreds of MiB all of it takes more than half an hour: BENCH_PARTS chooses.
set -u
. tests/bench.d/common.sh
PARTS=${BENCH_PARTS:-known times pages curve streams cachegrind}

kernels=(read copy copy_nt triad update write write_nt stencil transpose transpose_blocked matmul matmul_blocked spmv
    stride stride_padded)
# Passes over 64 MiB an array, fewer over larger ones: enough for several windows of a sampled run. Exact runs do fewer, cachegrind
# one.
declare -A passes=([matmul]=3 [matmul_blocked]=64 [transpose]=16 [transpose_blocked]=32 [stencil]=48)
# Bytes of the last level that one core has; glibc tells the sum of a socket's on some CPUs.
last_level=/sys/devices/system/cpu/cpu0/cache/index3/size
last_level=$([ -e $last_level ] && echo $(($(tr -d K <$last_level) * 1024)) || getconf LEVEL3_CACHE_SIZE)
# MiB of an array: at least twice the last level, whose sets a stream of not much more than its size fills unevenly.
mib=64
while [ $mib -lt 1024 ] && [ $((mib << 19)) -lt $last_level ]; do
    mib=$((2 * mib))
done
# Passes of exact runs: one of arrays beyond large caches takes minutes.
declare -A exact_passes=([matmul]=1)
exact=$((mib > 64 ? 1 : 2))
# Seconds that one run may take.
patience=$((100 * (1 + mib / 128)))
# Traffic of the whole run, however many passes: of one pass.
declare -A whole=([stride_padded]=1)
# Bytes of which a sample of one line in 32 sees less than a hundred lines: it cannot know them.
few=$((100 * 32 * 64))
known=$work_dir/known
flags=(-O3 -mavx2 -mfma -ffast-math -static -fno-tree-loop-distribute-patterns -fno-loop-interchange
    -fno-loop-unroll-and-jam)

# geometry INDEX: size,ways,line of a cache of this host, as valgrind wants it: with a power of two of sets, which is the next one
# above what a cache of 480 MiB has.
geometry() {
    local cache=/sys/devices/system/cpu/cpu0/cache/index$1 ways sets=1
    [ -e "$cache/size" ] || return
    ways=$(<"$cache/ways_of_associativity")
    while [ $((sets * ways * 64)) -lt $((1024 * $(tr -d K <"$cache/size"))) ]; do
        sets=$((2 * sets))
    done
    echo "$((sets * ways * 64)),$ways,64"
}

# kernel_seconds FILE: of the standard error of a run.
kernel_seconds() { awk '$1 == "kernel" { print $2 }' "$1"; }

# of_profile LEVEL FUNCTION FILE: bytes at the level, and the error that is stated, of a function in a profile.
of_profile() {
    python3 - "$@" <<'PYTHON'
import json, sys
level, name, path = sys.argv[1:]
for f in json.load(open(path))["functions"]:
    if f["name"] == name:
        print(f["bytes"][level], f["source"]["bytes." + level].get("error"))
PYTHON
}

# misses LEVEL FUNCTION FILE: data misses of D1 (l2) or LL (dram) in one function of a file of cachegrind's.
misses() {
    awk -v level="$1" -v wanted="$2" '
        $1 == "events:" { for (i = 2; i <= NF; i++) if ($i ~ (level == "l2" ? "^D1m[rw]$" : "^DLm[rw]$")) column[i] = 1 }
        /^fn=/ { inside = $0 == "fn=" wanted; next }
        inside && /^[0-9]/ { for (i in column) sum += $i }
        END { print sum + 0 }' "$3"
}

# counted MODE NAME PASSES: runs a kernel under rprof; "BYTES ERROR SECONDS" of a pass, "None" each if it failed.
counted() {
    rm -rf "$work_dir/rprof.out"
    timeout $patience "$RPROF" --quiet --passes counted --memory "$1" -o "$work_dir/rprof.out" -- "$known" "$2" "$3" \
        >/dev/null 2>"$work_dir/err" || { echo None None None; return; }
    echo "$(of_profile "$level" "k_$2" "$work_dir/rprof.out/profile.json") $(kernel_seconds "$work_dir/err")" |
        awk -v n="$3" -v m="${whole[$2]-$3}" '{ print ($1 == "None" ? $1 : $1 / m), $2, $3 / n }'
}

known_kernels() {
    local name n level bytes native row
    printf '%-18s %-5s %10s %10s %10s %7s %10s %8s %7s | %9s %7s %7s %10s\n' kernel level analytic cachegrind exact off \
        sampled "to exact" stated native_ms exact sampled cachegrind
    for name in "${kernels[@]}"; do
        [[ $name =~ $ONLY ]] || continue
        n=$((${passes[$name]-64} * 64 / mib))
        n=$((n < 1 ? 1 : n))
        read -r level bytes < <("$known" "$name" 1 2>/dev/null)
        native=$(for ((i = 0; i < REPEAT; i++)); do "$known" "$name" "$n" 2>&1 >/dev/null | kernel_seconds /dev/stdin; done |
            sort -g | awk -v n="$n" '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] / n }')
        row="$name $level $bytes $native $(counted exact "$name" "${exact_passes[$name]-$exact}") $(counted sampled "$name" "$n")"
        if has valgrind && timeout $patience valgrind --tool=cachegrind --cache-sim=yes --D1="$(geometry 0)" --LL="$(geometry 3)" \
            --cachegrind-out-file="$work_dir/cachegrind" "$known" "$name" 1 >/dev/null 2>"$work_dir/err"; then
            row+=" $(misses "$level" "k_$name" "$work_dir/cachegrind") $(kernel_seconds "$work_dir/err")"
        fi
        table_row <<<"$row"
    done
    awk '{ logs += log($1) } END { if (NR) printf "geometric mean of the cost of sampled runs: %.2f\n", exp(logs / NR) }' \
        "$work_dir/costs"
}

# table_row: a line of "kernel level analytic native exact error seconds sampled error seconds [cachegrind seconds]".
table_row() {
    awk -v costs="$work_dir/costs" -v few="$few" '
        function percent(x, y) { return x != "None" && y + 0 ? sprintf("%+.1f%%", 100 * (x / y - 1)) : "-" }
        function of_sample(x, y) { return x != "None" && x < few && y < few ? "few" : percent(x, y) }
        function figure(format, x) { return x == "None" ? "-" : sprintf(format, x) }
        {
            cachegrind = NF > 10 ? sprintf("%.3e", $11 * 64) : "-"
            stated = $9 == "None" ? "-" : sprintf("%.1f%%", 100 * $9)
            cost = NF > 10 ? sprintf("%.0f", $12 / $4) : "-"
            printf "%-18s %-5s %10.3e %10s %10s %7s %10s %8s %7s | %9.1f %7s %7s %10s\n", $1, $2, $3, cachegrind,
                figure("%.3e", $5), percent($5, $3), figure("%.3e", $8), of_sample($8, $5), stated, 1000 * $4,
                $7 == "None" ? "-" : sprintf("%.1f", $7 / $4), $10 == "None" ? "-" : sprintf("%.2f", $10 / $4), cost
            if ($4 > 0 && $10 + 0 > 0) print $10 / $4 >>costs
        }'
}

# timed_pass PROGRAM KERNEL PASSES: "RATIO PREDICTED FASTEST MEAN OF_MEAN CLASS" of one run, times of a pass in milliseconds.
timed_pass() {
    rm -rf "$work_dir/rprof.out"
    timeout 100 "$RPROF" --quiet --passes both -o "$work_dir/rprof.out" -- "$1" "$2" "$3" >/dev/null 2>"$work_dir/err" || return
    python3 - "$2" "$3" "$work_dir/rprof.out/profile.json" "$work_dir/err" <<'PYTHON'
import json, sys
name, passes, path, err = sys.argv[1:]
# Of the timed pass, which comes first.
fastest = next((float(line.split()[1]) for line in open(err) if line.startswith("fastest ")), None)
for f in json.load(open(path))["functions"]:
    if f["name"] == "k_" + name and f["time_s"] and f["terms"]["dram"] and fastest:
        predicted, mean = f["terms"]["dram"] / int(passes), f["time_s"] / int(passes)
        print(f"{predicted / fastest:.3f} {1e3 * predicted:.2f} {1e3 * fastest:.2f} {1e3 * mean:.2f} {predicted / mean:.2f} {f['class']}")
PYTHON
}

# predicted_times BUILD PROGRAM…: of kernels that memory holds, the least time of a pass that the model allows over that of the
# fastest pass, and over the mean that the profile has. Of several programs the faster one counts, as of a ceiling's ways; of
# REPEAT rounds the median.
predicted_times() {
    # As many passes as find a quiet moment of the memory's.
    local build=$1 name round program passes=$((bytes > 256 << 20 ? 100 * (256 << 20) / bytes : 100))
    passes=$((passes < 30 ? 30 : passes))
    shift
    for name in read copy copy_nt triad update write write_nt; do
        for ((round = 0; round < REPEAT; round++)); do
            for program in "$@"; do timed_pass "$program" "$name" $passes; done | sort -g -k 3 | head -n 1
        done | sort -g | awk -v build="$build" -v name="$name" '
            { line[NR] = $0 }
            END {
                if (!NR) exit
                split(line[int((NR + 1) / 2)], v)
                printf "%-8s %-10s %9.2f %9.2f %9.2f %8.2f %8.2f  %s\n", build, name, v[2], v[3], v[4], v[1], v[5], v[6]
            }'
    done
}

# far_bytes: of an array of which a last level that protects itself from streams keeps a sixteenth; less where three of them would
# be more than half of the memory.
far_bytes() {
    local bytes=$((last_level < 4 << 20 ? 64 << 20 : 16 * last_level))
    local free=$(($(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo) << 10))
    while [ $((6 * bytes)) -gt $free ] && [ $bytes -gt $((64 << 20)) ]; do
        bytes=$((bytes / 2))
    done
    echo $bytes
}

# like_ceilings: what the ceilings are measured with: arrays that no cache keeps, the two widest vectors, loops unrolled, huge pages
# and small ones. The same as a program has it otherwise: AVX2, not unrolled, on small pages.
like_ceilings() {
    local bytes build width wide
    bytes=$(far_bytes)
    build=(gcc "${flags[@]}" "-DBYTES=(${bytes}L)" -DMAPPED)
    for width in 256 512; do
        wide=(-march=native -funroll-loops -mprefer-vector-width=$width)
        "${build[@]}" "${wide[@]}" -DHUGE_PAGES -o "$known.$width" fixtures/memory/known.c || return
        "${build[@]}" "${wide[@]}" -DSMALL_PAGES -o "$known.$width.small" fixtures/memory/known.c || return
    done
    "${build[@]}" -DSMALL_PAGES -o "$known.plain" fixtures/memory/known.c || return
    # What memory delivers drifts from one half hour to the next.
    "$RPROF" machine --refresh >/dev/null 2>&1
    echo "Arrays of $((bytes >> 20)) MiB."
    printf '%-8s %-10s %9s %9s %9s %8s %8s  %s\n' build kernel predicted fastest mean ratio "of mean" class
    predicted_times wide "$known.512" "$known.256"
    predicted_times small "$known.512.small" "$known.256.small"
    predicted_times plain "$known.plain"
}

# seconds_and_saving FUNCTION PROFILE: its time, the share of it that huge pages are said to save, its roof fraction.
seconds_and_saving() {
    python3 - "$@" <<'PYTHON'
import json, sys
name, path = sys.argv[1:]
for f in json.load(open(path))["functions"]:
    if f["name"] == name and f["time_s"]:
        saved = sum(s["seconds"] for s in f["savings"] if s["remove"] == ["small-pages"])
        print(f["time_s"], saved / f["time_s"], f["roof_fraction"])
PYTHON
}

# saved_by_huge_pages: of scattered accesses on small pages, what the model promises of huge ones, and what those bring.
saved_by_huge_pages() {
    local mib=512 name round pages program=$work_dir/scattered
    gcc -O2 -o "$program" fixtures/memory/scattered.c || return
    "$RPROF" machine --refresh >/dev/null 2>&1
    printf '%-10s %9s %9s %9s %9s %9s\n' kernel small_s huge_s promised measured roof
    for name in k_chase k_random; do
        for ((round = 0; round < REPEAT; round++)); do
            for pages in small huge; do
                rm -rf "$work_dir/$pages.out"
                timeout 100 "$RPROF" --quiet --passes both -o "$work_dir/$pages.out" -- "$program" $pages $mib >/dev/null 2>&1 || continue 2
            done
            echo "$(seconds_and_saving $name "$work_dir/small.out/profile.json") $(seconds_and_saving $name "$work_dir/huge.out/profile.json")"
        done | awk 'NF == 6 { print 1 - $4 / $1, $1, $4, $2, $3 }' | sort -g | awk -v name="$name" '
            { line[NR] = $0 }
            END {
                if (!NR) exit
                split(line[int((NR + 1) / 2)], v)
                printf "%-10s %9.3f %9.3f %9.2f %9.2f %9.2f\n", name, v[2], v[3], v[4], v[1], v[5]
            }'
    done
}

# A part of another name, or a row of another one than the first, is not wanted.
wanted() { [[ " $PARTS " == *" $1 "* ]] && { [ "$1" = known ] || [ "$ONLY" = . ]; }; }

if wanted known; then
    echo "Bytes a pass of kernels, at the level where arithmetic knows them, on this host's caches; costs over native. Cachegrind:"
    echo "its data misses in lines; it knows neither write-backs nor non-temporal stores. \"few\": so few lines are no sample; their"
    echo "bytes are those of the whole run."
    gcc "${flags[@]}" -DBYTES="(${mib}L<<20)" $([ $mib -gt 64 ] && echo -DMAPPED) -o "$known" fixtures/memory/known.c || exit 1
    echo "Arrays of $mib MiB; last level of $((last_level >> 20)) MiB."
    known_kernels
    echo
fi
if wanted times; then
    echo "Milliseconds of a pass of kernels that memory holds: predicted from the bytes and the machine's ceilings, measured. A ceiling"
    echo "is the best that memory did, and so is the fastest pass; the mean has its neighbours in it. \"wide\" is built as the kernels of"
    echo "the ceilings are, for 512 and 256 bits, of which the faster counts, \"small\" the same on pages of 4 KiB: their ratios are the"
    echo "model's error; \"plain\" (AVX2, not unrolled, small pages) falls short of them by what narrow code costs."
    like_ceilings
    echo
fi
if wanted pages; then
    echo "Scattered accesses over 512 MiB on pages of 4 KiB and on huge ones: seconds, the share that the model says huge pages save, that"
    echo "which they do, and the roof fraction on small ones."
    saved_by_huge_pages
    echo
fi
if wanted curve; then
    echo "The model's hit curve beside the measured working-set sweep:"
    "$RPROF" machine --json 2>/dev/null | cargo run --release --quiet --example tools -- memory_curve
    echo
fi
if wanted streams; then
    cargo run --release --quiet --example tools -- memory_table || exit 1
    echo
    cargo run --release --quiet --example tools -- memory_speed || exit 1
    echo
fi
if wanted cachegrind; then
    echo "data misses beside cachegrind's (D1 32 KiB 8 ways, LL 64 KiB 16 ways):"
    cargo test --quiet --test memory -- --nocapture cachegrind 2>/dev/null | grep -E 'misses:|SKIPPED|FAILED'
fi
exit 0
