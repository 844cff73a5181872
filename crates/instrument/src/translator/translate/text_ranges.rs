//! The program's executable memory as the program sees it, and the treatment of each piece.

use rprof_tracee::address::Address;
use rprof_tracee::maps::Mapping;
use rprof_tracee::modules::Located;

/// The treatment of executable memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Translated and counted; the kernel's mapping is not executable.
    Translate,
    /// Executed natively and not counted: it might change unseen, or does all the time.
    Native(Untranslated),
}

/// Why executable memory is not translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Untranslated {
    /// It is anonymous and writable, or nothing has been written to it yet.
    Writable,
    /// The program made it writable and executable again time after time.
    Rewritten,
    /// It may be written at another address: it is shared, a memfd, or a file that is open for writing.
    Shared,
    /// It is part of a file, in a writable segment.
    WritableFile,
    /// The stack.
    Stack,
    /// The program may write it through `/proc/PID/mem`.
    ThroughProc,
    /// rprof has not seen it become executable.
    Unseen,
}

impl Untranslated {
    /// (the executed code, advice)
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Untranslated::Writable => ("code made at run time, in memory that stays writable,", WITHOUT_JIT),
            Untranslated::Rewritten => ("code made at run time and rewritten time after time", WITHOUT_JIT),
            Untranslated::Shared => (
                "code in memory that may be written at another address (shared, a memfd, or a file open for writing)",
                "map the code once, not also where it is written, or from a file that nobody has open for writing",
            ),
            Untranslated::WritableFile => (
                "code of a file that is writable and executable (RWX)",
                "let no text be writable: link without -N, --omagic and -z execstack, and make none writable by mprotect",
            ),
            Untranslated::Stack => ("code on the stack", "let the program keep no code on its stack"),
            Untranslated::ThroughProc => {
                ("code made at run time, by a program that may write it through /proc/PID/mem,", WITHOUT_JIT)
            }
            Untranslated::Unseen => ("code that became executable unseen", WITHOUT_JIT),
        }
    }
}

/// Advice against code made at run time.
pub const WITHOUT_JIT: &str = "run the program with its compiler at run time switched off, where it has such a switch";

/// A piece of executable memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextRange {
    /// First address.
    pub start: Address,
    /// One past the last.
    pub end: Address,
    /// Its treatment.
    pub treatment: Treatment,
    /// Its module, once it was looked up.
    pub located: Option<Located>,
}

impl TextRange {
    /// Whether it is translated and overlaps `from..to`.
    pub fn is_translated_in(&self, from: Address, to: Address) -> bool {
        self.treatment == Treatment::Translate && self.start < to && self.end > from
    }
}

/// How a mapping is treated that the program, or the kernel as it executed the program, made executable.
pub fn treatment(mapping: &Mapping) -> Treatment {
    Treatment::Native(match () {
        () if mapping.shared => Untranslated::Shared,
        () if !mapping.writable => return Treatment::Translate,
        () if mapping.path == "[stack]" => Untranslated::Stack,
        () if mapping.is_file() || is_memory_file(mapping) => Untranslated::WritableFile,
        () => Untranslated::Writable,
    })
}

/// Whether a mapping is of a file in memory (`memfd_create`).
pub fn is_memory_file(mapping: &Mapping) -> bool {
    mapping.path.starts_with("/memfd:")
}

/// Whether a mapping has no file behind it.
pub fn is_anonymous(mapping: &Mapping) -> bool {
    mapping.inode == 0 && mapping.path != "[vdso]"
}

/// The piece that holds `at`, whatever its treatment.
pub fn find_piece(text: &[TextRange], at: Address) -> Option<&TextRange> {
    let i = text.partition_point(|t| t.end <= at);
    text.get(i).filter(|t| t.start <= at)
}

/// Why the text that holds `at` is not translated.
pub fn find_untranslated(text: &[TextRange], at: Address) -> Option<Untranslated> {
    match find_piece(text, at)?.treatment {
        Treatment::Native(why) => Some(why),
        Treatment::Translate => None,
    }
}

/// The translatable text that holds `at`.
pub fn find_text(text: &[TextRange], at: Address) -> Option<&TextRange> {
    find_piece(text, at).filter(|t| t.treatment == Treatment::Translate)
}

/// End of the translatable text that holds `at`, or an address at least `enough` bytes on: adjacent pieces count as one.
pub fn text_until(text: &[TextRange], at: Address, enough: u64) -> Option<Address> {
    let first = text.partition_point(|t| t.end <= at);
    let mut end = None;
    for t in &text[first..] {
        if t.treatment != Treatment::Translate || t.start > end.unwrap_or(at) {
            break;
        }
        end = Some(t.end);
        if t.end - at >= enough {
            break;
        }
    }
    end
}

/// Takes `from..to` out of `text`; returns whether anything translatable was there.
pub fn remove_text(text: &mut Vec<TextRange>, from: Address, to: Address) -> bool {
    let mut translated = false;
    let mut left = Vec::with_capacity(text.len() + 1);
    for t in text.drain(..) {
        if t.end <= from || t.start >= to {
            left.push(t);
            continue;
        }
        translated |= t.treatment == Treatment::Translate;
        if t.start < from {
            left.push(TextRange { end: from, ..t });
        }
        if t.end > to {
            left.push(TextRange { start: to, ..t });
        }
    }
    *text = left;
    translated
}

/// Adds a piece, which replaces any others in its range.
pub fn add_text(text: &mut Vec<TextRange>, range: TextRange) {
    remove_text(text, range.start, range.end);
    let i = text.partition_point(|t| t.start < range.start);
    text.insert(i, range);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> TextRange {
        TextRange { start: Address::new(start), end: Address::new(end), treatment: Treatment::Translate, located: None }
    }

    #[test]
    fn a_hole_splits_and_a_new_piece_replaces() {
        let mut text = vec![range(0, 10), range(20, 30)];
        assert!(remove_text(&mut text, Address::new(3), Address::new(22)));
        assert_eq!(text, [range(0, 3), range(22, 30)]);
        add_text(&mut text, range(2, 23));
        assert_eq!(text, [range(0, 2), range(2, 23), range(23, 30)]);
        assert!(find_text(&text, Address::new(22)).is_some());
        assert!(find_text(&text, Address::new(30)).is_none());
        assert!(!remove_text(&mut text, Address::new(40), Address::new(50)));
    }

    #[test]
    fn text_goes_on_in_the_next_piece() {
        let native = TextRange { treatment: Treatment::Native(Untranslated::Stack), ..range(30, 40) };
        let text = [range(2, 23), range(23, 30), native, range(50, 60)];
        let until = |at: u64, enough| text_until(&text, Address::new(at), enough).map(Address::get);
        assert_eq!((until(5, 100), until(5, 18), until(29, 1)), (Some(30), Some(23), Some(30)));
        let why = |at: u64| find_untranslated(&text, Address::new(at));
        assert_eq!((why(29), why(30), why(40)), (None, Some(Untranslated::Stack), None));
        assert_eq!((until(1, 100), until(30, 1), until(55, 100)), (None, None, Some(60)));
    }
}
