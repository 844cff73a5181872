#!/bin/bash
# What the counted pass (--memory off) costs over programs of Debian's packages of every kind, each long enough for a ratio: wall time
# of the pass as a ratio to native, the least of BENCH_REPEAT (3) rounds, and the share that was not counted. What one of them needs
# and is not here is told. tests/programs compares what they do; here their output and status are compared, too.
set -u
. tests/bench.d/common.sh

RPROF=$(realpath "$RPROF")
fixtures=$PWD/fixtures/programs
cd "$work_dir" || exit 1
awk -f "$fixtures/lines.awk" -v n=1000000 >lines

# package NAME NEEDS COMMAND…
package() {
    local name=package/$1 needs=$2
    shift 2
    [[ $name =~ $ONLY ]] || return 0
    if bash -c "$needs" >needs.log 2>&1; then
        measured ratio "$name" "$@"
    else
        printf '%-20s SKIPPED: %s\n' "$name" "$(tail -1 needs.log)"
    fi
}

package bash true bash -c 'for ((i = 0; i < 150000; i++)); do ((s += i * i % 97)); done; echo $s; for i in {1..200}; do (echo $i); done | sort -n | tail -1'
package perl 'command -v perl' perl -e 'my %h; $h{$_ % 1000} .= $_ for 1..3000000; my $s = 0; $s += length for values %h; print "$s\n"'
package numpy "/usr/bin/python3 -c 'import numpy'" /usr/bin/python3 "$fixtures/algebra.py" 900
package xz_T2 'command -v xz' xz -T2 -3 --block-size=4MiB -c lines
package zstd_T2 'command -v zstd' zstd -q -T2 -12 -c lines
package sqlite 'command -v sqlite3' sqlite3 :memory: "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500000)
    SELECT i % 17, count(*), sum(i * 7 % 1001) FROM n GROUP BY 1 ORDER BY 3;"
package openssl 'command -v openssl' bash -c 'for c in aes-256-ctr chacha20 aes-256-cbc; do for i in 1 2 3 4; do
    openssl enc -$c -K 00 -iv 00 -in lines 2>/dev/null | openssl dgst -sha512 -r; done; done'
package ffmpeg_encode 'command -v ffmpeg' ffmpeg -v error -nostdin -f lavfi -i testsrc2=duration=4:size=640x360:rate=25 \
    -threads 2 -c:v libx264 -flags +bitexact -f h264 -
package ffmpeg_decode 'ffmpeg -y -v error -nostdin -f lavfi -i testsrc2=duration=8:size=1280x720:rate=25 -c:v libx264 -preset ultrafast video.mp4' \
    ffmpeg -v error -nostdin -threads 2 -i video.mp4 -f framemd5 -
package openblas "gcc -O2 $fixtures/product.c -o product -lopenblas" ./product 3000
package openmp "gcc -O2 -march=native -fopenmp $fixtures/openmp.c -o openmp -lm" bash -c 'for i in {1..20}; do ./openmp; done | sort -u'
package pthreads "gcc -O2 -pthread $fixtures/crew.c -o crew" ./crew 8 3000000
package static "gcc -O2 -static -pthread $fixtures/crew.c -o static" ./static 4 6000000
package timeout true timeout 100 gzip -6 -c lines
package nice true nice -n 5 gzip -6 -c lines
package env true env -i /bin/gzip -6 -c lines
package setsid true setsid -w gzip -6 -c lines
package go "GOCACHE=$PWD/cache HOME=$PWD go build -o squares $fixtures/squares.go" bash -c 'for i in 1 2 3 4 5; do ./squares; done'
package go_compiler "command -v go" env HOME="$PWD" bash -c "rm -rf c; GOCACHE=$PWD/c go build -trimpath -o again $fixtures/squares.go; sha256sum <again; rm -rf c"
package node 'command -v node' node "$fixtures/primes.js"
package java "javac -d . $fixtures/Primes.java" java -XX:-UsePerfData -cp . Primes

# Each rank has an rprof of its own: the whole command is compared.
ranks() {
    local mpirun=(mpirun --allow-run-as-root --oversubscribe --mca btl self,vader -np 2) native counted failed
    native=$(seconds native "${mpirun[@]}" ./ring)
    counted=$(seconds counted "${mpirun[@]}" "$RPROF" --quiet --passes counted --memory off -o ranks.out -- ./ring)
    failed=$(as_natively) && awk -v a="$native" -v b="$counted" \
        'BEGIN { printf "%-20s %7.3f s %7.3f  the whole command\n", "package/mpirun", a, b / a }' && return
    printf '%-20s FAILED: %s\n' package/mpirun "$failed" | tee -a "$results"
}
if [[ package/mpirun =~ $ONLY ]]; then
    if mpicc -O2 "$fixtures/ring.c" -o ring 2>needs.log; then ranks; else echo "package/mpirun       SKIPPED: $(tail -1 needs.log)"; fi
fi
! grep -q FAILED "$results" 2>/dev/null
