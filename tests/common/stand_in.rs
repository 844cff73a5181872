//! Event tables and sysfs trees in which the kernel's software, tracepoint and breakpoint events replace hardware ones.

#![allow(dead_code)] // each test uses a part

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

/// `PERF_TYPE_*`: the type of a PMU.
pub const SOFTWARE: u32 = 1;
pub const TRACEPOINT: u32 = 2;
pub const RAW: u32 = 4;
pub const BREAKPOINT: u32 = 5;

/// `HW_BREAKPOINT_X`: the instruction at the address was executed.
pub const EXECUTED: u64 = 4;
/// `PERF_COUNT_SW_PAGE_FAULTS`.
pub const PAGE_FAULTS: u64 = 2;

/// Exit status of a program that SIGTRAP ended.
const TRAPPED: i32 = 128 + libc::SIGTRAP;

/// Output of `run`, repeated while SIGTRAP ends it. Some hypervisors lose the cause of a debug exception if several threads have
/// breakpoints. The kernel then ends the program by SIGTRAP (docs/conventions.md, Regions and work), and the run shows nothing.
pub fn untrapped(mut run: impl FnMut() -> Output) -> Output {
    const RUNS: usize = 10;
    let is_trapped = |output: &Output| output.status.code() == Some(TRAPPED);
    let mut output = run();
    for _ in 1..RUNS {
        if !is_trapped(&output) {
            break;
        }
        output = run();
    }
    output
}

/// A core event: on `pmu` (its kind is stated with [`Folder::pmu`]).
#[derive(Clone, Copy)]
pub struct Event<'a> {
    pub name: &'a str,
    pub role: &'a str,
    pub config: u64,
    pub address: u64,
    pub weight: f64,
}

/// A folder for `--counters-from`.
pub struct Folder {
    pub path: PathBuf,
}

impl Folder {
    pub fn new(parent: &Path) -> Folder {
        let path = parent.join("counters");
        fs::create_dir_all(path.join("sysfs/bus/event_source/devices")).unwrap();
        Folder { path }
    }

    /// A PMU of the kernel's type `kind`; `cpus`: the CPUs that have it (hybrid), `cpumask`: one CPU a socket (uncore).
    pub fn pmu(&self, name: &str, kind: u32, cpus: Option<&str>, cpumask: Option<&str>) -> &Folder {
        let pmu = self.path.join("sysfs/bus/event_source/devices").join(name);
        fs::create_dir_all(pmu.join("format")).unwrap();
        fs::write(pmu.join("type"), format!("{kind}\n")).unwrap();
        fs::write(pmu.join("format/event"), "config:0-63\n").unwrap();
        fs::write(pmu.join("format/offcore_rsp"), "config1:0-63\n").unwrap();
        for (file, text) in [("cpus", cpus), ("cpumask", cpumask)] {
            if let Some(text) = text {
                fs::write(pmu.join(file), format!("{text}\n")).unwrap();
            }
        }
        self
    }

    /// A table of core events on `pmu`.
    pub fn table(&self, file: &str, pmu: &str, events: &[Event]) -> &Folder {
        let mut text = format!(
            "[cpu]\nname = 'stand-in {pmu}'\nvendor = 'none'\nfamily = 0\nmodels = [0]\npmu = ['{pmu}']\n\
             general_counters = 4\nfixed_counters = true\n"
        );
        for e in events {
            text += &format!(
                "[[event]]\nname = '{}'\nrole = '{}'\nevent = {}\numask = 0\nconfig1 = {}\nweight = {:?}\n\
                 headline = true\nconfidence = 'inference'\nsource = 'test'\n",
                e.name, e.role, e.config, e.address, e.weight
            );
        }
        fs::write(self.path.join(file), text).unwrap();
        self
    }

    /// Adds an uncore event to a table.
    pub fn uncore(&self, file: &str, pmu: &str, config: u64, address: u64, bytes: f64) -> &Folder {
        let text = fs::read_to_string(self.path.join(file)).unwrap();
        let event = format!(
            "[[uncore]]\nname = 'stand_in.reads'\nrole = 'dram_read_lines'\npmu = '{pmu}'\nconfig = {config}\n\
             config1 = {address}\nbytes = {bytes:?}\nconfidence = 'inference'\nsource = 'test'\n"
        );
        fs::write(self.path.join(file), text + &event).unwrap();
        self
    }
}

/// Compiles `fixtures/counters/NAME.c` to an address of its own, so that no other program runs code there.
pub fn compile(folder: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/counters/{name}.c"));
    let program = folder.join(name);
    static COMPILED: AtomicU64 = AtomicU64::new(0);
    let number = u64::from(std::process::id()) * 16 + COMPILED.fetch_add(1, Ordering::Relaxed);
    let base = 0x1000_0000 + ((number & 0xfff) << 16);
    let status = Command::new("cc")
        .args(["-O1", "-g", "-no-pie", "-fno-pie", "-ffp-contract=off", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .arg(format!("-Wl,-Ttext-segment={base:#x}"))
        .status();
    assert!(status.expect("cc is needed: tests/run installs it").success());
    program
}

/// The address of a function in a program.
pub fn address(program: &Path, function: &str) -> u64 {
    let output = Command::new("nm").arg(program).output().expect("binutils are installed");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|l| l.ends_with(&format!(" {function}"))).expect("the function has a symbol");
    u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap()
}
