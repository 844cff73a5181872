//! The check before kernels are counted: CUPTI must show the right counts for a kernel with known code.
//!
//! It is run in a process of rprof's own, with the CUPTI that the program would be given. A program that brings another one is counted
//! with that: then its counts rest on the test of equal counts alone (`counted.rs`).

use super::counted::{self, Means};
use super::groups::{self, Group};
use super::log::Log;
use super::refusals;
use rprof_profile::device::Uncounted;

/// Short names of [`groups::FLOATING_POINT`].
const INSTRUCTIONS: [&str; 9] = ["DADD", "DMUL", "DFMA", "FADD", "FMUL", "FFMA", "HADD2", "HMUL2", "HFMA2"];
/// Of these, half precision begins here: compilers may spell it by other instructions of half precision, and add moves.
const HALF: usize = 6;

/// The group that is checked.
pub fn group() -> Group {
    let metrics = groups::FLOATING_POINT.iter().map(|(name, _)| *name).collect();
    Group { launches: 1, condition: None, metrics }
}

/// Whether `logs`, of a process that launched the kernel `symbol` alone, let counts be trusted. `expected`: the instructions of a launch.
///
/// # Errors
/// Its counts are wrong, or no user may count on this host. A check that could not be made says nothing.
pub fn verdict(logs: &[Log], symbol: &str, expected: &[f64; 9]) -> Result<(), Uncounted> {
    let Some(means) = counted::means_of(logs, symbol) else {
        return counted::refused(logs, refusals::is_of_the_host).map_or(Ok(()), Err);
    };
    let wrong = differences(&means, expected);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Uncounted {
        reason: format!("CUPTI's counts contradict the code of a known kernel: {}", wrong.join(", ")),
        fix: "use another version of CUPTI (RPROF_CUPTI)".into(),
    })
}

fn differences(means: &Means, expected: &[f64; 9]) -> Vec<String> {
    let seen: Vec<Option<f64>> =
        groups::FLOATING_POINT.iter().map(|(metric, _)| counted::mean(means, metric)).collect();
    let said = |name: &str, seen: Option<f64>, expected: f64| {
        format!("{name} {} instead of {expected}", seen.map_or("missing".into(), |n| n.to_string()))
    };
    let exact =
        (0..HALF).filter(|i| seen[*i] != Some(expected[*i])).map(|i| said(INSTRUCTIONS[i], seen[i], expected[i]));
    let found: Option<f64> = seen[HALF..].iter().copied().sum();
    let least: f64 = expected[HALF..].iter().sum();
    let fewer = found.is_none_or(|found| found < least).then(|| said("half precision", found, least));
    exact.chain(fewer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{Launched, Record};

    const EXPECTED: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];

    fn log(values: &[f64]) -> Log {
        let metric = |name: &&'static str| Record::Metric { group: 0, name: (*name).into() };
        let mut records = vec![Record::Name { id: 1, text: "mix".into() }];
        records.extend(group().metrics.iter().map(metric));
        records.push(Record::Range { group: 0, name: 1, launched: Launched::default(), values: values.into() });
        Log { records, damage: None }
    }

    #[test]
    fn right_counts_pass_and_moves_of_constants_do_not_matter() {
        assert_eq!(verdict(&[log(&EXPECTED)], "mix", &EXPECTED), Ok(()));
        let spelt_otherwise = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0, 8.0, 17.0];
        assert_eq!(verdict(&[log(&spelt_otherwise)], "mix", &EXPECTED), Ok(()));
    }

    #[test]
    fn counts_of_the_first_metric_in_all_columns_are_refused() {
        let why = verdict(&[log(&[1.0; 9])], "mix", &EXPECTED).expect_err("they are wrong");
        assert!(
            why.reason.contains("DMUL 1 instead of 2, ") && why.reason.contains("half precision 3 instead of 24"),
            "{why:?}"
        );
    }

    #[test]
    fn a_check_that_could_not_be_made_says_nothing_unless_nobody_may_count() {
        let failed = |step, result| Log { records: vec![Record::Failed { step, detail: 0, result }], damage: None };
        assert_eq!(verdict(&[], "mix", &EXPECTED), Ok(()));
        assert_eq!(verdict(&[failed(1, 1)], "mix", &EXPECTED), Ok(()), "the program may bring CUPTI");
        assert_eq!(verdict(&[failed(2, 3)], "mix", &EXPECTED), Ok(()), "the program may bring a newer one");
        for (step, result) in [(6, 35), (9, 43), (17, 0x133_1333)] {
            let why = verdict(&[failed(step, result)], "mix", &EXPECTED).expect_err("nobody may count");
            assert!(why.reason.len() > 20 && why.fix.len() > 10, "{why:?}");
        }
    }
}
