//! Possible places of libcupti, and whether this user may count.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Environment variable with paths of libcupti, separated by colons.
pub const VARIABLE: &str = "RPROF_CUPTI";

/// Names that the collector asks the dynamic linker for (`crates/embedded/programs/collector/cupti.rs`).
pub const NAMES: [&str; 4] = ["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"];

/// Paths of libcupti to try, the user's own first, then those of toolkits, then of Python packages; only existing files. (The dynamic
/// loader's own search comes after these.)
pub fn candidates(program: &Path) -> Vec<PathBuf> {
    let named = env::var_os(VARIABLE).map(|paths| env::split_paths(&paths).collect::<Vec<_>>()).unwrap_or_default();
    let mut found = named;
    for toolkit in ["/usr/local/cuda", "/opt/cuda"] {
        found.extend(libraries(&Path::new(toolkit).join("extras/CUPTI/lib64")));
    }
    for root in python_roots(program) {
        for package in ["nvidia/cu13/lib", "nvidia/cuda_cupti/lib"] {
            found.extend(libraries(&root.join(package)));
        }
    }
    found.retain(|path| path.is_file());
    found
}

/// The files `libcupti.so.N` of a folder.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libcupti.so."));
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(named).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// The `site-packages` beside the program (`bin/python3` → `lib/python3.N/site-packages`), of an active environment and of the system.
fn python_roots(program: &Path) -> Vec<PathBuf> {
    let beside = |path: PathBuf| path.parent().and_then(Path::parent).map(Path::to_owned);
    let real = program.canonicalize().ok().and_then(beside);
    let prefixes = [
        beside(program.to_owned()),
        env::var_os("VIRTUAL_ENV").map(PathBuf::from),
        real,
        Some("/usr/local".into()),
        Some("/usr".into()),
    ];
    let mut roots = Vec::new();
    for prefix in prefixes.into_iter().flatten() {
        let entries = fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
        for python in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("python3")) {
            roots.extend(["site-packages", "dist-packages"].map(|packages| python.path().join(packages)));
        }
    }
    roots.retain(|root| root.is_dir());
    roots.dedup();
    roots
}

/// Whether counters are reserved for administrators, as the driver says; `None` if it does not.
pub fn admin_only(parameters: &Path) -> Option<bool> {
    let text = fs::read_to_string(parameters).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))?;
    Some(value.trim() != "0")
}
