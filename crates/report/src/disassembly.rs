//! The hot loops of a function, if a profile has their instructions.

use rprof_profile::Function;
use rprof_profile::disassembly::Disassembly;

use super::name;
use super::number::si;

/// Explains the time beside an instruction.
pub const SKID: &str = "Time is that of samples at the instruction; part of it may belong to the instruction before.";

/// A number of executions: small ones to the last.
pub fn executions(n: u64) -> String {
    if n < 100_000 { n.to_string() } else { si(n as f64, "").trim().to_owned() }
}

/// A loop with its instructions.
#[derive(Debug, Clone, Copy)]
pub struct HotLoop<'f> {
    /// The loop.
    pub of: &'f Function,
    /// Its instructions.
    pub code: &'f Disassembly,
}

impl HotLoop<'_> {
    /// `triad:12 at app+0x1139`
    pub fn title(&self) -> String {
        let at = self.code.start().map_or(String::new(), |start| format!(" at {}+{start:#x}", self.of.module));
        name::printable(&format!("{}{at}", name::shorten(&self.of.name, 80)))
    }

    /// Whether its executions were extended from windows.
    pub fn is_estimated(&self) -> bool {
        self.of.source.get("instructions").is_some_and(|source| source.how == "estimated")
    }
}

/// The loops of `f` that have a disassembly, inner ones included, the hottest first.
pub fn hot_loops(f: &Function) -> Vec<HotLoop<'_>> {
    let mut found: Vec<HotLoop> =
        all(f).into_iter().filter_map(|of| Some(HotLoop { of, code: of.disassembly.as_ref()? })).collect();
    let heat = |l: &HotLoop| (l.of.cpu_s.unwrap_or(0.0), l.of.instructions.unwrap_or(0));
    found.sort_by(|a, b| heat(b).0.total_cmp(&heat(a).0).then(heat(b).1.cmp(&heat(a).1)));
    found
}

/// Why a hot loop of `f` has no disassembly.
pub fn missing(f: &Function) -> Option<&str> {
    all(f).into_iter().find_map(|of| of.source.get("disassembly")?.reason.as_deref())
}

fn all(f: &Function) -> Vec<&Function> {
    f.loops.iter().flat_map(|inner| std::iter::once(inner).chain(all(inner))).collect()
}
