//! Names of addresses in files, as the join gets them: `names <PLACES`, where each line has a path and an ELF virtual address in
//! hexadecimal.
//!
//! Prints `START NAME` for each line, `START -` where the file names nothing there. `tests/bench.d/names.sh` compares them with those
//! of other tools.

use std::io::{BufRead, Write};

use anyhow::Context;
use rprof::join::Resolver;
use rprof::profile::code::{ModuleInfo, ModuleKind};
use rprof::symbols::Symbols;

pub fn main() -> anyhow::Result<()> {
    let mut symbols = Symbols::default();
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (path, address) = line.rsplit_once(' ').with_context(|| format!("no address in {line:?}"))?;
        let offset = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
        let kind = ModuleKind::File;
        let module = ModuleInfo { kind, path: path.to_owned(), build_id: None, pid: 0, bias: 0 };
        let found = symbols.function(&module, offset);
        writeln!(output, "{:#x} {}", found.start, if found.named { &*found.name } else { "-" })?;
    }
    symbols.warnings().iter().for_each(|warning| eprintln!("{}", warning.text));
    Ok(())
}
