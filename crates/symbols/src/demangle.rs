//! Names as the programmer wrote them: C++, Rust, D, Ada and Fortran; the suffixes of compiler-made clones stay.

use cpp_demangle::DemangleOptions;

use super::dlang;

/// Demangling of deeply nested names is superlinear; beyond this many bytes a name stays as it is.
const LONGEST_MANGLED: usize = 32_768;
/// Dots of a symbol that are tried as the begin of a clone's suffix.
const MOST_DOTS: usize = 8;

/// The language rules that a module's names follow and that a single name does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dialect {
    /// The module holds Fortran: a trailing underscore is the compiler's.
    pub fortran: bool,
    /// The module was made by GNAT: two underscores are a dot.
    pub ada: bool,
}

impl Dialect {
    /// Determines the dialect from the module's symbol names: programs call the run-time libraries of their languages.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        const FORTRAN: [&str; 4] = ["_gfortran_", "_FortranA", "for_write_seq", "MAIN__"];
        const ADA: [&str; 3] = ["__gnat_", "_ada_", "ada__"];
        let mut dialect = Dialect::default();
        for name in names {
            dialect.fortran |= FORTRAN.iter().any(|begin| name.starts_with(begin));
            dialect.ada |= ADA.iter().any(|begin| name.starts_with(begin));
        }
        dialect
    }
}

/// Demangles `symbol`. Suffixes that compilers append to clones (`.part.0`, `._omp_fn.0`, `.cold`) are kept in the
/// way of binutils: `f(int) [clone .part.0]`; for languages without argument lists as they are.
pub fn demangle(symbol: &str, dialect: Dialect) -> String {
    if symbol.len() > LONGEST_MANGLED {
        return symbol.to_owned();
    }
    if let Some(at) = symbol.strip_suffix("@plt") {
        return format!("{}@plt", demangle(at, dialect));
    }
    if let Some(name) = rust(symbol) {
        return name;
    }
    if symbol.starts_with("_Z") {
        let named = |(base, suffix): (&str, &str)| match cpp(base)? {
            name if suffix.is_empty() => Some(name),
            name => Some(format!("{name} [clone {suffix}]")),
        };
        let whole = clone_suffixes(symbol).find_map(named);
        return whole.or_else(|| first_names(symbol)).unwrap_or_else(|| symbol.to_owned());
    }
    if let Some(name) = clone_suffixes(symbol).find_map(|(base, suffix)| Some(dlang::demangle(base)? + suffix)) {
        return name;
    }
    let (base, suffix) = clone_suffixes(symbol).next().unwrap_or((symbol, ""));
    match fortran(base, dialect).or_else(|| ada(base, dialect)) {
        Some(name) => format!("{name}{suffix}"),
        None => symbol.to_owned(),
    }
}

/// The name of `symbol` as the compiler has it, if it demangles to that of another symbol: a Fortran function `smooth_` beside a C function
/// `smooth`. `is_one`: whether a symbol has that name.
pub fn unless_taken(symbol: &str, dialect: Dialect, is_one: impl Fn(&str) -> bool) -> String {
    let name = demangle(symbol, dialect);
    if name != symbol && is_one(&name) { symbol.to_owned() } else { name }
}

/// The host of a detached cold part: `f.cold` and `f.cold.3` → `f`.
pub fn cold_host(symbol: &str) -> Option<&str> {
    let (host, rest) = symbol.rsplit_once(".cold")?;
    let numbered = rest.strip_prefix('.').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    (!host.is_empty() && (rest.is_empty() || numbered)).then_some(host)
}

fn rust(symbol: &str) -> Option<String> {
    // `_ZN…17h<hash>E` is Rust's old scheme; without the hash it is a C++ name. The alternate form leaves the hash out.
    if !symbol.starts_with("_R") && !symbol.contains("17h") {
        return None;
    }
    let demangled = rustc_demangle::try_demangle(symbol).ok()?;
    Some(format!("{demangled:#}"))
}

fn cpp(symbol: &str) -> Option<String> {
    let parsed = cpp_demangle::Symbol::new(symbol).ok()?;
    parsed.demangle_with_options(&DemangleOptions::default()).ok()
}

/// The names with which a C++ symbol begins that the demangler does not know, as of a newer standard: `_ZN2ns3sumITk…` → `ns::sum<…>`.
fn first_names(symbol: &str) -> Option<String> {
    let rest = symbol.strip_prefix("_Z")?;
    let (is_nested, mut rest) = rest.strip_prefix('N').map_or((false, rest), |inner| (true, inner));
    rest = rest.trim_start_matches(['r', 'V', 'K']);
    let mut names: Vec<&str> = Vec::new();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Some(length) = rest[..digits].parse::<usize>().ok().filter(|_| is_nested || names.is_empty()) else {
            break;
        };
        let end = digits.checked_add(length)?;
        names.push(rest.get(digits..end)?);
        rest = &rest[end..];
    }
    let arguments = if rest.starts_with('I') { "<…>" } else { "" };
    (!names.is_empty()).then(|| names.join("::") + arguments)
}

/// GNAT `pkg__child__proc__2` → `pkg.child.proc`, `_ada_main` → `main`.
fn ada(symbol: &str, dialect: Dialect) -> Option<String> {
    if !dialect.ada {
        return None;
    }
    if let Some(program) = symbol.strip_prefix("_ada_") {
        return Some(program.to_owned());
    }
    let overloaded = symbol.rsplit_once("__").filter(|(_, n)| n.bytes().all(|b| b.is_ascii_digit() || b == b'_'));
    let name = overloaded.map_or(symbol, |(name, _)| name);
    let begins_well = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    (begins_well && name.contains("__") && !name.contains("___")).then(|| name.replace("__", "."))
}

/// gfortran `__mod_MOD_proc`, Intel `mod_mp_proc_`, flang `_QMmodPproc` → `mod::proc`; `dgemm_` → `dgemm`.
fn fortran(symbol: &str, dialect: Dialect) -> Option<String> {
    if let Some((module, procedure)) = symbol.strip_prefix("__").and_then(|s| s.split_once("_MOD_")) {
        return Some(format!("{module}::{procedure}"));
    }
    if let Some((module, procedure)) = symbol.strip_prefix("_QM").and_then(|s| s.split_once('P')) {
        return Some(format!("{module}::{procedure}"));
    }
    if let Some(procedure) = symbol.strip_prefix("_QP") {
        return Some(procedure.to_owned());
    }
    if !dialect.fortran {
        return None;
    }
    if let Some((module, procedure)) = symbol.strip_suffix('_').and_then(|s| s.split_once("_mp_")) {
        return Some(format!("{module}::{procedure}"));
    }
    let plain = symbol.strip_suffix('_')?;
    let fortran_letters = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let begins_well = plain.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    (begins_well && !plain.ends_with('_') && plain.bytes().all(fortran_letters)).then(|| plain.to_owned())
}

/// The symbol and a clone's suffix, split at each dot, the first one first. Few mangled names hold dots themselves (frames of coroutines).
fn clone_suffixes(symbol: &str) -> impl Iterator<Item = (&str, &str)> {
    let dots = symbol.match_indices('.').map(|(at, _)| at).filter(|at| *at > 0).take(MOST_DOTS);
    dots.map(|at| symbol.split_at(at)).chain(std::iter::once((symbol, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORTRAN: Dialect = Dialect { fortran: true, ada: false };
    const ADA: Dialect = Dialect { fortran: false, ada: true };
    const C: Dialect = Dialect { fortran: false, ada: false };

    #[test]
    fn names_of_every_language() {
        let cases = [
            ("_ZN3foo3barEi", C, "foo::bar(int)"),
            ("_Z1fIdEvT_.part.0", C, "void f<double>(double) [clone .part.0]"),
            ("_Z1fv._omp_fn.0", C, "f() [clone ._omp_fn.0]"),
            ("_Z3genPZ3geniE13_Z3geni.Frame.actor", C, "gen(gen(int)::_Z3geni.Frame*) [clone .actor]"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", C, "core::fmt::Write::write_fmt"),
            ("_RNvCs1234_7mycrate3foo", C, "mycrate::foo"),
            ("__solver_MOD_step", C, "solver::step"),
            ("__solver_MOD_step.isra.0", C, "solver::step.isra.0"),
            ("dgemm_", FORTRAN, "dgemm"),
            ("dgemm_", C, "dgemm_"),
            ("sweep_._omp_fn.0", FORTRAN, "sweep._omp_fn.0"),
            ("solver_mp_step_", FORTRAN, "solver::step"),
            ("_QMsolverPstep", C, "solver::step"),
            ("MAIN__", FORTRAN, "MAIN__"),
            ("main", FORTRAN, "main"),
            ("memcpy@plt", C, "memcpy@plt"),
            ("_ZdlPv@plt", C, "operator delete(void*)@plt"),
            ("compute.constprop.0", C, "compute.constprop.0"),
            ("_Znotmangled", C, "_Znotmangled"),
            ("_D3app7hotLoopFlZd", C, "app.hotLoop(long)"),
            ("_D3app7hotLoopFlZd.constprop.0", C, "app.hotLoop(long).constprop.0"),
            ("_ZN2ns3sumITk\u{1}Qunknown", C, "ns::sum<…>"),
            ("_Z5scaleITk\u{1}Qunknown", C, "scale<…>"),
            ("solver__grid__relax__2", ADA, "solver.grid.relax"),
            ("_ada_main", ADA, "main"),
            ("__gnat_raise", ADA, "__gnat_raise"),
            ("solver__grid", C, "solver__grid"),
        ];
        for (symbol, dialect, expected) in cases {
            assert_eq!(demangle(symbol, dialect), expected, "{symbol}");
        }
    }

    #[test]
    fn a_name_that_another_symbol_has_stays_as_it_is() {
        let name = |symbol, names: &[&str]| unless_taken(symbol, FORTRAN, |name| names.contains(&name));
        assert_eq!(name("smooth_", &["smooth_", "smooth"]), "smooth_");
        assert_eq!(name("smooth", &["smooth_", "smooth"]), "smooth");
        assert_eq!(name("smooth_", &["smooth_"]), "smooth");
    }

    #[test]
    fn cold_parts_know_their_host() {
        assert_eq!(cold_host("f.cold"), Some("f"));
        assert_eq!(cold_host("f.part.0.cold.12"), Some("f.part.0"));
        assert_eq!(cold_host("f.coldest"), None);
        assert_eq!(cold_host("f.cold.x"), None);
        assert_eq!(cold_host(".cold"), None);
    }

    #[test]
    fn hostile_names_come_back() {
        let deep = format!("_Z{}", "PKN".repeat(5_000));
        let long = "x".repeat(200_000);
        for name in [deep.as_str(), long.as_str(), "", "_Z", "_R", "@plt", ".", "__MOD_", "_ZN", "_RNv"] {
            demangle(name, C);
        }
    }
}
