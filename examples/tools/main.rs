//! Tools of `tests/bench` and `tests/gpu.sh`, and those that show what a model makes of something: `cargo run --release --example tools -- NAME …`.

mod clock;
mod counters;
mod gpu_check;
mod gpu_cost;
mod machine;
mod machine_compare;
mod memory_ablation;
mod memory_curve;
mod memory_speed;
mod memory_table;
mod names;
mod replay_one;
mod sample;

use std::process::{ExitCode, Termination};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("clock") => run(clock::main),
        Some("counters") => run(counters::main),
        Some("gpu_check") => run(gpu_check::main),
        Some("gpu_cost") => run(gpu_cost::main),
        Some("machine") => run(machine::main),
        Some("machine_compare") => run(machine_compare::main),
        Some("memory_ablation") => run(memory_ablation::main),
        Some("memory_curve") => run(memory_curve::main),
        Some("memory_speed") => run(memory_speed::main),
        Some("memory_table") => run(memory_table::main),
        Some("names") => run(names::main),
        Some("replay_one") => run(replay_one::main),
        Some("sample") => run(sample::main),
        _ => {
            eprintln!("usage: tools NAME …, NAME being a module of examples/tools/");
            ExitCode::from(125)
        }
    }
}

fn run<T: Termination>(tool: fn() -> T) -> ExitCode {
    tool().report()
}
