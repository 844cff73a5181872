//! Threads that spin in libraries without symbols wait; they do not work.

use std::path::Path;
use std::process::Command;

use crate::cli::{Sandbox, function, status, stderr};

/// Many short regions in which one thread has a third of the other's work: a third of both threads' time is waiting.
const UNEVEN: &str = "#include <omp.h>
#include <stdio.h>
static double out[16];
__attribute__((noinline)) double piece(long n)
{
    double x = n & 7;
    for (long i = 0; i < n; i++)
        x = x * 0.999 + 1e-3;
    return x;
}
int main(void)
{
    for (int r = 0; r < 1000; r++) {
#pragma omp parallel num_threads(2)
        {
            int t = omp_get_thread_num();
            out[t * 8] += piece(t ? 100000 : 300000);
        }
    }
    printf(\"%f\\n\", out[0] + out[8]);
}
";

#[test]
fn spins_of_openmp_run_times_are_no_work() {
    for (compiler, library) in [("gcc", "libgomp"), ("clang", "libomp")] {
        let sandbox = Sandbox::new();
        let source = sandbox.file("uneven.c", UNEVEN, 0o644);
        let program = sandbox.path().join("uneven");
        let mut command = Command::new(compiler);
        let built = command.args(["-O2", "-fopenmp", "-o"]).arg(&program).arg(Path::new(&source)).output();
        if !built.is_ok_and(|output| output.status.success()) {
            println!("SKIPPED: packages: {compiler} with OpenMP is not installed");
            continue;
        }
        openmp_is_no_work(&sandbox, &["--passes", "both"], library);
        // Samples alone have to be many to show the usual way through a loop.
        openmp_is_no_work(&sandbox, &["--passes", "timed", "-F", "4000"], library);
    }
}

fn openmp_is_no_work(sandbox: &Sandbox, passes: &[&str], library: &str) {
    let output = sandbox.run(["--memory", "off"].iter().chain(passes).chain(&["--", "./uneven"]));
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let functions = profile["functions"].as_array().unwrap();
    let of_library = functions.iter().filter(|f| f["module"].as_str().unwrap().starts_with(library));
    let work_s: f64 = of_library.filter_map(|f| f["cpu_s"].as_f64()).sum();
    let all_s: f64 = functions.iter().filter_map(|f| f["cpu_s"].as_f64()).sum();
    assert!(function(&profile, "piece")["cpu_s"].as_f64().unwrap() > 0.1);
    assert!(work_s < 0.03 * all_s, "{library}, {passes:?}: {work_s} s of {all_s} s are said to be work");
    assert!(!stderr(&output).contains(&format!("share the work of {library}")), "{}", stderr(&output));
}

/// Products of two threads, and much work of one between them, in which OpenBLAS's other thread looks for the next product.
const PRODUCTS: &str = "#include <cblas.h>
#include <stdio.h>
static double a[90000], b[90000], c[90000];
__attribute__((noinline)) double serial(long n)
{
    double x = n & 7;
    for (long i = 0; i < n; i++)
        x = x * 0.999 + 1e-3;
    return x;
}
int main(void)
{
    double s = 0;
    for (int i = 0; i < 90000; i++)
        a[i] = b[i] = i % 7;
    for (int r = 0; r < 20; r++) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 300, 300, 300, 1, a, 300, b, 300, 0, c, 300);
        s += serial(20000000);
    }
    printf(\"%f %f\\n\", s, c[5]);
}
";

#[test]
fn idle_threads_that_yield_and_read_the_clock_are_no_work() {
    let sandbox = Sandbox::new();
    sandbox.file("products.c", PRODUCTS, 0o644);
    let built = sandbox.shell("cc -O2 -o products products.c -lopenblas").output().unwrap();
    assert!(built.status.success(), "libopenblas-dev is needed: tests/run installs it: {}", stderr(&built));
    let mut command = sandbox.rprof(["--memory", "off", "--passes", "both", "--", "./products"]);
    let output = command.env("OPENBLAS_NUM_THREADS", "2").output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let functions = profile["functions"].as_array().unwrap();
    let nameless = functions.iter().filter(|f| f["name"].as_str().unwrap().starts_with("libopenblas"));
    let work_s: f64 = nameless.filter_map(|f| f["cpu_s"].as_f64()).sum();
    let serial_s = function(&profile, "serial")["cpu_s"].as_f64().unwrap();
    assert!(work_s < 0.02 * serial_s, "{work_s} s beside {serial_s} s");
}

/// One thread polls, by a function or by the clock, until the other has worked for a while.
const POLLS: &str = "#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
static volatile int done;
static double result;
__attribute__((noinline)) double worker(long n)
{
    double x = n & 7;
    for (long i = 0; i < n; i++)
        x = x * 0.999 + 1e-3;
    return x;
}
static void *work(void *n)
{
    result = worker((long)n);
    done = 1;
    return NULL;
}
__attribute__((noinline)) int is_done(void) { return done; }
__attribute__((noinline)) double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
__attribute__((noinline)) void poll_by_function(void)
{
    while (!is_done())
        ;
}
__attribute__((noinline)) void poll_the_clock(void)
{
    double begin = clock_s();
    while (clock_s() - begin < 0.8)
        ;
}
__attribute__((noinline)) void poll_seconds(void)
{
    time_t begin = time(NULL);
    while (time(NULL) < begin + 2)
        ;
}
int main(int argc, char **argv)
{
    (void)argc;
    pthread_t thread;
    pthread_create(&thread, NULL, work, (void *)600000000L);
    if (!strcmp(argv[1], \"function\"))
        poll_by_function();
    else if (!strcmp(argv[1], \"clock\"))
        poll_the_clock();
    else
        poll_seconds();
    pthread_join(thread, NULL);
    printf(\"%f\\n\", result);
}
";

#[test]
fn polls_by_functions_that_look_and_of_the_clock_are_no_work() {
    let sandbox = Sandbox::new();
    sandbox.file("polls.c", POLLS, 0o644);
    assert!(sandbox.shell("cc -O2 -pthread -o polls polls.c").status().unwrap().success());
    for way in ["function", "clock", "seconds"] {
        for passes in [&["--passes", "timed"][..], &["--passes", "both"]] {
            let output = sandbox.run(["--memory", "off"].iter().chain(passes).chain(&["--", "./polls", way]));
            assert_eq!(status(&output), 0, "{}", stderr(&output));
            let profile = sandbox.profile("rprof.out");
            let seconds = |figure: &str, works: bool| -> f64 {
                let functions = profile["functions"].as_array().unwrap().iter();
                let of_side = functions.filter(|f| (f["name"] == "worker") == works);
                of_side.filter_map(|f| f[figure].as_f64()).sum()
            };
            let (polled_s, waited_s) = (seconds("cpu_s", false), seconds("waiting_s", false));
            assert!(waited_s > 0.1 && polled_s < 0.1 * waited_s, "{way}, {passes:?}: {polled_s} {waited_s}");
            assert!(seconds("cpu_s", true) > 0.1 && seconds("waiting_s", true) == 0.0, "{way}, {passes:?}");
        }
    }
}
