//! What one run gives: cycles by function and cause.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rprof_profile::Profile;
use rprof_profile::account::{Account, Cause};
use rprof_profile::function::Function;
use serde::{Deserialize, Serialize};

/// The form of the file. Fields may be added; none changes its meaning without another number.
pub const SCHEMA: &str = "rprof-gate/1";

/// The cycles of the reference core in a second: its clock is 1 GHz, so that seconds of the model are cycles.
const CYCLES_A_SECOND: f64 = 1e9;
/// Standard errors in half the width of a 95 % interval.
pub(crate) const NORMAL_95: f64 = 1.96;

/// What has to be equal for two results to be comparable, and how the run was held still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// The reference core: its name and version.
    pub core: String,
    /// Features of the reference core that the program was told of, by name, in order.
    pub features: Vec<String>,
    /// Features of the reference core that this host lacks.
    pub missing_features: Vec<String>,
    /// Whether stack, heap and libraries lay at the same addresses as in every run: the kernel may refuse that.
    pub fixed_addresses: bool,
}

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    pub schema: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub conditions: Conditions,
    /// Instructions of the program, counted.
    pub instructions: u64,
    /// Share of them in functions with modelled cycles, 0 to 1.
    pub modelled_share: f64,
    /// Cycles of the whole program: what functions are given, and the rest of the instructions at their mean. `null` if nothing was
    /// modelled.
    pub cycles: Option<Estimate>,
    /// Cycles by cause, of functions with modelled cycles.
    pub causes: BTreeMap<Cause, f64>,
    /// Functions, most cycles first.
    pub functions: Vec<GateFunction>,
    /// The bursts that the cycles come from.
    pub sampled: SampledBursts,
    /// Doubts, in sentences.
    pub warnings: Vec<String>,
}

/// The bursts of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SampledBursts {
    /// Each burst stands for so many slots of instructions; with 1, the run was replayed whole.
    pub slots: u64,
    pub bursts: Vec<GateBurst>,
}

/// A burst.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GateBurst {
    /// Number of the thread in the order of their beginnings.
    pub thread: u32,
    /// Where it lies: the same slot has the same instructions in two runs that do the same until then.
    pub slot: u64,
    /// Modelled.
    pub cycles: f64,
}

/// A figure with half the width of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    /// Of sampling: instructions are counted, cycles of an instruction come from bursts. `null` with a single burst.
    pub error: Option<f64>,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateFunction {
    pub name: String,
    /// File name of its module; `null` for the program itself, which may be called otherwise in the other build.
    pub module: Option<String>,
    /// Counted.
    pub instructions: u64,
    /// `null` if bursts met too few of its instructions.
    pub cycles: Option<Estimate>,
    /// Cycles by cause.
    pub causes: BTreeMap<Cause, f64>,
}

impl GateResult {
    /// The result of `profile`, which was counted and replayed on the reference core under `conditions`. `program`: its file name.
    pub fn new(profile: &Profile, program: &str, conditions: Conditions, sampled: SampledBursts) -> GateResult {
        let counted = profile.functions.iter().filter(|function| function.instructions.is_some_and(|n| n > 0));
        let mut functions = merged(counted.map(|function| gate_function(function, program)));
        functions.sort_by(|a, b| {
            let cycles = |function: &GateFunction| function.cycles.map_or(0.0, |cycles| cycles.value);
            cycles(b).total_cmp(&cycles(a)).then(b.instructions.cmp(&a.instructions)).then(a.name.cmp(&b.name))
        });
        let instructions = functions.iter().map(|function| function.instructions).sum();
        let modelled = || functions.iter().filter_map(|function| Some((function, function.cycles?)));
        let covered: u64 = modelled().map(|(function, _)| function.instructions).sum();
        let mut causes = BTreeMap::new();
        for (cause, cycles) in modelled().flat_map(|(function, _)| &function.causes) {
            *causes.entry(*cause).or_default() += cycles;
        }
        let modelled_share = covered as f64 / u64::max(instructions, 1) as f64;
        let cycles = (covered > 0).then(|| {
            let value: f64 = modelled().map(|(_, cycles)| cycles.value).sum();
            let variance: f64 = modelled().map(|(_, cycles)| cycles.error.unwrap_or(cycles.value).powi(2)).sum();
            Estimate { value: value / modelled_share, error: Some(variance.sqrt() / modelled_share) }
        });
        GateResult {
            schema: SCHEMA.into(),
            command: profile.run.command.clone(),
            conditions,
            instructions,
            modelled_share,
            cycles,
            causes,
            functions,
            sampled,
            warnings: profile.run.warnings.iter().map(|warning| warning.text.clone()).collect(),
        }
    }
}

/// One function for each name and module: static functions of one name cannot be told apart in the other build.
fn merged(functions: impl Iterator<Item = GateFunction>) -> Vec<GateFunction> {
    let mut by_name: BTreeMap<(String, Option<String>), GateFunction> = BTreeMap::new();
    for function in functions {
        match by_name.entry((function.name.clone(), function.module.clone())) {
            Entry::Vacant(place) => {
                place.insert(function);
            }
            Entry::Occupied(mut place) => {
                let known = place.get_mut();
                known.instructions += function.instructions;
                known.cycles = known.cycles.zip(function.cycles).map(|(a, b)| Estimate {
                    value: a.value + b.value,
                    error: a.error.zip(b.error).map(|(a, b)| a.hypot(b)),
                });
                for (cause, cycles) in function.causes {
                    *known.causes.entry(cause).or_default() += cycles;
                }
            }
        }
    }
    by_name.into_values().collect()
}

fn gate_function(function: &Function, program: &str) -> GateFunction {
    let account = function.account.as_ref();
    let of_cause = |account: &Account| {
        account.parts.iter().map(|(cause, seconds)| (*cause, seconds * CYCLES_A_SECOND)).collect::<BTreeMap<_, _>>()
    };
    let estimate = |account: &Account| {
        let value = account.model_s * CYCLES_A_SECOND;
        // What was replayed is not sampled (the correction for a finite population; Cochran, Sampling Techniques, 2.6).
        let replayed = account.instructions as f64 / function.instructions.unwrap_or(0).max(1) as f64;
        let of_sample = (1.0 - replayed).max(0.0).sqrt();
        let error = if of_sample == 0.0 { Some(0.0) } else { account.error };
        Estimate { value, error: error.map(|relative| NORMAL_95 * relative * of_sample * value) }
    };
    GateFunction {
        name: function.full_name.clone().unwrap_or_else(|| function.name.clone()),
        module: (function.module != program).then(|| function.module.clone()),
        instructions: function.instructions.unwrap_or(0),
        cycles: account.map(estimate),
        causes: account.map(of_cause).unwrap_or_default(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A function of the program with cycles that are known within `error`.
    pub(crate) fn function(name: &str, instructions: u64, causes: &[(Cause, f64)], error: f64) -> GateFunction {
        let value = causes.iter().map(|(_, cycles)| cycles).sum();
        let cycles = Some(Estimate { value, error: Some(error) });
        GateFunction { name: name.into(), module: None, instructions, cycles, causes: causes.iter().copied().collect() }
    }

    /// The result with these functions.
    pub(crate) fn result(functions: Vec<GateFunction>) -> GateResult {
        let conditions = Conditions {
            core: "test/1".into(),
            features: vec!["avx2".into()],
            missing_features: Vec::new(),
            fixed_addresses: true,
        };
        let cycles = functions.iter().filter_map(|function| function.cycles);
        let value = cycles.clone().map(|cycles| cycles.value).sum();
        let error = cycles.map(|cycles| cycles.error.unwrap_or(0.0).powi(2)).sum::<f64>().sqrt();
        GateResult {
            schema: SCHEMA.into(),
            command: vec!["./app".into(), "1 2".into()],
            conditions,
            instructions: functions.iter().map(|function| function.instructions).sum(),
            modelled_share: 1.0,
            cycles: Some(Estimate { value, error: Some(error) }),
            causes: BTreeMap::new(),
            functions,
            sampled: SampledBursts::default(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn functions_of_one_name_are_one() {
        let cases = [function("f", 10, &[(Cause::Base, 30.0)], 3.0), function("f", 5, &[(Cause::L3, 20.0)], 4.0)];
        let other = GateFunction { module: Some("libc.so.6".into()), ..cases[0].clone() };
        let merged = merged([cases[0].clone(), other.clone(), cases[1].clone()].into_iter());
        let both = function("f", 15, &[(Cause::Base, 30.0), (Cause::L3, 20.0)], 5.0);
        assert_eq!(merged, [both, other]);
        let unknown = GateFunction { cycles: None, ..cases[1].clone() };
        assert_eq!(super::merged([cases[0].clone(), unknown].into_iter())[0].cycles, None);
    }

    #[test]
    fn cycles_of_functions_are_summed_and_the_rest_counts_at_their_mean() {
        let account = |model_s: f64, error| Account {
            model_s,
            error,
            parts: [(Cause::Base, model_s / 4.0), (Cause::L3, 3.0 * model_s / 4.0)].into(),
            bursts: 5,
            // A quarter of what `small` executes.
            instructions: 250,
            ..Account::default()
        };
        let of = |name: &str, module: &str, instructions, account| Function {
            name: name.into(),
            module: module.into(),
            instructions: Some(instructions),
            account,
            ..Function::default()
        };
        let functions = vec![
            of("small", "libc.so.6", 1000, Some(account(1e-6, Some(0.1)))),
            of("main", "app", 3000, Some(account(6e-6, Some(0.0)))),
            of("unseen", "app", 1000, None),
            Function { name: "never counted".into(), ..Function::default() },
        ];
        let profile = Profile { functions, ..Profile::default() };
        let conditions = result(Vec::new()).conditions;
        let result = GateResult::new(&profile, "app", conditions, SampledBursts::default());
        let names: Vec<&str> = result.functions.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["main", "small", "unseen"]);
        assert_eq!(
            (result.functions[0].module.as_deref(), result.functions[1].module.as_deref()),
            (None, Some("libc.so.6"))
        );
        assert_eq!((result.instructions, result.functions[2].cycles), (5000, None));
        assert!((result.modelled_share - 0.8).abs() < 1e-12);
        let cycles = result.cycles.unwrap();
        assert!((cycles.value - 7000.0 / 0.8).abs() < 1e-6, "{cycles:?}");
        assert!((cycles.error.unwrap() - 196.0 * 0.75f64.sqrt() / 0.8).abs() < 1e-6, "{cycles:?}");
        assert!((result.causes[&Cause::L3] - 5250.0).abs() < 1e-6);
    }
}
