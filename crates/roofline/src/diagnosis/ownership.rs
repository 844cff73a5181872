//! Which code is not the user's: libraries of the system, library code compiled into the program, stubs, code without names.

/// Libraries of the system: their functions are called, and users change the caller.
const SYSTEM_LIBRARIES: [&str; 12] = [
    "libc.so",
    "libc-",
    "libm.so",
    "libm-",
    "libpthread",
    "ld-linux",
    "libstdc++",
    "libgcc_s",
    "libgomp",
    "libomp",
    "libgfortran",
    "[vdso]",
];

/// Whether `module` is a library of the system.
pub fn is_of_system(module: &str) -> bool {
    module.starts_with('[') || SYSTEM_LIBRARIES.iter().any(|name| module.starts_with(name))
}

/// Whether a function is of a language's standard library, though it was compiled into the program: by its source, else by its name.
pub fn is_of_standard_library(name: &str, file: Option<&str>) -> bool {
    const SOURCES: [&str; 3] = ["/rustc/", "/include/c++/", "/usr/lib/go"];
    const NAMES: [&str; 9] =
        ["std::", "core::", "alloc::", "<std::", "<core::", "<alloc::", "<&std::", "__gnu_cxx::", "hashbrown::"];
    match file {
        Some(file) => SOURCES.iter().any(|part| file.contains(part)),
        None => NAMES.iter().any(|start| name.starts_with(start)),
    }
}

/// Code before `main`, and stubs of the linker.
pub fn is_start(name: &str) -> bool {
    name == "_start" || name == ".plt" || name.ends_with("@plt") || name.starts_with(".plt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_of_the_standard_library_are_not_the_users() {
        let of = is_of_standard_library;
        assert!(of(
            "<std::io::stdio::StdoutLock as std::io::Write>::write_all",
            Some("/rustc/59/library/std/src/io/stdio.rs")
        ));
        assert!(of("void std::__introsort_loop<int*>(int*)", Some("/usr/include/c++/12/bits/stl_algo.h")));
        assert!(of("core::fmt::write", None));
        assert!(!of("app::standard", None));
        assert!(!of("std::hash<Key>::operator()(Key const&) const", Some("/home/me/key.h")));
    }
}
