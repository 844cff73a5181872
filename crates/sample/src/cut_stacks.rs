//! How many stacks were cut off: the callers of a frame that is larger than the copy of a stack's top are not known.

use rprof_profile::run::Warning;

/// From this share of the samples on, a warning is given.
const WORTH_TELLING: f64 = 0.02;

/// Counts of stacks.
#[derive(Debug, Default)]
pub(super) struct CutStacks {
    all: u64,
    cut: u64,
    /// Bytes of the largest copy.
    copied: usize,
}

impl CutStacks {
    /// Notes a stack of which `copied` bytes were seen.
    pub fn note(&mut self, is_cut: bool, copied: usize) {
        self.all += 1;
        self.cut += u64::from(is_cut);
        self.copied = self.copied.max(copied);
    }

    /// The warning, if there is cause for one.
    pub fn warning(&self) -> Option<Warning> {
        let share = self.cut as f64 / self.all.max(1) as f64;
        (share >= WORTH_TELLING).then(|| {
            Warning::new(
                "callers-cut",
                format!(
                    "the callers of {:.0} % of the samples are not known: frames are larger than the {} KiB of stack that a sample copies",
                    100.0 * share,
                    self.copied.div_ceil(1024)
                ),
                "the flame graph has these samples without their outer callers, whose inclusive times lack them; self times are right",
                "build with -fno-omit-frame-pointer: frame pointers lead beyond the copy",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_told_unless_it_is_small() {
        let mut stacks = CutStacks::default();
        (0..99).for_each(|_| stacks.note(false, 16384));
        stacks.note(true, 16384);
        assert!(stacks.warning().is_none());
        (0..25).for_each(|_| stacks.note(true, 16000));
        let text = stacks.warning().unwrap().text;
        assert!(text.contains("of 21 % of the samples") && text.contains("the 16 KiB"), "{text}");
    }
}
