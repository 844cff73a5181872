//! Where a cause is.

use rprof_profile::Frame;
use rprof_profile::function::Function;

/// Endings of names by which compilers tell parts and copies of a function apart.
const PARTS: [&str; 6] = ["._omp_fn", ".constprop", ".isra", ".part", ".cold", ".lto_priv"];

/// The name as the source has it: `f` for `f._omp_fn.0`.
fn in_source(name: &str) -> String {
    let end = PARTS.iter().filter_map(|part| name.find(part)).min();
    name[..end.unwrap_or(name.len())].to_owned()
}

/// A function, and its line where that is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// As the source has it.
    pub function: String,
    /// As the profile has it; `None` for what is no function of the profile.
    pub symbol: Option<String>,
    pub module: String,
    pub file: Option<String>,
    pub line: Option<u32>,
}

impl Place {
    /// The hottest loop of `f`, else its hottest line, else its start.
    pub fn of(f: &Function) -> Place {
        let cpu = |f: &&Function| f.cpu_s.unwrap_or(0.0);
        let hottest_loop =
            f.loops.iter().filter(|l| cpu(l) > 0.0 && l.line.is_some()).max_by(|a, b| cpu(a).total_cmp(&cpu(b)));
        let (file, line) = match hottest_loop {
            Some(inner) => (inner.file.clone().or_else(|| f.file.clone()), inner.line),
            None => (f.file.clone(), f.line),
        };
        Place { function: in_source(&f.name), symbol: Some(f.name.clone()), module: f.module.clone(), file, line }
    }

    /// Of a frame of a stack: the line is that of the call.
    pub fn of_frame(frame: &Frame) -> Place {
        Place {
            function: in_source(&frame.name),
            symbol: Some(frame.name.clone()),
            module: frame.module.clone(),
            file: frame.file.clone(),
            line: frame.line,
        }
    }

    /// The main program of the script that an interpreter runs; `None`: it is a part of the command.
    pub fn of_script(script: Option<&str>, interpreter: &str) -> Place {
        let function = "main".to_owned();
        Place { function, symbol: None, module: interpreter.to_owned(), file: script.map(str::to_owned), line: None }
    }

    /// Adds `seconds` to those of `place` in `sums`: places in one function are one.
    pub fn add(sums: &mut Vec<(Place, f64)>, place: Place, seconds: f64) {
        match sums.iter_mut().find(|(known, _)| known.function == place.function) {
            Some((_, sum)) => *sum += seconds,
            None => sums.push((place, seconds)),
        }
    }

    /// The place with most of `sums`.
    pub fn most(sums: &[(Place, f64)]) -> Option<&Place> {
        sums.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
    }

    /// `x.c:12`; empty without a file.
    pub fn at(&self) -> String {
        let file = self.file.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
        match (file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) if self.symbol.is_none() => file.to_owned(),
            _ => String::new(),
        }
    }
}
