//! Runs the built-in kernels without profiling them: `demo_kernels --timing --kernel peak`.

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    Ok(rprof::demo::run_kernels(&arguments)?)
}
