//! Calls through pointers that the processor predicts wrongly: the functions that they go to start late, and look as if they were held
//! themselves. The cause is their caller's.

use rprof_profile::Frame;
use rprof_profile::confidence::Level;
use rprof_profile::function::Function;
use rprof_profile::vocabulary::Class;

use super::advice;
use super::candidate::{Candidate, Interval};
use super::place::Place;
use super::program::Program;

/// The least part of a function's samples that come from one caller.
const MOSTLY: f64 = 0.8;
const WORDS: &str = "Call the same function many times in a row (sort by kind), or call directly (a switch, templates): calls through pointers go where nobody expects";

/// Of all candidates of mispredictions, makes one at each place that calls two or more of their functions through pointers.
pub fn give_to_callers(program: &Program<'_>, all: &mut Vec<Candidate>) {
    let mut callers: Vec<(Place, Vec<Candidate>)> = Vec::new();
    let mut rest: Vec<Candidate> = Vec::new();
    for candidate in all.drain(..) {
        let caller = if candidate.class == Class::Mispredict { caller(program, &candidate) } else { None };
        match caller {
            None => rest.push(candidate),
            Some(place) => match callers.iter_mut().find(|(known, _)| known.function == place.function) {
                Some((_, of)) => of.push(candidate),
                None => callers.push((place, vec![candidate])),
            },
        }
    }
    *all = rest;
    for (place, of) in callers {
        if of.len() < 2 { all.extend(of) } else { all.push(merged(program, place, &of)) }
    }
}

fn merged(program: &Program<'_>, place: Place, of: &[Candidate]) -> Candidate {
    let sum = |end: fn(Interval) -> f64| of.iter().filter_map(|one| one.saves_s).map(end).sum::<f64>();
    let held_s: f64 = of.iter().map(|one| one.held_s).sum();
    let most = sum(|saves| saves.most);
    let names: Vec<&str> = of.iter().filter_map(|one| one.place.as_ref()).map(|at| at.function.as_str()).collect();
    let because = format!(
        "{:.0} % of the time is in {}, which {} calls through pointers",
        100.0 * held_s / program.wall_s,
        names.join(", "),
        place.function
    );
    let seen = of.iter().flat_map(|one| one.because.last()).next().cloned();
    Candidate {
        class: Class::Mispredict,
        advice: Some(advice::sentence(WORDS, Some(&place))),
        place: Some(place),
        held_s,
        saves_s: (most > 0.0).then(|| Interval::narrow(sum(|saves| saves.least), most, program.wall_s)),
        confidence: of.iter().map(|one| one.confidence).min().unwrap_or(Level::Low),
        because: std::iter::once(because).chain(seen).collect(),
    }
}

/// The user's function that calls the one of `candidate`, mostly and through a pointer.
fn caller(program: &Program<'_>, candidate: &Candidate) -> Option<Place> {
    let place = candidate.place.as_ref()?;
    let symbol = place.symbol.as_deref()?;
    let is_callee = |frame: &Frame| frame.name == symbol && frame.module == place.module;
    let (mut all, mut sums) = (0.0, Vec::<(u32, f64)>::new());
    for sample in program.profile.samples.iter().filter(|sample| !sample.waiting) {
        let mut frames = program.frames(sample).filter(|(_, frame)| !frame.inlined);
        if !frames.next().is_some_and(|(_, frame)| is_callee(frame)) {
            continue;
        }
        all += sample.weight_s;
        let Some((number, _)) = frames.next() else { continue };
        match sums.iter_mut().find(|(known, _)| *known == number) {
            Some((_, sum)) => *sum += sample.weight_s,
            None => sums.push((number, sample.weight_s)),
        }
    }
    let (number, seconds) = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let frame = program.profile.frames.get(number as usize)?;
    let is_caller = |f: &&Function| f.name == frame.name && f.module == frame.module;
    let function = program.profile.functions.iter().find(is_caller).filter(|f| program.is_own(f))?;
    (seconds >= MOSTLY * all && calls_through_pointers(&function.loops)).then(|| Place::of_frame(frame))
}

/// Whether a loop has a call of an address in a register or in memory.
fn calls_through_pointers(loops: &[Function]) -> bool {
    let is_indirect = |text: &str| {
        let target = text.strip_prefix("call ").map(str::trim_start);
        target.is_some_and(|target| target.contains('[') || target.starts_with('r'))
    };
    loops.iter().any(|l| {
        let code = l.disassembly.iter().flat_map(|code| &code.instructions);
        code.into_iter().any(|i| is_indirect(&i.text)) || calls_through_pointers(&l.loops)
    })
}
