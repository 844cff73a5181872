//! Prints the parameters of this host's core, in cycles, instructions a cycle, or counts:
//! `cargo run --release --example core_parameters`.

use std::process::ExitCode;
use std::time::Instant;

use rprof::machine::harness::priority::Priority;
use rprof::machine::host::features::Features;
use rprof::machine::host::limits::Limits;
use rprof::machine::host::topology::{Identity, Topology};
use rprof::machine::suite::{campaign::Campaign, core};
use rprof::machine::{Effort, MachineError};
use rprof::profile::Ceiling;

fn measured() -> Result<(Vec<Ceiling>, f64), MachineError> {
    let _ahead = Priority::raise();
    let limits = Limits::read();
    let (topology, _) = Topology::detect_of(Identity::ask(), "/sys".as_ref(), &limits.cpus);
    let mut campaign = Campaign::new(Features::detect(), topology, 1, limits.memory, Effort::Full)?;
    let start = Instant::now();
    core::measure(&mut campaign)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok((campaign.finish().0, seconds))
}

fn main() -> ExitCode {
    let (ceilings, seconds) = match measured() {
        Ok(measured) => measured,
        Err(error) => {
            eprintln!("core_parameters: {error}");
            return ExitCode::from(125);
        }
    };
    for c in &ceilings {
        let value = match (c.value, c.clock_hz, c.unit.as_str()) {
            (Some(value), Some(hz), "s") => format!("{:10.3} cycles", value * hz),
            (Some(value), Some(hz), "instr/s") => format!("{:10.3} a cycle", value / hz),
            (Some(value), ..) if c.id.ends_with(".ports") => format!("{:#018b}", value as u32),
            (Some(value), ..) => format!("{value:10.0}"),
            (None, ..) => "         -".into(),
        };
        let spread = c.spread.map_or(String::new(), |spread| format!("{:.1} %", 100.0 * spread));
        println!("{:28} {value:18} {spread:8} {}", c.id, c.reason.as_deref().unwrap_or(""));
    }
    println!("{} parameters, {seconds:.3} s", ceilings.len());
    ExitCode::SUCCESS
}
