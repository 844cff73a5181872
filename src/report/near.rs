//! Names of functions that are like one that no function has.

use crate::profile::Profile;

use super::name;

/// Names at most.
const MOST: usize = 3;
/// Characters of each.
const WIDTH: usize = 40;
/// Names with fewer letters in common at their beginning are not alike.
const LEAST_ALIKE: usize = 3;

/// Up to three names that contain `wanted` in other letters' cases or begin like it, else the hottest functions; a clause with them, empty
/// without a function.
pub fn clause(profile: &Profile, wanted: &str) -> String {
    let small = wanted.to_lowercase();
    let alike = |name: &str| {
        let name = name.to_lowercase();
        match name.contains(&small) {
            true => usize::MAX,
            false => name.chars().zip(small.chars()).take_while(|(a, b)| a == b).count(),
        }
    };
    let mut near: Vec<(usize, &str)> = profile.functions.iter().map(|f| (alike(&f.name), f.name.as_str())).collect();
    near.retain(|(alike, _)| *alike >= LEAST_ALIKE);
    // Of names that are equally alike the hotter ones come first.
    near.sort_by_key(|(alike, _)| std::cmp::Reverse(*alike));
    let list = |names: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        names.take(MOST).map(|name| name::shorten(name, WIDTH)).collect()
    };
    let near = list(&mut near.iter().map(|(_, name)| *name));
    let hottest = list(&mut profile.functions.iter().map(|f| f.name.as_str()));
    match (near.is_empty(), hottest.is_empty()) {
        (false, _) => format!("; like it: {}", near.join(", ")),
        (true, false) => format!("; the hottest are {}", hottest.join(", ")),
        (true, true) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Function;

    #[test]
    fn names_that_contain_it_or_begin_like_it_come_first() {
        let functions = ["main", "gemm_scalar", "triad_tail", "Triad"];
        let functions = functions.map(|name| Function { name: name.into(), ..Function::default() }).into();
        let profile = Profile { functions, ..Profile::default() };
        assert_eq!(clause(&profile, "triad"), "; like it: triad_tail, Triad");
        assert_eq!(clause(&profile, "gemm_blocked"), "; like it: gemm_scalar");
        assert_eq!(clause(&profile, "nosuch"), "; the hottest are main, gemm_scalar, triad_tail");
        assert_eq!(clause(&Profile::default(), "nosuch"), "");
    }
}
