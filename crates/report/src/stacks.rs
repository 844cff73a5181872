//! Call stacks of the profile as lists of frame names, root first, with their CPU time.

use std::collections::BTreeMap;

use rprof_profile::Profile;

use super::name::printable;

/// Root-first frame indices of stack `leaf`.
pub fn frames(profile: &Profile, leaf: u32) -> Vec<u32> {
    let mut out = Vec::new();
    let mut at = Some(leaf);
    // A stack's parent comes before it, so this ends; a broken file is cut at its length.
    while let Some(stack) = at.and_then(|i| profile.stacks.get(i as usize)) {
        out.push(stack.frame);
        if out.len() > profile.stacks.len() {
            break;
        }
        at = stack.parent;
    }
    out.reverse();
    out
}

/// Name of frame `index`, without the characters that folded stacks give a meaning.
pub fn name(profile: &Profile, index: u32) -> String {
    plain(profile.frames.get(index as usize).map_or("[unknown]", |f| f.name.as_str()))
}

/// `name` without those characters.
pub fn plain(name: &str) -> String {
    printable(name).replace(';', ":")
}

/// `names` from `main` on, if the program's start has it near the root: how far below it a stack was followed depends on the C library.
pub fn from_main(names: &[String]) -> &[String] {
    /// Frames that C libraries have below `main`.
    const START: usize = 5;
    let main = names.iter().take(START).position(|name| name == "main");
    &names[main.unwrap_or(0)..]
}

/// CPU seconds at work by stack, names root first. Samples without a stack are `[no stack]`; waiting ones are left out.
pub fn work(profile: &Profile) -> BTreeMap<Vec<String>, f64> {
    // The last one is of samples without a stack.
    let mut by_stack: Vec<Option<f64>> = vec![None; profile.stacks.len() + 1];
    for sample in profile.samples.iter().filter(|s| !s.waiting) {
        let place = sample.stack.map_or(profile.stacks.len(), |stack| stack as usize);
        if let Some(sum) = by_stack.get_mut(place) {
            *sum = Some(sum.unwrap_or(0.0) + sample.weight_s);
        }
    }
    let mut out = BTreeMap::new();
    for (place, weight) in by_stack.into_iter().enumerate() {
        let Some(weight) = weight else { continue };
        let stack = Some(place as u32).filter(|_| place < profile.stacks.len());
        let names = match stack {
            Some(leaf) => frames(profile, leaf).into_iter().map(|f| name(profile, f)).collect(),
            None => vec!["[no stack]".to_owned()],
        };
        *out.entry(names).or_default() += weight;
    }
    out
}
