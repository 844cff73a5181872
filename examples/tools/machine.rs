//! Prints this host's ceilings: `cargo run --release --example tools -- machine [--quick] [--refresh] [--json]`.
//!
//! `--elements` prints `id threads GHz value` with streams in elements of eight bytes a second, for comparison with tools
//! that count bytes by another convention (tests/bench.d/machine.sh).

use std::process::ExitCode;
use std::time::Instant;

use rprof::machine::kernels::x86_64::stream::Stream;
use rprof::machine::{Effort, Progress, Request, load_or_measure};
use rprof::profile::Machine;
use rprof::profile::machine::Quality;
use rprof::profile::run::Warning;

struct Lines {
    start: Instant,
    quiet: bool,
}

impl Progress for Lines {
    fn group(&mut self, group: &str, done: usize, total: usize) {
        if !self.quiet {
            eprintln!("{:6.3} s  [{done}/{total}] {group}", self.start.elapsed().as_secs_f64());
        }
    }

    fn warn(&mut self, warning: Warning) {
        eprintln!("warning: {}: {}; {}", warning.text, warning.effect, warning.hint);
    }
}

fn elements(machine: &Machine) {
    for ceiling in &machine.ceilings {
        let Some(value) = ceiling.value else { continue };
        let parts: Vec<&str> = ceiling.id.split('.').collect();
        let bytes = match parts[..] {
            [level, kind] | [level, kind, "nt"] if ["l1", "l2", "l3", "dram"].contains(&level) => Stream::ALL
                .iter()
                .find(|s| s.name() == kind)
                .map_or(1, |s| s.bytes_per_element(level != "l1", parts.len() == 3)),
            _ => 1,
        };
        // The clock that a look between two stretches of work sees.
        let ghz = ceiling.reference_clock_hz().unwrap_or(0.0) / 1e9;
        println!("{} {} {ghz:.3} {:.6e}", ceiling.id, ceiling.threads, value / bytes as f64);
    }
}

pub fn main() -> ExitCode {
    let options: Vec<String> = std::env::args().skip(2).collect();
    let has = |name: &str| options.iter().any(|o| o == name);
    let mut request = Request::new(if has("--quick") { Effort::Quick } else { Effort::Full });
    request.refresh = has("--refresh");
    let mut progress = Lines { start: Instant::now(), quiet: has("--json") || has("--elements") };
    let machine = match load_or_measure(&request, &mut progress) {
        Ok(machine) => machine,
        Err(error) => {
            eprintln!("machine: {error}");
            return ExitCode::from(125);
        }
    };
    if has("--json") {
        match serde_json::to_string_pretty(&machine) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("machine: {error}");
                return ExitCode::from(125);
            }
        }
        return ExitCode::SUCCESS;
    }
    if has("--elements") {
        elements(&machine);
        return ExitCode::SUCCESS;
    }
    println!("{}, {} CPUs, {:.3} s", machine.cpu, machine.cores, progress.start.elapsed().as_secs_f64());
    for c in &machine.ceilings {
        let value = match c.value {
            Some(v) => format!("{v:12.4e} {}", c.unit),
            None => format!("not measured: {}", c.reason.as_deref().unwrap_or("?")),
        };
        let cycle = match (c.value, c.clock_hz) {
            (Some(v), Some(hz)) if c.unit == "s" => format!("{:8.2} cyc", v * hz),
            (Some(v), Some(hz)) => format!("{:8.3} /cyc {:.3} GHz", v / hz / f64::from(c.threads), hz / 1e9),
            _ => String::new(),
        };
        let spread = c.spread.map_or(String::new(), |s| format!("{:.1} %", 100.0 * s));
        println!(
            "{:32} {:2}  {value}  {cycle}  {spread} {}",
            c.id,
            c.threads,
            if c.quality == Quality::Noisy { "NOISY" } else { "" }
        );
    }
    for s in &machine.sweeps {
        println!("{} ({} threads, {} over {}):", s.id, s.threads, s.y_unit, s.x_unit);
        for (x, y) in &s.points {
            println!("  {x:12.0} {y:.4e}");
        }
    }
    ExitCode::SUCCESS
}
