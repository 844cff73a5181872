#!/bin/bash
# Names of functions in programs of Debian, beside those of perf and gdb: each program runs under `rprof --passes timed` and under
# `perf record`; of every function with at least 1 % of perf's samples the table says what rprof, perf and gdb call it, and which
# name is right. It ends with 1 where rprof's name is worse. BENCH_ONLY chooses programs by a regular expression; BENCH_ALL=1 prints
# functions whose names are the same, too. Packages that are missing are named.
#   apt-get install linux-perf gdb gzip xz-utils zstd sqlite3 bc gawk perl python3-numpy libopenblas0-pthread python3.11-dbg \
#       libc6-dbg libstdc++6-12-dbg povray minisat lammps mopac ripgrep hugo rclone ghostscript pari-gp openssl git gnuplot-nox
set -u
. tests/bench.d/common.sh

RPROF=$(realpath "$RPROF")
here=$PWD
fixtures=$PWD/fixtures/real
# As common.sh has RPROF: what the caller built, else the release build.
TOOLS=${TOOLS:-}
if [ -z "$TOOLS" ]; then
    cargo build --release --quiet --example tools || exit 1
    TOOLS=target/release/examples/tools
fi
TOOLS=$(realpath "$TOOLS")
for tool in perf gdb readelf; do
    has $tool || { echo "SKIPPED: packages: $tool is not installed"; exit 0; }
done
if ! perf record -e cpu-clock:u -o "$work_dir/try.data" true >/dev/null 2>&1; then
    echo "SKIPPED: perf: the kernel refuses perf_event_open"
    exit 0
fi
cd "$work_dir" || exit 1

# named PROGRAM NEEDS COMMAND…
named() {
    local name=$1 needs=$2
    shift 2
    [[ $name =~ $ONLY ]] || return 0
    if ! bash -c "$needs" >needs.log 2>&1; then
        printf '%-10s SKIPPED: packages: %s\n' "$name" "$(tail -1 needs.log)"
        return 0
    fi
    rm -rf profile perf.data
    timeout 300 "$RPROF" --quiet --full-names --passes timed -o profile -- "$@" >out.log 2>err.log </dev/null
    [ -e profile/profile.json ] || { printf '%-10s FAILED: rprof: %s\n' "$name" "$(tail -1 err.log)"; return 0; }
    timeout 300 perf record -q -e cpu-clock:u -F 999 -o perf.data -- "$@" >out.log 2>err.log </dev/null
    python3 "$here/tests/bench.d/names.py" functions "$name" perf.data profile/profile.json "$TOOLS" >>rows ||
        printf '%-10s FAILED: names.py\n' "$name"
}

awk 'BEGIN { for (i = 0; i < 1500000; i++) { x = (x * 1103515245 + 12345) % 2147483648; print x } }' >numbers
awk 'BEGIN { for (i = 0; i < 500000; i++) { x = (x * 1103515245 + 12345) % 2147483648; printf "%d %s line %d of the text, %d\n", i, x % 7 ? "an ordinary" : "a rare", x % 1000, i * 7 % 13 } }' >text
awk 'BEGIN { h = 9; p = h + 1; print "p cnf", p * h, p + h * p * (p - 1) / 2
    for (i = 0; i < p; i++) { for (j = 1; j <= h; j++) printf "%d ", i * h + j; print 0 }
    for (j = 1; j <= h; j++) for (i = 0; i < p; i++) for (k = i + 1; k < p; k++) print -(i * h + j), -(k * h + j), 0 }' >problem.cnf
# A chain of alkane molecules: geometry enough for seconds of self-consistent field.
awk 'BEGIN { print "PM7 1SCF XYZ NOREOR GEO-OK\nchain\n"; for (i = 0; i < 110; i++) {
    printf "C %f 1 %f 1 0 1\n", i * 1.26, i % 2 * 0.89; s = i % 2 ? 1 : -1
    printf "H %f 1 %f 1 0.89 1\nH %f 1 %f 1 -0.89 1\n", i * 1.26, i % 2 * 0.89 + s * 0.63, i * 1.26, i % 2 * 0.89 + s * 0.63 }
    printf "H %f 1 %f 1 0 1\nH %f 1 %f 1 0 1\n", -0.89, 0.63, 110 * 1.26 - 0.37, -0.63 + 0.89 }' >chain.mop
cat >page.ps <<'PS'
/r 1 def 1 1 400000 { /r r 1103515245 mul 12345 add 2147483647 and cvi def r 600 mod exch 700 mod moveto 3 3 rlineto stroke } for showpage
PS
cat >plot.gp <<'GP'
set terminal svg; set output '/dev/null'; set isosamples 400; set samples 400; set hidden3d
splot sin(sqrt(x*x+y*y))/sqrt(x*x+y*y+0.1)
GP
site() {
    mkdir -p site/content site/layouts/_default && cd site || return
    echo 'title = "site"' >config.toml
    echo '<html><body>{{ .Content }}{{ range first 50 .Site.RegularPages }}<a href="{{ .Permalink }}">{{ .Title | upper }}</a>{{ end }}</body></html>' |
        tee layouts/_default/single.html >layouts/_default/list.html
    for i in $(seq 1500); do
        printf -- '---\ntitle: Page %d\n---\n# Head\n\nSome *text* with [a link](/p%d), `code`.\n\n- one\n- two\n' "$i" "$i" >"content/p$i.md"
    done
}
repository() {
    /usr/bin/git init -q tree && cd tree && /usr/bin/git config user.email a@b && /usr/bin/git config user.name a || return
    for i in $(seq 40); do
        awk -v s="$i" 'BEGIN { for (i = 0; i < 20000; i++) print (i * s * 7919) % 104729 }' >file
        /usr/bin/git add file && /usr/bin/git commit -q -m "$i" || return
    done
}
export -f site repository

# C, stripped.
named gzip 'command -v gzip' gzip -9 -c numbers
named xz 'command -v xz' xz -T1 -1 -c numbers
named zstd 'command -v zstd' zstd -q -T1 -12 -c text
named sqlite 'command -v sqlite3' sqlite3 :memory: "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500000)
    SELECT i % 17, count(*), sum(i * 7 % 1001) FROM n GROUP BY 1 ORDER BY 3;"
named bc 'command -v bc' bash -c 'echo "scale=2500; 4*a(1)" | exec bc -l'
named gawk 'command -v gawk' gawk '{ n[$3 % 997] += length($0); gsub(/line/, "row") } END { print length(n) }' text text
named perl 'command -v perl' perl -e 'my %h; $h{$_ % 1000} .= $_ for 1..4000000; my $s = 0; $s += length for values %h; print "$s\n"'
named gs 'command -v gs' gs -q -dBATCH -dNOPAUSE -sDEVICE=ppmraw -r150 -sOutputFile=/dev/null page.ps
named pari 'command -v gp' bash -c 'echo "for(i=1,40,factor(2^(113+i%70)-1+2*i));quit" | exec gp -q -s 256M'
named openssl 'command -v openssl' openssl speed -seconds 1 -bytes 8192 sha256 aes-128-cbc rsa2048
named git 'test -x /usr/bin/git; repository' /usr/bin/git -C tree repack -adfq --depth=50 --window=250
named gnuplot 'command -v gnuplot' gnuplot plot.gp
# C with a separate debug file, and libraries in assembly and Fortran.
named python 'test -x /usr/bin/python3' /usr/bin/python3 "$fixtures/objects.py" 1500000
named numpy "/usr/bin/python3 -c 'import numpy'" env OPENBLAS_NUM_THREADS=1 /usr/bin/python3 -c '
import numpy as np
a = np.random.rand(700, 700)
for _ in range(4): np.linalg.svd(a); np.linalg.eigvals(a[:200, :200]); np.fft.fft(a); np.sort(a); np.exp(a); np.sin(a)'
# C++.
named povray 'command -v povray' povray "+I$fixtures/scene.pov" +W500 +H400 +A0.2 -D +Oscene.png +WT1
named minisat 'command -v minisat' minisat -verb=0 -cpu-lim=4 problem.cnf
named lammps 'command -v lmp' env OMP_NUM_THREADS=1 lmp -in "$fixtures/in.lj" -var steps 40 -log none
# Fortran.
named mopac 'command -v mopac' mopac chain.mop
# Rust.
named ripgrep 'command -v rg' rg -j1 -c '[0-9]+ (an|a) (rare|ordinary) line [0-9]*7 of.*(3|5|11)$|xyz[abc]+\w+' text text text text text text
# Go.
named hugo 'command -v hugo; site' env HUGO_ENVIRONMENT=production hugo --quiet -s site -d "$PWD/public"
named rclone 'command -v rclone' env HOME="$PWD" RCLONE_CONFIG=/dev/null rclone hashsum whirlpool text

[ -e rows ] || exit 0
python3 "$here/tests/bench.d/names.py" table ${BENCH_ALL:+--all} <rows
