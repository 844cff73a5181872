//! Names of functions that are like one that no function has.

use super::name;
use rprof_profile::Profile;

/// Names at most.
const MOST: usize = 3;
/// Characters of each.
const WIDTH: usize = 40;
/// Names with fewer letters in common at their beginning are not alike.
const LEAST_ALIKE: usize = 3;

/// No function has the name that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{asked}: none of the {of} functions has a name that matches{near}")]
pub struct NoSuchName {
    asked: String,
    of: usize,
    /// A clause with names that are like it.
    near: String,
}

impl NoSuchName {
    /// Of the functions of `profile`; `wanted` is part of the user's words `asked`.
    pub fn of(profile: &Profile, asked: String, wanted: &str) -> Self {
        let names: Vec<&str> = profile.functions.iter().map(|f| f.name.as_str()).collect();
        NoSuchName::new(asked, wanted, &names)
    }

    /// Of functions with these `names`, the hottest first.
    pub fn new(asked: String, wanted: &str, names: &[&str]) -> Self {
        NoSuchName { asked, of: names.len(), near: clause(names, wanted) }
    }
}

/// Up to three names that contain `wanted` in other letters' cases or begin like it, else the hottest functions; a clause with them, empty
/// without a function.
fn clause(names: &[&str], wanted: &str) -> String {
    let small = wanted.to_lowercase();
    let alike = |name: &str| {
        let name = name.to_lowercase();
        match name.contains(&small) {
            true => usize::MAX,
            false => name.chars().zip(small.chars()).take_while(|(a, b)| a == b).count(),
        }
    };
    let mut near: Vec<(usize, &str)> = names.iter().map(|name| (alike(name), *name)).collect();
    near.retain(|(alike, _)| *alike >= LEAST_ALIKE);
    // Of names that are equally alike the hotter ones come first.
    near.sort_by_key(|(alike, _)| std::cmp::Reverse(*alike));
    let list = |names: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        names.take(MOST).map(|name| name::shorten(name, WIDTH)).collect()
    };
    let near = list(&mut near.iter().map(|(_, name)| *name));
    let hottest = list(&mut names.iter().copied());
    match (near.is_empty(), hottest.is_empty()) {
        (false, _) => format!("; like it: {}", near.join(", ")),
        (true, false) => format!("; the hottest are {}", hottest.join(", ")),
        (true, true) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_contain_it_or_begin_like_it_come_first() {
        let names = ["main", "gemm_scalar", "triad_tail", "Triad"];
        assert_eq!(clause(&names, "triad"), "; like it: triad_tail, Triad");
        assert_eq!(clause(&names, "gemm_blocked"), "; like it: gemm_scalar");
        assert_eq!(clause(&names, "nosuch"), "; the hottest are main, gemm_scalar, triad_tail");
        assert_eq!(clause(&[], "nosuch"), "");
    }
}
