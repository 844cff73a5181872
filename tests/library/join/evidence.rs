//! A small program to make evidence of: names by address range, samples, blocks.

use rprof::join::resolver::{FunctionAt, InlinedAt, SourceLine};
use rprof::join::{Evidence, Resolver, join};
use rprof::profile::code::{CodeRef, ModuleInfo, ModuleKind};
use rprof::profile::evidence::ThreadInfo;
use rprof::profile::evidence::blocks::{BlockCount, DynamicCount};
use rprof::profile::evidence::counted::CountedEvidence;
use rprof::profile::evidence::timed::{Sample, TimedEvidence};
use rprof::profile::function::Function;
use rprof::profile::run::Warning;
use rprof::profile::{Machine, Profile, Run};

/// Functions of 0x100 bytes each, by number.
pub const NAMES: [&str; 6] = ["main", "work", "other", "gomp_team_barrier_wait_end", "pthread_mutex_lock", "fib"];

/// Names by [`NAMES`]; line = offset in the function; code at offset 0x40 and up is inlined from `helper`.
#[derive(Debug, Default)]
pub struct Names {
    /// Code of function 1, for passes without counts.
    pub code: Vec<u8>,
}

impl Resolver for Names {
    fn call_targets(&mut self, _: &ModuleInfo, _: &[u64]) {}

    fn function(&mut self, module: &ModuleInfo, offset: u64) -> FunctionAt {
        let start = offset & !0xff;
        FunctionAt {
            start,
            part_start: start,
            part_end: start + 0x100,
            name: NAMES[(offset >> 8) as usize].into(),
            named: true,
            module: module.file_name().into(),
        }
    }

    fn inlined(&mut self, _: &ModuleInfo, offset: u64) -> Vec<InlinedAt> {
        let inside = (0x40..0x80).contains(&(offset & 0xff));
        let helper = InlinedAt { name: "helper".into(), line: None };
        if inside { vec![helper] } else { Vec::new() }
    }

    fn line(&mut self, _: &ModuleInfo, offset: u64) -> Option<SourceLine> {
        Some(SourceLine { file: "app.c".into(), line: (offset & 0xff) as u32 + 1 })
    }

    fn code(&mut self, _: &ModuleInfo, start: u64, _: u64) -> Option<Vec<u8>> {
        (start == at(1).offset && !self.code.is_empty()).then(|| self.code.clone())
    }

    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }
}

/// The start of function `number`.
pub fn at(number: u64) -> CodeRef {
    CodeRef { module: 0, offset: number << 8 }
}

/// `code` moved by `bytes`.
pub fn plus(code: CodeRef, bytes: u64) -> CodeRef {
    CodeRef { offset: code.offset + bytes, ..code }
}

fn modules() -> Vec<ModuleInfo> {
    vec![ModuleInfo { kind: ModuleKind::File, path: "/bin/app".into(), build_id: None, pid: 1, bias: 0 }]
}

fn thread(ordinal: u32) -> ThreadInfo {
    ThreadInfo {
        ordinal,
        pid: 1,
        tid: 1 + ordinal,
        name: None,
        start_s: 0.0,
        end_s: 1.0,
        cpu_s: 1.0,
        allowed_cpus: Some(2),
    }
}

/// A sample of 1 ms with `stack`, leaf first.
pub fn sample(t_s: f64, thread: u32, stack: &[CodeRef]) -> Sample {
    Sample {
        t_s,
        weight_s: 1e-3,
        thread,
        stack: stack.to_vec(),
        kernel: false,
        off_cpu: false,
        cpu: None,
        blocked: None,
        path: 0,
    }
}

/// A timed pass of these samples.
pub fn timed(mut samples: Vec<Sample>) -> TimedEvidence {
    samples.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    let threads = samples.iter().map(|s| s.thread + 1).max().unwrap_or(1);
    TimedEvidence {
        source: "test".into(),
        wall_s: 1.0,
        cpu_s: samples.iter().map(|s| s.weight_s).sum(),
        frequency_hz: 1000.0,
        modules: modules(),
        threads: (0..threads).map(thread).collect(),
        samples,
        ..TimedEvidence::default()
    }
}

/// A block and how often each thread executed it.
pub fn block(at: CodeRef, code: &[u8], executions: &[u64]) -> BlockCount {
    let by_thread = executions.iter().enumerate().filter(|(_, n)| **n > 0);
    BlockCount {
        at,
        code: code.to_vec(),
        executions: by_thread.map(|(t, n)| (t as u32, *n)).collect(),
        calls: Vec::new(),
        dynamic: Vec::new(),
    }
}

/// `block` with the sum of a run-time count of the instruction at `offset`.
pub fn with_dynamic(mut block: BlockCount, offset: u32, sum: u64) -> BlockCount {
    block.dynamic.push(DynamicCount { offset, thread: 0, sum });
    block
}

/// A counted pass of these blocks.
pub fn counted(blocks: Vec<BlockCount>, threads: u32) -> CountedEvidence {
    CountedEvidence {
        source: "test".into(),
        wall_s: 1.0,
        cpu_s: 1.0,
        modules: modules(),
        threads: (0..threads).map(thread).collect(),
        blocks,
        ..CountedEvidence::default()
    }
}

/// Joins with [`Names`].
pub fn joined(timed: Option<&TimedEvidence>, counted: Option<&CountedEvidence>) -> Profile {
    joined_with(&mut Names::default(), timed, counted)
}

/// Joins with `names`.
pub fn joined_with(names: &mut Names, timed: Option<&TimedEvidence>, counted: Option<&CountedEvidence>) -> Profile {
    let evidence = Evidence { timed, counted, ..Evidence::default() };
    join(&evidence, Run::default(), Machine::default(), names, false)
}

/// The function called `name`.
pub fn function<'p>(profile: &'p Profile, name: &str) -> &'p Function {
    let names: Vec<&str> = profile.functions.iter().map(|f| f.name.as_str()).collect();
    let found = profile.functions.iter().find(|f| f.name == name);
    found.unwrap_or_else(|| panic!("no {name} among {names:?}"))
}

/// Fails unless `a` is `b` within `relative`.
#[track_caller]
pub fn close(a: impl Into<Option<f64>>, b: f64, relative: f64) {
    let a = a.into().expect("a figure");
    assert!((a - b).abs() <= relative * b.abs() + 1e-12, "{a} instead of {b}");
}
