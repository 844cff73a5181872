#!/bin/bash
# What rprof explains of real programs: each is profiled as a user would, and of the time in functions with at least 3 % of it the table
# says how much carries a class, and how much the core model gives within 25 %. BENCH_ONLY chooses rows by a regular expression,
# BENCH_PASSES the passes (both).
# Rows with `*` were chosen before the model ran on them, and are never used to adjust it. Packages that a row needs and that are
# missing are named.
#   apt-get install lammps gromacs povray flac lame glpk-utils minisat bzip2 zstd sqlite3 python3-scipy libfftw3-dev lua5.4 pari-gp x264 xz-utils openssl libopenblas-dev
set -u
. tests/bench.d/common.sh

RPROF=$(realpath "$RPROF")
here=$PWD
fixtures=$PWD/fixtures/real
KEEP=${BENCH_KEEP:-}
PASSES=${BENCH_PASSES:-both}
cd "$work_dir" || exit 1

# real NAME NEEDS COMMAND…: profiles the command; its profile goes to the table.
real() {
    local name=$1 needs=$2
    shift 2
    [[ $name =~ $ONLY ]] || return 0
    if ! bash -c "$needs" >needs.log 2>&1; then
        printf '%-16s SKIPPED: %s\n' "$name" "$(tail -1 needs.log)"
        return 0
    fi
    timeout 300 "$RPROF" --quiet --passes "$PASSES" -o "profiles/$name" -- "$@" >out.log 2>err.log </dev/null ||
        [ -e "profiles/$name/profile.json" ] || # a program may end with a status of its own
        { printf '%-16s FAILED: %s\n' "$name" "$(tail -1 err.log)"; return 0; }
}

mkdir -p profiles
awk 'BEGIN { for (i = 0; i < 2500000; i++) { x = (x * 1103515245 + 12345) % 2147483648; print x } }' >numbers
awk 'BEGIN { for (i = 0; i < 500000; i++) { x = (x * 1103515245 + 12345) % 2147483648; printf "%d %s line %d of the text, %d\n", i, x % 7 ? "an ordinary" : "a rare", x % 1000, i * 7 % 13 } }' >text
awk 'BEGIN { h = 9; p = h + 1; print "p cnf", p * h, p + h * p * (p - 1) / 2
    for (i = 0; i < p; i++) { for (j = 1; j <= h; j++) printf "%d ", i * h + j; print 0 }
    for (j = 1; j <= h; j++) for (i = 0; i < p; i++) for (k = i + 1; k < p; k++) print -(i * h + j), -(k * h + j), 0 }' >problem.cnf
awk 'BEGIN { n = 48; print "Maximize"; printf "obj: x1"; for (i = 2; i <= n; i++) printf " + %d x%d", 10 + i * 37 % 23, i; print ""; print "Subject To"; for (r = 1; r <= 18; r++) { printf "c%d: x1", r; for (i = 2; i <= n; i++) printf " + %d x%d", 1 + (i * r * 29) % 31, i; printf " <= %d\n", 150 + r * 5 } print "Binary"; for (i = 1; i <= n; i++) printf " x%d", i; print "\nEnd" }' >problem.lp
for n in $(seq 1 250); do
    echo "double work$n(const double *a, int n) { double s = $n; for (int i = 0; i < n; i++) if (a[i] > s) s += a[i] * $n;"
    echo "switch (n % 5) { case 0: s *= 2; break; case 1: s -= $n; break; case 2: return a[n / 2]; default: s /= n; } return s; }"
done >many.c
python3 - 2>/dev/null <<'PY' || true
import math, struct, wave
w = wave.open("tone.wav", "wb"); w.setnchannels(2); w.setsampwidth(2); w.setframerate(44100)
x, out = 1, bytearray()
for i in range(44100 * 25):
    x = (x * 1103515245 + 12345) % 2147483648
    v = int(9000 * math.sin(i * 0.03) + 5000 * math.sin(i * 0.0711) + x % 2000)
    out += struct.pack("<hh", v, v // 2)
w.writeframes(out)
PY
water() {
    cp "$fixtures/water.top" . && gmx solvate -cs spc216.gro -box 4 4 4 -o box.gro -p water.top &&
        gmx grompp -f "$fixtures/water.mdp" -c box.gro -p water.top -o water.tpr -maxwarn 5
}
export -f water
export fixtures
numpy="/usr/bin/python3 -c 'import numpy'"

real lammps 'command -v lmp' lmp -in "$fixtures/in.lj" -var steps 150 -log none
real gromacs 'command -v gmx; water' gmx mdrun -nt 1 -s water.tpr -deffnm run1
real gromacs.2* 'command -v gmx; water' gmx mdrun -ntmpi 1 -ntomp 2 -s water.tpr -deffnm run2
real numpy.sort "$numpy" /usr/bin/python3 "$fixtures/arrays.py" sort 20
real numpy.fft "$numpy" /usr/bin/python3 "$fixtures/arrays.py" fft 40
real numpy.exp "$numpy" /usr/bin/python3 "$fixtures/arrays.py" exp 200
real numpy.cumsum* "$numpy" /usr/bin/python3 "$fixtures/arrays.py" cumsum 300
real scipy.cg* "/usr/bin/python3 -c 'import scipy.sparse'" /usr/bin/python3 "$fixtures/sparse.py" 500 500
real python 'test -x /usr/bin/python3' /usr/bin/python3 "$fixtures/objects.py" 4000000
real lua 'command -v lua5.4' lua5.4 "$fixtures/nbody.lua" 3000000
real openblas "gcc -O2 $here/fixtures/programs/product.c -o product -lopenblas" env OPENBLAS_NUM_THREADS=1 ./product 2500
real openblas.2* "gcc -O2 $here/fixtures/programs/product.c -o product -lopenblas" env OPENBLAS_NUM_THREADS=2 ./product 3000
real fftw3d* "gcc -O2 $fixtures/transform.c -o transform -lfftw3 -lm" ./transform 96 50
real gzip 'command -v gzip' gzip -6 -c numbers
real bzip2* 'command -v bzip2' bzip2 -9 -c text
real xz* 'command -v xz' xz -T1 -3 -c text
real zstd 'command -v zstd' zstd -q -T1 -12 -c text
real sort 'command -v sort' sort --parallel=1 -n numbers
real gcc* 'command -v gcc' gcc -O2 -S -o many.s many.c
real sqlite 'command -v sqlite3' sqlite3 :memory: "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000000)
    SELECT i % 17, count(*), sum(i * 7 % 1001) FROM n GROUP BY 1 ORDER BY 3;"
real minisat* 'command -v minisat' bash -c 'exec minisat -verb=0 -cpu-lim=60 problem.cnf >/dev/null || true'
real glpsol* 'command -v glpsol' glpsol --lp problem.lp --tmlim 20
real flac 'command -v flac' flac -s -f -8 -e -p -o tone.flac tone.wav
real lame* 'command -v lame' lame --quiet -h tone.wav tone.mp3
real povray 'command -v povray' povray "+I$fixtures/scene.pov" +W1600 +H1200 +A0.2 -D +Oscene.png +WT1
real openssl 'command -v openssl' openssl speed -seconds 2 -bytes 8192 sha256
real pari* 'command -v gp' bash -c 'echo "for(i=1,150,factor(2^(113+i%70)-1+2*i));quit" | gp -q -s 256M'

python3 "$here/tests/bench.d/real.py" profiles
[ -z "$KEEP" ] || cp -r profiles "$KEEP"
