#!/bin/bash
# What a user gets who types `rprof -- PROGRAM`: twenty programs of Debian's packages, each BENCH_REPEAT (3) times with default passes. Of the
# time in functions with 3 % of it: how much carries a class, how much the core model gives within 25 %; whether the hottest function's class and
# the first advice are the same each time; what the first run and all of it cost over native runs. BENCH_ONLY chooses rows by a regular expression,
# BENCH_OPTIONS adds options (--once).
# Rows with `*` are never used to adjust anything. Packages that a row needs and that are missing are named.
#   apt-get install lammps gromacs r-base-core python3-numpy octave lua5.4 ffmpeg povray zstd sqlite3 pari-gp ruby perl hmmer bzip2 minisat
#     glpk-utils openssl bc imagemagick
set -u
. tests/bench.d/common.sh

RPROF=$(realpath "$RPROF")
here=$PWD
fixtures=$PWD/fixtures/real
cd "$work_dir" || exit 1

mkdir -p profiles
awk 'BEGIN { for (i = 0; i < 900000; i++) { x = (x * 1103515245 + 12345) % 2147483648; printf "%d %s line %d of the text, %d\n", i, x % 7 ? "an ordinary" : "a rare", x % 1000, i * 7 % 13 } }' >text
awk 'BEGIN { h = 9; p = h + 1; print "p cnf", p * h, p + h * p * (p - 1) / 2
    for (i = 0; i < p; i++) { for (j = 1; j <= h; j++) printf "%d ", i * h + j; print 0 }
    for (j = 1; j <= h; j++) for (i = 0; i < p; i++) for (k = i + 1; k < p; k++) print -(i * h + j), -(k * h + j), 0 }' >problem.cnf
awk 'BEGIN { n = 48; print "Maximize"; printf "obj: x1"; for (i = 2; i <= n; i++) printf " + %d x%d", 10 + i * 37 % 23, i; print ""; print "Subject To"; for (r = 1; r <= 18; r++) { printf "c%d: x1", r; for (i = 2; i <= n; i++) printf " + %d x%d", 1 + (i * r * 29) % 31, i; printf " <= %d\n", 150 + r * 5 } print "Binary"; for (i = 1; i <= n; i++) printf " x%d", i; print "\nEnd" }' >problem.lp
awk 'BEGIN { split("ACDEFGHIKLMNPQRSTVWY", a, ""); for (s = 0; s < 12000; s++) { print ">s" s; line = ""; for (i = 0; i < 300; i++) { x = (x * 1103515245 + 12345) % 2147483648; line = line a[int(x / 4096) % 20 + 1] } print line } }' >proteins.fa
awk 'NR <= 12 { print }' proteins.fa | awk '/^>/ { print; next } { print substr($0, 1, 200) }' | awk '/^>/ { n++; print ">q" n; next } { print }' >family.fa
sed -n '/^#include <stdio.h>$/,/^}$/p' "$here/README.md" >mm.c && gcc -O2 -g mm.c -o mm
water() {
    cp "$fixtures/water.top" . && gmx solvate -cs spc216.gro -box 4 4 4 -o box.gro -p water.top &&
        gmx grompp -f "$fixtures/water.mdp" -c box.gro -p water.top -o water.tpr -maxwarn 5
}
export -f water
export fixtures

# program NAME NEEDS COMMAND…: a row of the list that default.py reads.
program() {
    local name=$1 needs=$2
    shift 2
    [[ $name =~ $ONLY ]] || return 0
    if bash -c "$needs" >needs.log 2>&1; then
        printf '%s\0' "$name" "$#" "$@" >>programs
    else
        printf '%-12s SKIPPED: %s\n' "$name" "$(tail -1 needs.log)"
    fi
}

: >programs
program mm true ./mm
program lammps 'command -v lmp' lmp -in "$fixtures/in.lj" -var steps 150
program gromacs 'command -v gmx; water' gmx mdrun -nt 1 -s water.tpr -deffnm run1
program R 'command -v Rscript' Rscript -e 'set.seed(1); x <- matrix(rnorm(4e6), 2000); s <- 0; for (i in 1:2000) s <- s + sum(sort(x[i, ])); for (i in 1:3000000) s <- s + i %% 7; print(s)'
program numpy "/usr/bin/python3 -c 'import numpy'" /usr/bin/python3 "$fixtures/arrays.py" sort 20
program octave 'command -v octave-cli' octave-cli --quiet --eval 'a = rand(900); s = 0; for i = 1:12, s = s + sum((a * a)(:)); end; for i = 1:1500000, s = s + mod(i, 7); end; printf("%d\n", s > 0);'
program lua 'command -v lua5.4' lua5.4 "$fixtures/nbody.lua" 3000000
program ffmpeg 'command -v ffmpeg' ffmpeg -v error -nostdin -f lavfi -i testsrc2=duration=6:size=1280x720:rate=25 -threads 2 -c:v libx264 -f h264 -y video.h264
program povray 'command -v povray' povray "+I$fixtures/scene.pov" +W1600 +H1200 +A0.2 -D +Oscene.png +WT1
program zstd 'command -v zstd' zstd -q -T1 -15 -f -k text -o text.zst
program 'sqlite*' 'command -v sqlite3' sqlite3 :memory: "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000000)
    SELECT i % 17, count(*), sum(i * 7 % 1001) FROM n GROUP BY 1 ORDER BY 3;"
program 'python*' 'test -x /usr/bin/python3' /usr/bin/python3 "$fixtures/objects.py" 4000000
program 'pari*' 'command -v gp' bash -c 'echo "for(i=1,60,factor(2^(113+i%70)-1+2*i));quit" | gp -q -s 256M'
program 'ruby*' 'command -v ruby' ruby -e 'h = Hash.new(0); 6_000_000.times { |i| h[i % 1000] += i.to_s.size }; puts h.values.sum'
program 'perl*' 'command -v perl' perl -e 'my $s = 0; for (1 .. 2) { my %h; $h{$_ % 1000} .= $_ for 1 .. 9000000; $s += length for values %h } print "$s\n"'
program 'hmmer*' 'command -v phmmer' phmmer --cpu 1 -o hits.txt family.fa proteins.fa
program 'bzip2*' 'command -v bzip2' bzip2 -9 -k -f text
program 'minisat*' 'command -v minisat' bash -c 'exec minisat -verb=0 -cpu-lim=60 problem.cnf >/dev/null || true'
program 'glpsol*' 'command -v glpsol' glpsol --lp problem.lp --tmlim 20
program 'bc*' 'command -v bc' bash -c 'echo "scale=6000; 4*a(1)" | bc -l'

# shellcheck disable=SC2086
python3 "$here/tests/bench.d/default.py" "$RPROF" "$REPEAT" ${BENCH_OPTIONS:-} <programs
