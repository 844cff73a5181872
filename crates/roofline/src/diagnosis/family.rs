//! Families of library functions: what a caller can do about each.

/// A kind of work that libraries do for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Throwing and catching.
    Exceptions,
    /// Memory that is asked for and given back.
    Allocation,
    /// Walks over strings to find their ends or a byte.
    Scanning,
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
    /// Of a function by its name and module; `None` for others.
    pub fn of(name: &str, module: &str) -> Option<Family> {
        let plain = name.trim_start_matches('_');
        let begins = |all: &[&str]| all.iter().any(|start| plain.starts_with(start));
        let is = |all: &[&str]| all.contains(&plain);
        let is_libc = module.starts_with("libc.so") || module.starts_with("libc-");
        if module.starts_with("libgcc_s")
            || begins(&["Unwind_", "cxa_", "gxx_personality", "gcc_personality"])
            || ["dl_iterate_phdr", "_dl_find_object", "_dl_find_dso_for_object"].contains(&name)
        {
            return Some(Family::Exceptions);
        }
        if is_interpreter_loop(plain) {
            return Some(Family::Interpreter);
        }
        if collects_garbage(plain, module) {
            return Some(Family::GarbageCollection);
        }
        if matches_expressions(plain, module) {
            return Some(Family::RegularExpressions);
        }
        if ["libz.so", "libz-ng", "liblzma", "libzstd", "libbz2", "liblz4", "libbrotli"]
            .iter()
            .any(|library| module.starts_with(library))
        {
            return Some(Family::Compression);
        }
        if module.starts_with("libsqlite3") {
            return Some(Family::Database);
        }
        if is(&[
            "malloc",
            "int_malloc",
            "libc_malloc",
            "free",
            "int_free",
            "cfree",
            "libc_free",
            "calloc",
            "libc_calloc",
            "realloc",
            "int_realloc",
            "malloc_consolidate",
            "unlink_chunk",
            "sysmalloc",
        ]) || begins(&["operator new", "operator delete", "int_free_"])
            && (is_libc || module.starts_with("libstdc++"))
        {
            return Some(Family::Allocation);
        }
        if begins(&[
            "strlen",
            "strnlen",
            "strchr",
            "strrchr",
            "memchr",
            "rawmemchr",
            "strcmp",
            "strncmp",
            "strstr",
            "strcasecmp",
            "memcmp",
            "wcslen",
        ]) && is_libc
        {
            return Some(Family::Scanning);
        }
        if begins(&["memcpy", "memmove", "mempcpy", "memset", "strcpy", "strcat", "stpcpy", "bzero"]) && is_libc {
            return Some(Family::Copying);
        }
        if begins(&[
            "vfprintf",
            "printf",
            "fprintf",
            "sprintf",
            "snprintf",
            "vsnprintf",
            "strto",
            "sscanf",
            "vfscanf",
            "itoa",
            "printf_fp",
            "mpn_",
            "guess_grouping",
        ]) && is_libc
        {
            return Some(Family::Formatting);
        }
        if is(&["rand", "random", "random_r", "rand_r", "drand48", "erand48_r", "lrand48", "drand48_iterate"])
            && is_libc
        {
            return Some(Family::Random);
        }
        if begins(&["qsort", "msort"]) && is_libc {
            return Some(Family::Sorting);
        }
        if module.starts_with("libm.so") || module.starts_with("libm-") {
            return Some(Family::Elementary);
        }
        (plain.contains("sip::Hasher")
            || plain.contains("SipHash")
            || plain.contains("hash_one")
            || plain.contains("Hash_bytes"))
        .then_some(Family::Hashing)
    }

    /// What it does, in a sentence about the program.
    pub fn words(self) -> &'static str {
        match self {
            Family::Exceptions => "throwing and catching exceptions",
            Family::Allocation => "allocating and freeing memory",
            Family::Scanning => "walking over strings",
            Family::Copying => "copying and filling memory",
            Family::Formatting => "making text of numbers, or numbers of text",
            Family::Hashing => "hashing keys",
            Family::Random => "the C library's random numbers",
            Family::Sorting => "sorting",
            Family::Elementary => "elementary functions",
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

/// The loop of CPython, Ruby, R, Perl or Lua, by its name without leading underscores.
fn is_interpreter_loop(plain: &str) -> bool {
    const LOOPS: [&str; 7] =
        ["vm_exec_core", "bcEval", "luaV_execute", "Rf_eval", "Perl_runops_standard", "rb_vm_exec", "lj_vm_"];
    plain.starts_with("PyEval_") || plain.starts_with("Perl_pp_") || LOOPS.iter().any(|name| plain.starts_with(name))
}

/// Parts of the collectors of CPython, Go, Ruby, R, Lua, OCaml, Julia, Boehm and HotSpot.
fn collects_garbage(plain: &str, module: &str) -> bool {
    const PYTHON: [&str; 9] = [
        "gc_collect",
        "visit_decref",
        "visit_reachable",
        "update_refs",
        "subtract_refs",
        "move_unreachable",
        "deduce_unreachable",
        "untrack_",
        "PyObject_IS_GC",
    ];
    const OTHERS: [&str; 18] = [
        "runtime.gc",
        "runtime.scanobject",
        "runtime.greyobject",
        "runtime.markroot",
        "runtime.sweep",
        "gc_mark",
        "gc_sweep",
        "rb_gc_",
        "R_gc_internal",
        "RunGenCollect",
        "luaC_",
        "caml_major_",
        "caml_empty_minor_heap",
        "caml_oldify",
        "mark_slice",
        "jl_gc_",
        "GC_mark_",
        "G1ParScanThreadState",
    ];
    let is_python = module.starts_with("python") || module.starts_with("libpython");
    let of_python = PYTHON.iter().any(|start| plain.starts_with(start)) || plain.ends_with("_traverse");
    is_python && of_python || OTHERS.iter().any(|start| plain.starts_with(start))
}

/// Parts of the engines of CPython, PCRE, glibc, Perl, Oniguruma, Rust and C++.
fn matches_expressions(plain: &str, module: &str) -> bool {
    const STARTS: [&str; 14] = [
        "sre_ucs",
        "sre_lower",
        "SRE_",
        "pcre",
        "re_search_internal",
        "sift_states_backward",
        "Perl_regexec",
        "S_regmatch",
        "S_regtry",
        "onig",
        "regex_automata::",
        "regex::",
        "std::__detail::_Executor",
        "boost::re_detail",
    ];
    STARTS.iter().any(|start| plain.starts_with(start))
        || module.starts_with("libpcre")
        || module.starts_with("libonig")
        || module.starts_with("libre2")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_libraries_have_a_family() {
        assert_eq!(Family::of("_Unwind_RaiseException", "libgcc_s.so.1"), Some(Family::Exceptions));
        assert_eq!(Family::of("__strlen_avx2", "libc.so.6"), Some(Family::Scanning));
        assert_eq!(Family::of("_int_malloc", "libc.so.6"), Some(Family::Allocation));
        assert_eq!(Family::of("malloc_table", "app"), None);
        assert_eq!(Family::of("strlen_of_mine", "app"), None);
        assert_eq!(Family::of("_PyEval_EvalFrameDefault", "python3.11"), Some(Family::Interpreter));
        assert_eq!(Family::of("dict_traverse", "python3.11"), Some(Family::GarbageCollection));
        assert_eq!(Family::of("tree_traverse", "app"), None);
        assert_eq!(Family::of("sre_ucs1_match", "libpython3.11.so.1.0"), Some(Family::RegularExpressions));
        assert_eq!(Family::of("deflate_slow", "libz.so.1.2.13"), Some(Family::Compression));
    }
}
