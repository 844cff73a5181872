//! Large programs, run-time compilers and message passing: `tests/run --full`.

use crate::harness::{Program, Workplace, same_in_part};
use crate::programs;

programs! {
    full;
    patience 500;

    gcc_large needs "command -v gcc" prepare "awk -f $FIXTURES/functions.awk -v n=2000 >many.c"
        command "gcc -O2 -c ../many.c -o many.o"

    numpy_large needs "/usr/bin/python3 -c 'import numpy'" prepare ""
        command "/usr/bin/python3 $FIXTURES/algebra.py 900"

    xz_large needs "command -v xz" prepare "awk -f $FIXTURES/lines.awk -v n=1000000 >lines"
        command "bash -c 'xz -T2 --block-size=4MiB -c ../lines >lines.xz && xz -T2 -dc lines.xz | cksum'"

    openblas_large needs "echo 'int main(){}' | gcc -x c - -lopenblas -o /dev/null"
        prepare "gcc -O2 $FIXTURES/product.c -o product -lopenblas"
        command "../product 2000"

    ffmpeg_decode needs "command -v ffmpeg"
        prepare "ffmpeg -v error -f lavfi -i testsrc2=duration=4:size=640x360:rate=25 -c:v libx264 -preset fast video.mp4"
        command "ffmpeg -v error -nostdin -threads 2 -i ../video.mp4 -f framemd5 -"

    ffmpeg_encode needs "command -v ffmpeg" prepare ""
        command "ffmpeg -v error -nostdin -f lavfi -i testsrc2=duration=1:size=320x180:rate=25 -threads 1 -c:v libx264 -f h264 out.h264"

    go needs "command -v go" prepare "export GOCACHE=$PWD/cache HOME=$PWD; go build -o squares $FIXTURES/squares.go"
        command "../squares"

    go_compiler needs "command -v go" prepare "mkdir cache"
        command "env GOCACHE=$PWD/../cache-$(basename $PWD) HOME=$PWD go build -trimpath -o squares $FIXTURES/squares.go"
}

fn heavy(name: &'static str, needs: &'static str, prepare: &'static str, command: &'static str) -> Program {
    Program { name, needs, prepare, command, patience_s: 500 }
}

/// A compiler at run time: as natively, and the report says that something was not counted.
fn compiles_at_run_time(program: Program) {
    let Some(compared) = same_in_part(program) else { return };
    assert!(compared.uncounted_share() > 0.0, "{}: code made at run time was executed", program.name);
    let warnings = compared.profile["run"]["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|w| w["code"] == "native-code"), "{}: {warnings:?}", program.name);
}

/// Code that LLVM makes once and that is not written again is counted like any other.
#[test]
#[ignore = "large packages; tests/run --full"]
fn numba() {
    let needs = "/usr/bin/python3 -c 'import numba'";
    let Some(compared) = same_in_part(heavy("numba", needs, "", "/usr/bin/python3 $FIXTURES/kernels.py")) else {
        return;
    };
    let functions = compared.profile["functions"].as_array().unwrap();
    let made = functions.iter().filter(|f| f["module"] == "[anon]");
    let flops: u64 = made.filter_map(|f| f["flops"]["total"].as_u64()).sum();
    assert_eq!(flops, 600_000_000, "numba");
    assert!(compared.uncounted_share() < 0.01, "{}", compared.uncounted_share());
}

#[test]
#[ignore = "large packages; tests/run --full"]
fn node() {
    compiles_at_run_time(heavy("node", "command -v node", "", "node $FIXTURES/primes.js"));
}

#[test]
#[ignore = "large packages; tests/run --full"]
fn luajit() {
    compiles_at_run_time(heavy("luajit", "command -v luajit", "", "luajit $FIXTURES/closures.lua"));
}

#[test]
#[ignore = "large packages; tests/run --full"]
fn java() {
    let prepare = "javac -d . $FIXTURES/Primes.java";
    compiles_at_run_time(heavy("java", "command -v javac", prepare, "java -XX:-UsePerfData -cp .. Primes"));
}

#[test]
#[ignore = "large packages; tests/run --full"]
fn ranks_have_their_own_folders() {
    let needs = "command -v mpicc && command -v mpirun";
    let program = heavy("mpi", needs, "mpicc -O2 $FIXTURES/ring.c -o ring", "mpirun");
    let Some(place) = Workplace::prepare(program) else { return };
    let mpirun = "exec mpirun --allow-run-as-root --oversubscribe --mca btl self,vader -np 2";
    // The reports of two ranks may be mixed.
    place.compare(&format!("{mpirun} ../ring"), &format!("{mpirun} {} ../ring", place.counting()), false);
    for rank in ["rank-0", "rank-1"] {
        let profile = place.profile(&format!("{rank}/profile.json"));
        assert_eq!(profile["run"]["passes"][0]["kind"], "counted", "{rank}");
    }
}
