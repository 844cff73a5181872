//! Families of library functions: what a caller can do about each.

mod names;

/// A kind of work that libraries do for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Throwing and catching.
    Exceptions,
    /// Memory that is asked for and given back.
    Allocation,
    /// Walks over strings to find their ends or a byte.
    Scanning,
    /// Comparisons of strings, keys and objects with one another.
    Comparing,
    /// Text that goes through the streams of C, C++ and Rust.
    Streams,
    /// Locks that threads take and give back.
    Locks,
    /// Copies and fills.
    Copying,
    /// Numbers and text made of one another.
    Formatting,
    /// Hashes of keys.
    Hashing,
    /// The C library's random numbers, which take a lock.
    Random,
    /// Sorting through a comparison function.
    Sorting,
    /// Elementary functions.
    Elementary,
    /// Numbers that are rounded by a call.
    Rounding,
    /// An interpreter's loop.
    Interpreter,
    /// Finding objects that nobody uses any more.
    GarbageCollection,
    /// Matching of regular expressions.
    RegularExpressions,
    /// Compression and its reverse.
    Compression,
    /// An SQL engine inside the program.
    Database,
}

impl Family {
    /// What it does, in a sentence about the program.
    pub fn words(self) -> &'static str {
        match self {
            Family::Exceptions => "throwing and catching exceptions",
            Family::Allocation => "allocating and freeing memory",
            Family::Scanning => "walking over strings",
            Family::Comparing => "comparing values with one another",
            Family::Streams => "reading and writing through streams",
            Family::Locks => "taking and giving back locks",
            Family::Copying => "copying and filling memory",
            Family::Formatting => "making text of numbers, or numbers of text",
            Family::Hashing => "hashing keys",
            Family::Random => "the C library's random numbers",
            Family::Sorting => "sorting",
            Family::Elementary => "elementary functions",
            Family::Rounding => "calls that round one number each",
            Family::Interpreter => "the interpreter's loop",
            Family::GarbageCollection => "garbage collection",
            Family::RegularExpressions => "matching regular expressions",
            Family::Compression => "compression",
            Family::Database => "the SQL engine",
        }
    }

    /// The change that spares it, as the first part of a sentence.
    pub fn advice(self) -> &'static str {
        match self {
            Family::Exceptions => "Return error codes or optional values instead of throwing exceptions",
            Family::Allocation => {
                "Use memory again instead of allocating it for each use (reserve, a pool, a buffer that stays)"
            }
            Family::Scanning => {
                "Keep lengths and positions instead of walking over the string again (strlen out of the loop)"
            }
            Family::Comparing => {
                "Compare less: look values up in a hash table (a set, a dict) or in sorted order instead of one after another"
            }
            Family::Streams => {
                "Read and write text in large parts, through a buffer, and convert with from_chars and to_chars instead of streams"
            }
            Family::Locks => "Take the lock less often: several items at a time, or data of its own for each thread",
            Family::Copying => "Copy less: pass references, move instead of copying, or touch the data once",
            Family::Formatting => {
                "Convert fewer values, or with a faster routine (to_chars, from_chars), and in larger parts"
            }
            Family::Hashing => "Use a cheaper hash function for these keys, or look each key up once",
            Family::Random => {
                "Give each thread a generator of its own: that of the C library takes a lock for each number"
            }
            Family::Sorting => "Sort with a comparison that is inlined (std::sort), or sort less",
            Family::Elementary => "Use a vector math library (libmvec, SVML), a cheaper formula, or a table",
            Family::Rounding => {
                "Compile for this CPU (-march=native or -msse4.1 -mfma): such a call is then one instruction, inline, and its loop can be vectorised"
            }
            Family::Interpreter => {
                "Move the hot loop out of the interpreter: whole-array operations, a compiled module, or a JIT"
            }
            Family::GarbageCollection => {
                "Collect less often (gc.freeze, gc.set_threshold, a larger heap), or make fewer objects that live long"
            }
            Family::RegularExpressions => "Use a simpler pattern, or look for fixed text with string functions first",
            Family::Database => {
                "Let the statements touch fewer rows: an index, a narrower condition, prepared statements in one transaction"
            }
            Family::Compression => "Compress at a lower level, with a faster format (zstd, lz4), or on several threads",
        }
    }
}
