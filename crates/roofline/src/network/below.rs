//! Which share of a function's time lies below another one: from the stacks of samples.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rprof_profile::Profile;

/// A function: its place among [`Below::functions`].
pub type Id = usize;

/// Shares of functions below functions.
#[derive(Debug, Default)]
pub struct Below {
    functions: Vec<(String, String)>,
    ids: HashMap<(String, String), Id>,
    /// By function: least frames between it and the root of a stack.
    depths: HashMap<Id, usize>,
    /// By function: seconds of samples in which it is the leaf and works; and those of them below each function.
    work: BTreeMap<Id, (f64, BTreeMap<Id, f64>)>,
    /// By function: seconds of samples with it on their stack; and those of them below each function.
    on_stack: BTreeMap<Id, (f64, BTreeMap<Id, f64>)>,
}

impl Below {
    /// From the samples of `profile`. `callers`: functions that are asked for with [`on_stack`](Self::on_stack), also if they are on no stack.
    pub fn of(profile: &Profile, callers: &BTreeSet<(String, String)>) -> Below {
        let mut below = Below::default();
        let frames: Vec<Id> =
            profile.frames.iter().map(|frame| below.id((frame.name.clone(), frame.module.clone()))).collect();
        let callers: BTreeSet<Id> = callers.iter().map(|caller| below.id(caller.clone())).collect();
        let mut seconds: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for sample in &profile.samples {
            let Some(stack) = sample.stack else { continue };
            let (work, all) = seconds.entry(stack).or_default();
            *all += sample.weight_s;
            if !sample.waiting {
                *work += sample.weight_s;
            }
        }
        for (stack, (work_s, all_s)) in seconds {
            let ids = path(profile, &frames, stack);
            let Some(leaf) = ids.first().copied() else { continue };
            for (depth, id) in ids.iter().rev().enumerate() {
                let least = below.depths.entry(*id).or_insert(depth);
                *least = depth.min(*least);
            }
            let distinct: BTreeSet<Id> = ids.iter().copied().collect();
            if work_s > 0.0 {
                add(&mut below.work, leaf, work_s, &distinct);
            }
            for caller in distinct.intersection(&callers) {
                // Of a recursive function the outermost frame counts.
                let outermost = ids.iter().rposition(|id| id == caller).unwrap_or(0);
                add(&mut below.on_stack, *caller, all_s, &ids[outermost..].iter().copied().collect());
            }
        }
        below
    }

    fn id(&mut self, function: (String, String)) -> Id {
        let next = self.functions.len();
        let id = *self.ids.entry(function.clone()).or_insert(next);
        if id == next {
            self.functions.push(function);
        }
        id
    }

    /// Least frames between a function and the root of a stack; of one that is on none, more than any.
    pub fn depth(&self, id: Id) -> usize {
        self.depths.get(&id).copied().unwrap_or(usize::MAX)
    }

    /// The function of a name; `None`: it is on no stack, and no caller.
    pub fn find(&self, name: &str, module: &str) -> Option<Id> {
        self.ids.get(&(name.to_owned(), module.to_owned())).copied()
    }

    /// Name and module.
    pub fn function(&self, id: Id) -> &(String, String) {
        &self.functions[id]
    }

    /// The share of the work of a function that lies below each function, itself included. `None`: it has no sample.
    pub fn work(&self, name: &str, module: &str) -> Option<Vec<(Id, f64)>> {
        shares(&self.work, &self.find(name, module)?)
    }

    /// The share of the time below a function that lies below each function, too, itself included. `None`: it has no sample.
    pub fn on_stack(&self, name: &str, module: &str) -> Option<Vec<(Id, f64)>> {
        shares(&self.on_stack, &self.find(name, module)?)
    }
}

fn shares(of: &BTreeMap<Id, (f64, BTreeMap<Id, f64>)>, id: &Id) -> Option<Vec<(Id, f64)>> {
    let (all, below) = of.get(id)?;
    Some(below.iter().map(|(id, seconds)| (*id, seconds / all)).collect())
}

fn add(to: &mut BTreeMap<Id, (f64, BTreeMap<Id, f64>)>, of: Id, seconds: f64, below: &BTreeSet<Id>) {
    let (all, parts) = to.entry(of).or_default();
    *all += seconds;
    below.iter().for_each(|id| *parts.entry(*id).or_default() += seconds);
}

/// The functions of a stack, leaf first.
fn path(profile: &Profile, frames: &[Id], leaf: u32) -> Vec<Id> {
    let (mut path, mut steps) = (Vec::new(), 0);
    let mut at = Some(leaf);
    // A stack's parent comes before it; a broken file ends at its length.
    while let Some(stack) = at.and_then(|i| profile.stacks.get(i as usize)) {
        // Code that the compiler inlined into a function is part of that function.
        let is_inlined = profile.frames.get(stack.frame as usize).is_none_or(|frame| frame.inlined);
        if !is_inlined {
            path.extend(frames.get(stack.frame as usize));
        }
        steps += 1;
        if steps > profile.stacks.len() {
            break;
        }
        at = stack.parent;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{Frame, ProfileSample, Stack};

    #[test]
    fn shares_are_those_of_samples() {
        // main → work → kernel, main → kernel, main → exchange (waiting).
        let frame =
            |name: &str| Frame { name: name.into(), module: "m".into(), file: None, line: None, inlined: false };
        let sample =
            |stack, weight_s, waiting| ProfileSample { t_s: 0.0, weight_s, thread: 0, stack: Some(stack), waiting };
        let stack = |frame, parent| Stack { frame, parent };
        let profile = Profile {
            frames: ["main", "work", "kernel", "exchange"].map(frame).to_vec(),
            stacks: vec![stack(0, None), stack(1, Some(0)), stack(2, Some(1)), stack(2, Some(0)), stack(3, Some(0))],
            samples: vec![sample(2, 3.0, false), sample(3, 1.0, false), sample(4, 2.0, true)],
            ..Profile::default()
        };
        let below = Below::of(&profile, &[("exchange".to_owned(), "m".to_owned())].into());
        let named = |shares: Option<Vec<(Id, f64)>>| -> Vec<(String, f64)> {
            shares.unwrap().into_iter().map(|(id, share)| (below.function(id).0.clone(), share)).collect()
        };
        let is = |name: &str, share: f64| (name.to_owned(), share);
        assert_eq!(named(below.work("kernel", "m")), [is("main", 1.0), is("work", 0.75), is("kernel", 1.0)]);
        assert_eq!(named(below.on_stack("exchange", "m")), [is("main", 1.0), is("exchange", 1.0)]);
        assert_eq!(below.work("exchange", "m"), None, "it only waits");
    }
}
