//! Why a run that repeats another one ends before the program does.

use std::fmt;

/// Why a call may not be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It changes a file that was there before the first run.
    Existed,
    /// It changes a file of unknown age.
    UnknownAge,
    /// It changes a file that is too large, or not readable, to be put back.
    CannotBeKept,
    /// It changes a file of a kind that cannot be put back.
    OtherKind,
    /// It changes files that rprof sees under other names.
    OtherRoot,
    /// It writes to a device, or speaks to a terminal.
    Device,
    /// It waits for the other end of a pipe, which is gone.
    NoOtherEnd,
    /// It changes the kernel's settings.
    OfKernel,
    /// Others receive what it sends.
    Received,
    /// rprof does not follow its effects.
    NotFollowed,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Existed => "it existed before",
            Why::UnknownAge => "its file system does not say when it was made",
            Why::CannotBeKept => "it is too large to be put back",
            Why::OtherKind => "it is no regular file, folder or link",
            Why::OtherRoot => "the program sees other files under these names",
            Why::Device => "it is a device",
            Why::NoOtherEnd => "its other end is gone",
            Why::OfKernel => "it changes the kernel's settings",
            Why::Received => "others receive it",
            Why::NotFollowed => "its effects are not followed",
        })
    }
}

/// Why a repeated run ended before the program did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unrepeatable {
    /// A call with an effect that would come twice.
    Call {
        /// Its name.
        name: &'static str,
        /// The object, as far as rprof knows it: a path, an address, a process.
        object: String,
        /// Why it may not be repeated.
        why: Why,
    },
    /// From here on a part of the program would run without rprof seeing its calls.
    Unseen(String),
}

impl Unrepeatable {
    /// Whether it would change a file that was there before the first run.
    pub fn is_of_old_file(&self) -> bool {
        matches!(self, Unrepeatable::Call { why: Why::Existed, .. })
    }
}

impl fmt::Display for Unrepeatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unrepeatable::Call { name, object, why } if object.is_empty() => write!(f, "{name} ({why})"),
            Unrepeatable::Call { name, object, why } => write!(f, "{name} of {object} ({why})"),
            Unrepeatable::Unseen(why) => write!(f, "running code whose calls rprof cannot see ({why})"),
        }
    }
}
