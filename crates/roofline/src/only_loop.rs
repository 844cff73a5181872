//! A function's only hot loop: it is what the function does, so what is known of the function holds for the loop, too.
//!
//! ```text
//! only hot loop    9/10 of the function's CPU time; without samples of both, 9/10 of its instructions
//! rate             the function's, if the loop has none of its own (its part of the counts is not known)
//! class            the function's, if the loop has none or `unknown`
//! ```

use rprof_profile::Function;
use rprof_profile::function::Source;
use rprof_profile::vocabulary::Class;

/// Share of a function from which a loop is all of it that is hot.
const MOST: f64 = 0.9;
/// Source of figures that are the function's.
const FUNCTION: &str = "its function's";

/// Completes the only hot loops of `function`, from the outermost one inwards. After the analysis of all of them.
pub fn complete(function: &mut Function) {
    let mut loops = std::mem::take(&mut function.loops);
    for inner in &mut loops {
        if is_all(inner, function) {
            take_over(inner, function);
        }
        complete(inner);
    }
    function.loops = loops;
}

fn is_all(inner: &Function, outer: &Function) -> bool {
    let share = |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|whole| *whole > 0.0)?);
    let instructions = |f: &Function| f.instructions.map(|n| n as f64);
    let part = share(inner.cpu_s, outer.cpu_s).or_else(|| share(instructions(inner), instructions(outer)));
    part.is_some_and(|part| part >= MOST)
}

fn take_over(inner: &mut Function, outer: &Function) {
    let source = || Source { how: FUNCTION.into(), error: None, reason: None };
    let (own, of_function) = (&mut inner.analysis, &outer.analysis);
    if own.flop_rate.is_none() && of_function.flop_rate.is_some() {
        own.flop_rate = of_function.flop_rate;
        own.axis = of_function.axis.clone();
        inner.source.insert("flop_rate".into(), source());
    }
    let is_known = |class: Option<Class>| class.is_some_and(Class::is_known);
    if !is_known(own.class) && is_known(of_function.class) {
        own.class = of_function.class;
        own.binding = of_function.binding.clone();
        own.roof_fraction = of_function.roof_fraction;
        own.confidence = of_function.confidence.clone();
        own.nearest = None;
        inner.source.insert("class".into(), source());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::function::Analysis;

    fn part(cpu_s: Option<f64>, instructions: Option<u64>, rate: Option<f64>, class: Option<Class>) -> Function {
        let axis = rate.map(|_| "flop".to_owned());
        let analysis =
            Analysis { flop_rate: rate, axis, class, roof_fraction: rate.map(|_| 0.7), ..Analysis::default() };
        Function { cpu_s, instructions, analysis, ..Function::default() }
    }

    fn known(f: &Function) -> (Option<f64>, Option<Class>) {
        (f.analysis.flop_rate, f.analysis.class)
    }

    #[test]
    fn the_only_hot_loop_has_what_the_function_has() {
        let mut f = part(Some(1.0), Some(1000), Some(2e9), Some(Class::Simd));
        // No part of the counts, of one loop in another.
        let mut outer = part(Some(0.97), None, None, Some(Class::Unknown));
        outer.loops = vec![part(Some(0.95), None, None, None)];
        f.loops = vec![outer, part(Some(0.01), None, None, Some(Class::Unknown))];
        complete(&mut f);
        assert_eq!(known(&f.loops[0]), (Some(2e9), Some(Class::Simd)));
        assert_eq!(known(&f.loops[0].loops[0]), (Some(2e9), Some(Class::Simd)));
        assert_eq!(known(&f.loops[1]), (None, Some(Class::Unknown)));
        assert_eq!(f.loops[0].source["class"].how, "its function's");
        assert_eq!(f.loops[0].analysis.roof_fraction, Some(0.7));
    }

    #[test]
    fn a_loop_keeps_its_own_figures_and_one_of_two_takes_over_nothing() {
        let mut f = part(Some(1.0), Some(1000), Some(2e9), Some(Class::Simd));
        f.loops = vec![part(Some(0.95), None, Some(3e9), Some(Class::Ilp))];
        complete(&mut f);
        assert_eq!(known(&f.loops[0]), (Some(3e9), Some(Class::Ilp)));
        f.loops = vec![part(Some(0.5), None, None, None), part(Some(0.5), None, None, None)];
        complete(&mut f);
        assert!(f.loops.iter().all(|l| known(l) == (None, None)));
        // Without samples the instructions tell.
        let mut f = part(None, Some(1000), None, Some(Class::Simd));
        f.loops =
            vec![part(None, Some(950), None, Some(Class::Unknown)), part(None, Some(10), None, Some(Class::Unknown))];
        complete(&mut f);
        assert_eq!([0, 1].map(|i| known(&f.loops[i]).1), [Some(Class::Simd), Some(Class::Unknown)]);
    }
}
