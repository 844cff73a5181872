//! Copies of programs that are built here.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::unistd::Pid;

use rprof_profile::code::{CodeRef, ModuleInfo, ModuleKind};
use rprof_profile::evidence::ThreadInfo;
use rprof_profile::evidence::timed::{Sample, TimedEvidence};
use rprof_profile::trial::Change;
use rprof_tracee::launch::{Program, Streams, spawn_gated};
use rprof_tracee::proc_status::{children_of, threads_of};
use rprof_tracee::wait::wait_for_status;

use crate::copy::Came;
use crate::drive::Driver;
use crate::error::{CopyError, Ended};
use crate::halt::Halted;
use crate::make;
use crate::rounds::{Cost, Original};

const SLEEPING: Duration = Duration::from_millis(150);

fn build(folder: &Path, source: &str) -> PathBuf {
    let (file, program) = (folder.join("x.c"), folder.join("x"));
    fs::write(&file, source).unwrap();
    let status = Command::new("cc").args(["-O2", "-pthread", "-w", "-o"]).arg(&program).arg(&file).status();
    assert!(status.expect("cc is needed: tests/run installs it").success());
    program
}

/// A running program with its output in a file.
struct Guest {
    pid: Pid,
    folder: tempfile::TempDir,
    has_ended: Cell<bool>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        if !self.has_ended.get() {
            // SAFETY: a signal to our own child.
            unsafe { libc::kill(self.pid.as_raw(), libc::SIGKILL) };
            wait_for_status(self.pid);
        }
    }
}

impl Guest {
    fn start(source: &str) -> Guest {
        let folder = tempfile::tempdir().unwrap();
        let path = build(folder.path(), source);
        let output = fs::File::create(folder.path().join("out")).unwrap();
        let streams = Streams { stdout: Some(output.into()), ..Streams::default() };
        let argv = vec!["x".into(), folder.path().into()];
        let pid = spawn_gated(&Program { path, argv }, streams).unwrap().release().unwrap();
        std::thread::sleep(SLEEPING);
        Guest { pid, folder, has_ended: Cell::new(false) }
    }

    fn original(&self) -> Original {
        let memory = rprof_tracee::memory::Memory::open(self.pid).unwrap();
        let site = make::call_site(self.pid, &memory).unwrap();
        Original { pid: self.pid, site, held: false, cost: Cost::default() }
    }

    /// Its output and status, after it was asked to end by SIGTERM.
    fn end(self) -> (String, i32) {
        // SAFETY: a signal to our own child.
        unsafe { libc::kill(self.pid.as_raw(), libc::SIGTERM) };
        let status = wait_for_status(self.pid).unwrap();
        self.has_ended.set(true);
        (fs::read_to_string(self.folder.path().join("out")).unwrap(), libc::WEXITSTATUS(status))
    }
}

const COMPUTES: &str = r#"
#include <signal.h>
#include <stdio.h>
static volatile int done;
static void stop(int s) { done = 1; }
__attribute__((noinline)) double f(double x, long n) { for (long i = 0; i < n; i++) x = x * 0.999999 + 1e-7 * i; return x; }
int main(void)
{
    double x = 1;
    signal(SIGTERM, stop);
    while (!done) x = f(x, 200000);
    printf("%d\n", x > 0);
    return 7;
}
"#;

#[test]
fn a_copy_runs_and_leaves_nothing() {
    let guest = Guest::start(COMPUTES);
    let mut original = guest.original();
    for _ in 0..20 {
        let mut copy = original.copy().unwrap();
        assert!(matches!(copy.run(Duration::from_millis(5)), Ok(Came::Late)));
    }
    assert!(original.cost.stopped_s < 0.5, "{:?}", original.cost);
    assert_eq!(original.cost.copies.len(), 20);
    let left = original.cost.copies.iter().filter(|pid| fs::exists(format!("/proc/{pid}")).unwrap()).count();
    assert_eq!(left, 0);
    assert!(children_of(guest.pid).is_empty());
    let (output, status) = guest.end();
    assert_eq!((output.trim(), status), ("1", 7));
}

#[test]
fn all_threads_are_made_again_and_blocked_ones_stay_blocked() {
    let guest = Guest::start(
        r#"
#include <pthread.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile int go;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *count(void *arg) { long *n = arg; while (!go) ++*(volatile long *)n; return 0; }
static int fds[2];
static void *waits(void *arg) { struct pollfd p = {fds[0], POLLIN, 0}; int n = poll(&p, 1, 30000); printf("poll %d\n", n); return 0; }
static void *locks(void *arg) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); return 0; }
int main(void)
{
    static long n[2][16];
    pthread_t t[4];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pipe(fds);
    pthread_mutex_lock(&lock);
    pthread_create(&t[0], 0, count, n[0]);
    pthread_create(&t[1], 0, count, n[1]);
    pthread_create(&t[2], 0, waits, 0);
    pthread_create(&t[3], 0, locks, 0);
    int got;
    sigwait(&set, &got);
    write(fds[1], "", 1);
    go = 1;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    printf("%d\n", n[0][0] > 0 && n[1][0] > 0);
    return 0;
}
"#,
    );
    let mut original = guest.original();
    for _ in 0..10 {
        let mut copy = original.copy().unwrap();
        assert_eq!(copy.threads().len(), 5);
        let came = copy.run(Duration::from_millis(20));
        assert!(matches!(came, Ok(Came::Late)), "{came:?}");
        let threads = threads_of(copy.pid());
        assert_eq!(threads.len(), 5, "{threads:?} {:?}", copy);
    }
    assert_eq!(guest.end(), ("poll 1\n1\n".into(), 0));
}

#[test]
fn effects_are_left_out_or_end_a_copy() {
    let guest = Guest::start(
        r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile int done;
static void stop(int s) { done = 1; }
int main(int c, char **v)
{
    char name[4096];
    snprintf(name, sizeof name, "%s/data", v[1]);
    int f = open(name, O_RDWR | O_CREAT, 0600);
    char block[4096];
    memset(block, 'a', sizeof block);
    for (int i = 0; i < 64; i++) write(f, block, sizeof block);
    lseek(f, 0, SEEK_SET);
    volatile long *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    signal(SIGTERM, stop);
    long reads = 0, bytes = 0;
    do {
        int n = read(f, block, 1000);
        if (n == 0) lseek(f, 0, SEEK_SET);
        bytes += n; reads++; ++*shared;
        for (int i = 0; i < n; i++) if (block[i] != 'a') { printf("wrong\n"); return 1; }
        if (write(2, "", 0) != 0) return 2;
    } while (!done);
    // Each pass over the file has 263 reads: 262 of 1000 bytes, one of 144, and one of none.
    long passes = bytes / (64 * 4096), rest = bytes % (64 * 4096);
    printf("%d %d\n", *shared == reads, lseek(f, 0, SEEK_CUR) == rest);
    return 0;
}
"#,
    );
    let mut original = guest.original();
    let mut reached = 0;
    for _ in 0..20 {
        let mut copy = original.copy().unwrap();
        match copy.run(Duration::from_millis(20)) {
            Ok(Came::Late) => reached += 1,
            came => panic!("{came:?}"),
        }
    }
    assert_eq!(reached, 20);
    assert_eq!(guest.end(), ("1 1\n".into(), 0));
}

#[test]
fn a_copy_ends_before_it_signals_others() {
    let guest = Guest::start(
        r#"
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static volatile int signals, done;
static void count(int s) { signals++; }
static void stop(int s) { done = 1; }
int main(void)
{
    signal(SIGUSR1, count);
    struct timespec t = {0, 1000000};
    int sent = 0;
    signal(SIGTERM, stop);
    for (; !done; sent++) { kill(getpid(), SIGUSR1); nanosleep(&t, 0); }
    printf("%d\n", signals == sent);
    return 0;
}
"#,
    );
    let mut original = guest.original();
    let mut ended = 0;
    for _ in 0..20 {
        match original.copy().and_then(|mut copy| copy.run(Duration::from_millis(50))) {
            Err(CopyError::Ended(Ended::Call(libc::SYS_kill))) => ended += 1,
            Err(CopyError::Moment(_)) => {}
            came => panic!("{came:?}"),
        }
    }
    assert!(ended > 10, "{ended}");
    assert_eq!(guest.end(), ("1\n".into(), 0));
}

/// Samples of a process, taken by stopping it.
fn sampled(pid: Pid, number: usize) -> TimedEvidence {
    let module = ModuleInfo {
        kind: ModuleKind::Anonymous,
        path: "[anon]".into(),
        build_id: None,
        pid: pid.as_raw() as u32,
        bias: 0,
    };
    let mut timed = TimedEvidence { modules: vec![module], ..TimedEvidence::default() };
    for _ in 0..number {
        let halted = Halted::stop(pid).unwrap();
        for state in halted.states.iter().filter(|state| !state.in_call) {
            let tid = state.tid.as_raw() as u32;
            let known = timed.threads.iter().position(|thread| thread.tid == tid);
            let thread = known.unwrap_or_else(|| {
                timed.threads.push(ThreadInfo {
                    ordinal: 0,
                    pid: pid.as_raw() as u32,
                    tid,
                    name: None,
                    start_s: 0.0,
                    end_s: 1.0,
                    cpu_s: 1.0,
                    allowed_cpus: None,
                });
                timed.threads.len() - 1
            });
            timed.samples.push(Sample {
                t_s: 0.0,
                weight_s: 1e-3,
                thread: thread as u32,
                stack: vec![CodeRef { module: 0, offset: state.registers.rip }],
                kernel: false,
                off_cpu: false,
                cpu: None,
                blocked: None,
                path: 0,
            });
        }
        drop(halted);
        std::thread::sleep(Duration::from_micros(500));
    }
    timed
}

#[test]
fn a_division_left_out_is_a_gain_and_a_copy_without_change_is_none() {
    let guest = Guest::start(
        r#"
#include <stdio.h>
__attribute__((noinline)) double f(double x, long n) { for (long i = 0; i < n; i++) x = 1.5 / x + 0.3; return x; }
int main(void)
{
    double x = 1;
    static volatile double sum;
    for (;;) sum = x += f(x, 200000);
}
"#,
    );
    let timed = sampled(guest.pid, 40);
    let mut driver = Driver::new(guest.pid).unwrap();
    let changes = [Change::FlushDenormals, Change::NoDivisions];
    driver.try_loops(&timed, &|_| true, Some(&changes)).unwrap();
    let found = driver.loops.first().unwrap();
    eprintln!("{found:#?} {:?}", driver.cost());
    let unchanged = found.unchanged.expect("copies are timed");
    assert!((0.9..1.1).contains(&unchanged.value), "{unchanged:?}");
    let divided = found.tried.iter().find(|tried| tried.change == Change::NoDivisions).unwrap();
    let ratio = divided.result.as_ref().unwrap();
    assert!(ratio.most < 0.95, "{ratio:?}");
    let flushed = found.tried[0].result.as_ref().unwrap();
    assert!(flushed.least < 1.05 && flushed.most > 0.9, "there are no denormal numbers: {flushed:?}");
}

/// For experiments: `RPROF_COPIES_OF="program arguments" cargo test … -- --ignored --nocapture experiment`.
#[test]
#[ignore = "for experiments"]
fn experiment() {
    let Some(command) = std::env::var_os("RPROF_COPIES_OF") else { return };
    let command = command.into_string().unwrap();
    let argv: Vec<std::ffi::OsString> = command.split(' ').map(Into::into).collect();
    let path = PathBuf::from(&argv[0]);
    let pid = spawn_gated(&Program { path, argv }, Streams::default()).unwrap().release().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let timed = sampled(pid, 100);
    let mut driver = Driver::new(pid).unwrap();
    let chosen = std::env::var("RPROF_TRY").ok();
    let chosen: Option<Vec<Change>> = chosen.map(|names| {
        names.split(',').filter_map(|name| Change::ALL.iter().copied().find(|c| c.name() == name)).collect()
    });
    let result = driver.try_loops(&timed, &|cost| cost.seconds() < 10.0, chosen.as_deref());
    eprintln!("{result:?}");
    for found in &driver.loops {
        eprintln!(
            "at {:x} share {:.2} unchanged {:?} {:?} {:?}",
            found.at.1, found.share, found.unchanged, found.unchanged_pairs, found.reason
        );
        for tried in &found.tried {
            eprintln!("   {:?} {:?} {:?}", tried.change, tried.result, tried.pairs);
        }
    }
    eprintln!("{:?}", driver.cost());
    drop(driver);
    // SAFETY: a signal to our own child.
    unsafe { libc::kill(pid.as_raw(), libc::SIGKILL) };
    wait_for_status(pid);
}
