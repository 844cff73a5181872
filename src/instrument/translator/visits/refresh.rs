//! Changes of a process's executable memory since the last visit, which nobody saw.

use crate::instrument::translator::code_cache::stubs::ARENA_PATH;
use crate::instrument::translator::program::address_space::AddressSpace;
use crate::instrument::translator::translate::text_ranges::{TextRange, Treatment, treatment};
use crate::tracee::maps::Mapping;

/// The executable memory among `maps`, without rprof's own.
pub(super) fn text_of(maps: &[Mapping]) -> Vec<TextRange> {
    let executable = maps.iter().filter(|m| m.executable && m.path != "[vsyscall]" && !is_ours(m));
    executable.map(|m| TextRange { start: m.start, end: m.end, treatment: treatment(m), located: None }).collect()
}

/// Whether a mapping is one of rprof's.
pub(super) fn is_ours(mapping: &Mapping) -> bool {
    let is_nameless = mapping.path.contains("/#") && mapping.path.ends_with(" (deleted)");
    mapping.shared && (mapping.path.starts_with(ARENA_PATH) || is_nameless)
}

impl AddressSpace {
    /// Whether its code cache is mapped there: it was visited before, and has executed no other program since.
    pub(super) fn is_furnished(&self, maps: &[Mapping]) -> bool {
        let (contexts, _) = self.image.contexts.borrow().mapping();
        let cache = self.image.cache.borrow();
        let mut all = cache.mappings().map(|(at, _)| at).chain([contexts]);
        all.all(|at| maps.iter().any(|m| m.start <= at && at < m.end && is_ours(m)))
    }

    /// Takes over its text as it is now. Translations of text that is gone or may have changed are dropped.
    pub(super) fn refresh_text(&mut self, maps: &[Mapping]) {
        let now = text_of(maps);
        let same = |a: &TextRange, b: &TextRange| (a.start, a.end, a.treatment) == (b.start, b.end, b.treatment);
        let gone: Vec<TextRange> = self.text.iter().filter(|t| !now.iter().any(|n| same(t, n))).copied().collect();
        for range in gone {
            self.forget_text(range.start, range.end);
        }
        for range in now {
            let is_new = !self.text.iter().any(|t| same(t, &range));
            // A file's own pages stay as they are.
            let may_have_changed = maps.iter().any(|m| m.start <= range.start && range.start < m.end && !m.is_file());
            if is_new || may_have_changed && range.treatment == Treatment::Translate && self.has_changed(&range) {
                self.forget_text(range.start, range.end);
                self.learn_text(range.start, range.end, range.treatment, self.image.is_shared());
            }
        }
        self.pages.borrow_mut().forget();
    }

    fn has_changed(&self, range: &TextRange) -> bool {
        self.image.cache.borrow().foreign_block(&self.memory, range.start, range.end)
    }
}
