//! Changes of a process's executable memory since the last visit, which were not observed.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use crate::translator::code_cache::stubs::ARENA_PATH;
use crate::translator::code_cache::syscall_table::stop_at_advice;
use crate::translator::program::address_space::{AddressSpace, open_for_writing, pages};
use crate::translator::translate::text_ranges::{TextRange, Treatment, Untranslated, treatment};
use rprof_tracee::address::Address;
use rprof_tracee::mapped_file::metadata;
use rprof_tracee::maps::Mapping;
use rprof_tracee::path_text;
use rprof_tracee::private_pages::private_pages;

const PAGE: u64 = 4096;
/// Longer than a tick of the clock of file systems: a file may be written again without another time.
const TICK: Duration = Duration::from_millis(20);

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
        self.mappings().all(|(at, _)| maps.iter().any(|m| m.start <= at && at < m.end && is_ours(m)))
    }

    /// Takes over its text as it is now, and drops translations of text that is gone or has changed. `false` if others share these: then
    /// it needs translations of its own.
    pub(super) fn refresh_text(&mut self, maps: &[Mapping]) -> bool {
        let mut now = text_of(maps);
        let written = open_for_writing(self.pid);
        for range in &mut now {
            let path = maps.iter().find(|m| m.contains(range.start)).map(|m| path_text::decode(&m.path));
            if range.treatment == Treatment::Translate && path.is_some_and(|path| written.contains(&path)) {
                range.treatment = Treatment::Native(Untranslated::Shared);
            }
        }
        let same = |a: &TextRange, b: &TextRange| (a.start, a.end, a.treatment) == (b.start, b.end, b.treatment);
        let gone: Vec<TextRange> = self.text.iter().filter(|t| !now.iter().any(|n| same(t, n))).copied().collect();
        for range in gone {
            self.forget_text(range.start, range.end);
        }
        for range in now {
            if !self.text.iter().any(|t| same(t, &range)) {
                self.forget_text(range.start, range.end);
                self.learn_text(range.start, range.end, range.treatment, self.image.is_shared());
            }
            if range.treatment != Treatment::Translate {
                continue;
            }
            let mapping = maps.iter().find(|m| m.contains(range.start));
            let is_file = mapping.is_some_and(|m| m.is_file() && !self.was_written(m));
            for (from, to) in self.changeable(&range, is_file) {
                if self.image.is_shared() && self.image.cache.borrow().foreign_block(&self.memory, from, to) {
                    return false;
                }
                self.compare_text(from, to, false);
            }
        }
        self.watch_writes(&written);
        self.pages.borrow_mut().forget();
        true
    }

    /// Whether the file of a mapping may have been written since the last visit. Also true if no path leads to it any more.
    fn was_written(&mut self, mapping: &Mapping) -> bool {
        let written = metadata(self.pid, &mapping.path).and_then(|data| data.modified().ok());
        let Some(written) = written else { return true };
        let (known, looked) =
            self.files.insert(mapping.start, (written, SystemTime::now())).unwrap_or((written, written + TICK));
        known != written || looked.duration_since(written).is_ok_and(|age| age < TICK)
    }

    /// The parts of a piece of text that may be other than at the last visit. A file's own pages stay as they are.
    fn changeable(&mut self, range: &TextRange, is_file: bool) -> Vec<(Address, Address)> {
        let private = private_pages(self.pid, range.start..range.end).filter(|_| is_file);
        let Some(private) = private else { return vec![(range.start, range.end)] };
        let was_private = self.private.insert(range.start, private.clone()).unwrap_or_default();
        let written = self.written.range(pages(range.start, range.end)).copied();
        if !private.is_empty() {
            stop_at_advice(&self.image.cache.borrow().tables);
        }
        let all: BTreeSet<u64> = private.into_iter().chain(was_private).chain(written).collect();
        all.into_iter().map(|page| (Address::new(page * PAGE), Address::new((page + 1) * PAGE))).collect()
    }
}
