//! Which functions of two profiles are the same one.
//!
//! ```text
//! same name, same module (or that module under its new name)
//!   └ several of one name ─▶ same file ─▶ same number of instructions ─▶ the only ones left; else not distinguished
//! ```

use std::collections::HashMap;
use std::hash::Hash;

use rprof_profile::names;
use rprof_profile::{Function, Profile};

use super::modules::{self, Modules, offset};
use super::unique;

/// A function in both profiles, or in one of them.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'p> {
    pub old: Option<&'p Function>,
    pub new: Option<&'p Function>,
}

/// Functions of one name that cannot be distinguished.
#[derive(Debug, Clone)]
pub struct Alike<'p> {
    pub old: Vec<&'p Function>,
    pub new: Vec<&'p Function>,
}

impl<'p> Alike<'p> {
    /// Their name.
    pub fn name(&self) -> &'p str {
        self.new.first().or(self.old.first()).map_or("", |f| f.name.as_str())
    }
}

/// The functions of two profiles.
#[derive(Debug, Default)]
pub struct Pairs<'p> {
    /// In the order of the old profile; those of the new one alone come last.
    pub pairs: Vec<Pair<'p>>,
    pub alike: Vec<Alike<'p>>,
    pub modules: Modules<'p>,
}

/// Finds them.
pub fn of<'p>(old: &'p Profile, new: &'p Profile) -> Pairs<'p> {
    let modules = modules::renamed(old, new);
    let before: HashMap<&str, &str> = modules.renamed.iter().map(|renamed| (renamed.new, renamed.old)).collect();
    let mut groups: Vec<Alike<'p>> = Vec::new();
    let mut index: HashMap<(&str, &str), usize> = HashMap::new();
    for (is_new, f) in old.functions.iter().map(|f| (false, f)).chain(new.functions.iter().map(|f| (true, f))) {
        let module = before.get(f.module.as_str()).filter(|_| is_new).copied().unwrap_or(&f.module);
        let at = *index.entry((module, offset(f).unwrap_or(names::without_number(&f.name)))).or_insert_with(|| {
            groups.push(Alike { old: Vec::new(), new: Vec::new() });
            groups.len() - 1
        });
        let side = if is_new { &mut groups[at].new } else { &mut groups[at].old };
        side.push(f);
    }
    let mut found = Pairs { modules, ..Pairs::default() };
    for group in groups {
        divide(group, &mut found);
    }
    found
}

/// Pairs the functions of one name.
fn divide<'p>(mut group: Alike<'p>, found: &mut Pairs<'p>) {
    if group.old.len() > 1 || group.new.len() > 1 {
        take(&mut group, found, |f| f.full_name.clone());
        take(&mut group, found, |f| f.file.clone());
        take(&mut group, found, |f| f.instructions);
    }
    match (&group.old[..], &group.new[..]) {
        ([], []) => {}
        ([old], [new]) => found.pairs.push(Pair { old: Some(*old), new: Some(*new) }),
        ([], all) => found.pairs.extend(all.iter().map(|f| Pair { old: None, new: Some(*f) })),
        (all, []) => found.pairs.extend(all.iter().map(|f| Pair { old: Some(*f), new: None })),
        _ => found.alike.push(group),
    }
}

/// Takes the pairs with a key that no other function of the group has.
fn take<'p, K: Hash + Eq>(group: &mut Alike<'p>, found: &mut Pairs<'p>, key: impl Fn(&Function) -> Option<K>) {
    let pairs = unique::take(&mut group.old, &mut group.new, &key, &key);
    found.pairs.extend(pairs.into_iter().map(|(old, new)| Pair { old: Some(old), new: Some(new) }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    fn function(name: &str, module: &str, file: Option<&str>, instructions: Option<u64>) -> Function {
        let file = file.map(str::to_owned);
        Function { name: name.into(), module: module.into(), file, instructions, ..Function::default() }
    }

    fn profile(command: &str, functions: Vec<Function>) -> Profile {
        let mut profile = sample::profile();
        profile.run.command = vec![command.into()];
        profile.functions = functions;
        profile
    }

    /// (instructions before, after) of each pair.
    fn figures(found: &Pairs<'_>) -> Vec<(Option<u64>, Option<u64>)> {
        found.pairs.iter().map(|p| (p.old.and_then(|f| f.instructions), p.new.and_then(|f| f.instructions))).collect()
    }

    #[test]
    fn functions_of_one_name_are_told_apart_by_file_then_by_their_count() {
        let of = |n: [u64; 4]| {
            let one = |file, n| function("step", "app", file, Some(n));
            profile("./app", vec![one(Some("a.c"), n[0]), one(Some("b.c"), n[1]), one(None, n[2]), one(None, n[3])])
        };
        let (old, new) = (of([1, 2, 3, 4]), of([11, 12, 4, 13]));
        let found = super::of(&old, &new);
        let pairs = [(Some(1), Some(11)), (Some(2), Some(12)), (Some(4), Some(4)), (Some(3), Some(13))];
        assert_eq!(figures(&found), pairs);
        assert!(found.alike.is_empty());
        let other = of([1, 2, 5, 6]);
        let found = super::of(&old, &other);
        assert_eq!((found.alike.len(), found.alike[0].name(), found.pairs.len()), (1, "step", 2));
    }

    #[test]
    fn instances_of_a_template_are_told_apart_by_their_full_names() {
        let of = |names: [&str; 2], n: [u64; 2]| {
            let one = |name: &str, full: &str, n| Function {
                full_name: Some(full.into()),
                ..function(name, "app", Some("a.h"), Some(n))
            };
            profile("./app", vec![one("sum<…>", names[0], n[0]), one("sum<…> #2", names[1], n[1])])
        };
        let (old, new) = (of(["sum<Alpha>", "sum<Beta>"], [1, 2]), of(["sum<Beta>", "sum<Alpha>"], [3, 12]));
        let found = super::of(&old, &new);
        assert_eq!(figures(&found), [(Some(1), Some(12)), (Some(2), Some(3))]);
    }

    #[test]
    fn a_renamed_program_keeps_its_functions_and_those_without_a_symbol() {
        let old = profile(
            "./app-1",
            vec![function("f", "app-1", None, Some(1)), function("app-1+0x10", "app-1", None, Some(2))],
        );
        let new = profile(
            "./app-2",
            vec![function("f", "app-2", None, Some(3)), function("app-2+0x10", "app-2", None, Some(4))],
        );
        assert_eq!(figures(&super::of(&old, &new)), [(Some(1), Some(3)), (Some(2), Some(4))]);
    }

    #[test]
    fn functions_of_one_profile_stay_alone() {
        let old = profile("./app", vec![function("f", "app", None, Some(1)), function("g", "libx.so", None, Some(2))]);
        let new = profile("./app", vec![function("f", "app", None, Some(1)), function("g", "app", None, Some(3))]);
        assert_eq!(figures(&super::of(&old, &new)), [(Some(1), Some(1)), (Some(2), None), (None, Some(3))]);
    }
}
