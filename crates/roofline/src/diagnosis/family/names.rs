//! Which family a function belongs to, by its name and its module.

use super::Family;

/// A rule: functions of these names, in modules of these libraries.
struct Rule {
    family: Family,
    /// Beginnings of the modules; empty: any module.
    modules: &'static [&'static str],
    /// Beginnings of names, without leading underscores.
    starts: &'static [&'static str],
    /// Whole names, without leading underscores.
    names: &'static [&'static str],
}

const LIBC: &[&str] = &["libc.so", "libc-", "libpthread"];
const LIBM: &[&str] = &["libm.so", "libm-"];
const LIBC_AND_CXX: &[&str] = &["libc.so", "libc-", "libstdc++", "libc++"];
const PYTHON: &[&str] = &["python", "libpython"];

/// The first that fits holds.
const RULES: [Rule; 16] = [
    Rule { family: Family::Exceptions, modules: &["libgcc_s"], starts: &[""], names: &[] },
    Rule {
        family: Family::Exceptions,
        modules: &[],
        starts: &["Unwind_", "cxa_", "gxx_personality", "gcc_personality"],
        names: &["dl_iterate_phdr", "dl_find_object", "dl_find_dso_for_object"],
    },
    Rule {
        family: Family::Compression,
        modules: &["libz.so", "libz-ng", "liblzma", "libzstd", "libbz2", "liblz4", "libbrotli"],
        starts: &[""],
        names: &[],
    },
    Rule { family: Family::Database, modules: &["libsqlite3"], starts: &[""], names: &[] },
    Rule {
        family: Family::Allocation,
        modules: &[],
        starts: &[],
        names: &[
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
        ],
    },
    Rule {
        family: Family::Allocation,
        modules: LIBC_AND_CXX,
        starts: &["operator new", "operator delete", "int_free_"],
        names: &[],
    },
    Rule {
        family: Family::Locks,
        modules: LIBC,
        starts: &["pthread_mutex_", "pthread_rwlock_", "pthread_spin_", "lll_lock_", "GI___pthread_mutex", "new_sem_"],
        names: &[],
    },
    Rule {
        family: Family::Comparing,
        modules: LIBC,
        starts: &["strcmp", "strncmp", "strcasecmp", "strncasecmp", "memcmp", "bcmp", "strcoll", "wmemcmp"],
        names: &[],
    },
    Rule {
        family: Family::Comparing,
        modules: PYTHON,
        starts: &["PyUnicode_RichCompare", "PyObject_RichCompare", "PyUnicode_Eq", "PySequence_Contains"],
        names: &[
            "unicode_eq",
            "unicode_compare_eq",
            "list_contains",
            "tuplecontains",
            "long_richcompare",
            "float_richcompare",
            "tuplerichcompare",
            "list_richcompare",
        ],
    },
    Rule {
        family: Family::Scanning,
        modules: LIBC,
        starts: &["strlen", "strnlen", "strchr", "strrchr", "memchr", "rawmemchr", "strstr", "wcslen"],
        names: &[],
    },
    Rule {
        family: Family::Copying,
        modules: LIBC,
        starts: &["memcpy", "memmove", "mempcpy", "memset", "strcpy", "strcat", "stpcpy", "bzero"],
        names: &[],
    },
    Rule {
        family: Family::Streams,
        modules: LIBC,
        starts: &["IO_", "overflow", "underflow", "uflow"],
        names: &[
            "fwrite", "fread", "fputs", "puts", "putc", "fputc", "putchar", "getc", "fgetc", "fgets", "getline",
            "fflush",
        ],
    },
    Rule {
        family: Family::Formatting,
        modules: LIBC,
        starts: &[
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
        ],
        names: &[],
    },
    Rule {
        family: Family::Random,
        modules: LIBC,
        starts: &[],
        names: &["rand", "random", "random_r", "rand_r", "drand48", "erand48_r", "lrand48", "drand48_iterate"],
    },
    Rule { family: Family::Sorting, modules: LIBC, starts: &["qsort", "msort"], names: &[] },
    Rule { family: Family::Elementary, modules: LIBM, starts: &[""], names: &[] },
];

impl Family {
    /// Of a function by its name and module; `None` for others.
    pub fn of(name: &str, module: &str) -> Option<Family> {
        let plain = name.trim_start_matches('_');
        if is_interpreter_loop(plain) {
            return Some(Family::Interpreter);
        }
        if collects_garbage(plain, module) {
            return Some(Family::GarbageCollection);
        }
        if matches_expressions(plain, module) {
            return Some(Family::RegularExpressions);
        }
        if is_of(LIBM, module) && rounds(plain) {
            return Some(Family::Rounding);
        }
        if let Some(rule) = RULES.iter().find(|rule| rule.fits(plain, module)) {
            return Some(rule.family);
        }
        if is_stream(name, module) {
            return Some(Family::Streams);
        }
        (plain.contains("sip::Hasher")
            || plain.contains("SipHash")
            || plain.contains("hash_one")
            || plain.contains("Hash_bytes"))
        .then_some(Family::Hashing)
    }
}

impl Rule {
    fn fits(&self, plain: &str, module: &str) -> bool {
        (self.modules.is_empty() || is_of(self.modules, module))
            && (self.names.contains(&plain) || self.starts.iter().any(|start| plain.starts_with(start)))
    }
}

fn is_of(modules: &[&str], module: &str) -> bool {
    modules.iter().any(|start| module.starts_with(start))
}

/// Functions of the mathematical library that today's processors have an instruction for: `floor`, `__floorf_sse41`, `__fma_fma3`.
fn rounds(plain: &str) -> bool {
    const NAMES: [&str; 8] = ["floor", "ceil", "trunc", "rint", "nearbyint", "round", "lrint", "fma"];
    let word = plain.split('_').next().unwrap_or(plain);
    NAMES.contains(&word.strip_suffix('f').unwrap_or(word))
}

/// Functions of the streams of C++ and Rust. The names of templates begin with what they return.
fn is_stream(name: &str, module: &str) -> bool {
    const OF_LIBRARY: [&str; 6] = [
        "std::basic_istream<",
        "std::basic_ostream<",
        "std::istream::",
        "std::ostream::",
        "std::__ostream_insert<",
        "std::getline<",
    ];
    const ANYWHERE: [&str; 7] = [
        "std::num_get<",
        "std::num_put<",
        "std::basic_filebuf<",
        "std::basic_streambuf<",
        "std::io::stdio::",
        "std::io::buffered::",
        "std::io::default_write_fmt",
    ];
    // The parameters say nothing of what the function does.
    let head = name.find('(').map_or(name, |at| &name[..at]);
    let has = |parts: &[&str]| parts.iter().any(|part| head.contains(part));
    has(&ANYWHERE) || has(&OF_LIBRARY) && is_of(&["libstdc++", "libc++"], module)
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
        assert_eq!(Family::of("__memcmp_avx2_movbe", "libc.so.6"), Some(Family::Comparing));
        assert_eq!(Family::of("list_contains", "app"), None);
        assert_eq!(Family::of("__lll_lock_wake", "libc.so.6"), Some(Family::Locks));
        assert_eq!(Family::of("__floorf_sse41", "libm.so.6"), Some(Family::Rounding));
        assert_eq!(Family::of("__exp_fma", "libm.so.6"), Some(Family::Elementary));
    }

    #[test]
    fn streams_are_known_by_what_they_are_and_not_by_what_they_take() {
        let extract = "std::istreambuf_iterator<char> std::num_get<char>::_M_extract_int<int>(std::ios_base&) const";
        assert_eq!(Family::of(extract, "libstdc++.so.6"), Some(Family::Streams));
        assert_eq!(
            Family::of("<std::io::stdio::StdoutLock as std::io::Write>::write_all", "app"),
            Some(Family::Streams)
        );
        assert_eq!(Family::of("print(std::ostream::sentry&)", "app"), None);
    }
}
