//! Which modules of two profiles are the same file under another name.
//!
//! A module is renamed if the other profile has none of its name. The programs themselves correspond by their part in the run; other
//! modules by how many names of functions they share. If two modules share as many, none is taken.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rprof_profile::{Function, Profile, names};

/// A module with another name in the new profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renamed<'p> {
    pub old: &'p str,
    pub new: &'p str,
}

/// A module without a known new name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecided<'p> {
    pub old: &'p str,
    pub candidates: Vec<&'p str>,
}

/// The result of the search.
#[derive(Debug, Default)]
pub struct Modules<'p> {
    pub renamed: Vec<Renamed<'p>>,
    pub undecided: Vec<Undecided<'p>>,
}

/// Functions that compilers and C libraries put into every program: they say nothing of it.
const IN_EVERY_PROGRAM: [&str; 9] = [
    "_start",
    "_init",
    "_fini",
    "main",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
    "_dl_relocate_static_pie",
];

/// Whether the function's name distinguishes programs: it is neither in every program nor an address.
pub fn tells(f: &Function) -> bool {
    !IN_EVERY_PROGRAM.contains(&f.name.as_str()) && offset(f).is_none()
}

/// The offset of a function without a symbol, as its name has it: `+0x1130`.
pub fn offset(f: &Function) -> Option<&str> {
    names::offset(&f.name, &f.module)
}

/// File name of the program that was run.
pub fn program(profile: &Profile) -> Option<&str> {
    let path = profile.run.command.first()?;
    Some(path.rsplit('/').next().unwrap_or(path))
}

/// The modules of `old` that have another name in `new`.
pub fn renamed<'p>(old: &'p Profile, new: &'p Profile) -> Modules<'p> {
    let (of_old, of_new) = (names(old), names(new));
    let mut left: BTreeSet<&str> = of_old.keys().copied().filter(|module| !of_new.contains_key(module)).collect();
    let mut right: BTreeSet<&str> = of_new.keys().copied().filter(|module| !of_old.contains_key(module)).collect();
    let mut found = Modules::default();
    if let (Some(a), Some(b)) = (program(old), program(new))
        && left.contains(a)
        && right.contains(b)
    {
        left.remove(a);
        right.remove(b);
        found.renamed.push(Renamed { old: a, new: b });
    }
    let shared = shared(&left, &right, &of_old, &of_new);
    for module in left {
        let most = |pairs: &dyn Fn(&(&'p str, &'p str)) -> bool| {
            shared.iter().filter(|(pair, _)| pairs(pair)).map(|(_, n)| *n).max().unwrap_or(0)
        };
        let best = most(&|pair| pair.0 == module);
        let candidates: Vec<&str> =
            shared.iter().filter(|(pair, n)| pair.0 == module && **n == best).map(|(pair, _)| pair.1).collect();
        match candidates[..] {
            [] => {}
            // Nor may another old module share as many with it.
            [one] if shared.iter().filter(|(pair, n)| pair.1 == one && **n >= best).count() == 1 => {
                found.renamed.push(Renamed { old: module, new: one });
            }
            _ => found.undecided.push(Undecided { old: module, candidates }),
        }
    }
    found
}

/// Names that distinguish programs, by module.
fn names(profile: &Profile) -> BTreeMap<&str, HashSet<&str>> {
    let mut names: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    for f in &profile.functions {
        let of_module = names.entry(&f.module).or_default();
        if tells(f) {
            of_module.insert(&f.name);
        }
    }
    names
}

/// How many names the modules of each pair share, if any.
fn shared<'p>(
    left: &BTreeSet<&'p str>,
    right: &BTreeSet<&'p str>,
    of_old: &BTreeMap<&'p str, HashSet<&'p str>>,
    of_new: &BTreeMap<&'p str, HashSet<&'p str>>,
) -> BTreeMap<(&'p str, &'p str), usize> {
    let mut holders: HashMap<&str, Vec<&'p str>> = HashMap::new();
    for module in right {
        of_new[module].iter().for_each(|name| holders.entry(name).or_default().push(module));
    }
    let mut shared = BTreeMap::new();
    for module in left {
        for holder in of_old[module].iter().filter_map(|name| holders.get(name)).flatten() {
            *shared.entry((*module, *holder)).or_default() += 1;
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn profile(command: &str, functions: &[(&str, &str)]) -> Profile {
        let mut profile = sample::profile();
        profile.run.command = vec![command.into()];
        profile.functions = functions
            .iter()
            .map(|(module, name)| Function { name: (*name).into(), module: (*module).into(), ..Function::default() })
            .collect();
        profile
    }

    #[test]
    fn the_program_corresponds_by_its_part_and_libraries_by_their_functions() {
        let old = profile("./app-1", &[("app-1", "main"), ("libm.so.1", "f"), ("libm.so.1", "g"), ("libc.so", "exit")]);
        let new = profile("bin/app-2", &[("app-2", "main"), ("libm.so.2", "f"), ("libn.so", "h"), ("libc.so", "exit")]);
        let found = renamed(&old, &new);
        let pairs: Vec<_> = found.renamed.iter().map(|r| (r.old, r.new)).collect();
        assert_eq!(pairs, [("app-1", "app-2"), ("libm.so.1", "libm.so.2")]);
        assert!(found.undecided.is_empty());
    }

    #[test]
    fn a_module_with_a_counterpart_is_not_renamed_and_a_tie_is_not_decided() {
        let old = profile("./app", &[("app", "main"), ("a.so", "f")]);
        let new = profile("./app", &[("app", "main"), ("b.so", "f"), ("c.so", "f")]);
        let found = renamed(&old, &new);
        assert!(found.renamed.is_empty());
        assert_eq!(found.undecided, [Undecided { old: "a.so", candidates: vec!["b.so", "c.so"] }]);
        let backwards = renamed(&new, &old);
        assert!(backwards.renamed.is_empty() && backwards.undecided.len() == 2, "{backwards:?}");
        // Functions of every program, and addresses, are no evidence.
        let old = profile("./x", &[("x", "_start"), ("a.so", "_init"), ("a.so", "a.so+0x10")]);
        let new = profile("./x", &[("x", "_start"), ("b.so", "_init"), ("b.so", "b.so+0x10")]);
        assert!(renamed(&old, &new).renamed.is_empty());
    }
}
