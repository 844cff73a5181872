//! The account of a function's time as lines of text.

use rprof_profile::Function;
use rprof_profile::account::Account;

use super::number::{percent, seconds};

/// Causes below this share of the modelled time are not listed.
const LEAST: f64 = 0.03;
/// Time in the kernel below this share of the time at work is not mentioned.
const LEAST_KERNEL: f64 = 0.05;

/// `time: mispredict 62 %, chain 20 %, ports 11 % (the core model gives 0.57 of 0.59 s, ± 4 %)` and the time in the kernel, if any.
/// Empty if nothing was replayed.
pub fn lines(function: &Function) -> Vec<String> {
    let replayed = function.account.as_ref().and_then(|account| Some((account, function.cpu_s?)));
    replayed.map(|(account, cpu_s)| of_model(account, cpu_s)).into_iter().chain(kernel(function)).collect()
}

fn of_model(account: &Account, cpu_s: f64) -> String {
    let mut parts: Vec<(&str, f64)> =
        account.parts.iter().map(|(cause, s)| (cause.name(), s / account.model_s)).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown: Vec<String> = parts
        .iter()
        .filter(|(_, share)| *share >= LEAST)
        .map(|(name, share)| format!("{name} {}", percent(*share)))
        .collect();
    let error = account.error.map_or(String::new(), |e| format!(", ± {}", percent(e)));
    format!(
        "time: {} (the core model gives {} of {}{error})",
        shown.join(", "),
        seconds(account.model_s),
        seconds(cpu_s)
    )
}

fn kernel(function: &Function) -> Option<String> {
    let kernel_s = function.kernel_s?;
    if kernel_s < LEAST_KERNEL * function.cpu_s.unwrap_or(0.0) || kernel_s <= 0.0 {
        return None;
    }
    let faults = function.fault_s.filter(|s| *s > 0.0);
    let faults = faults.map_or(String::new(), |s| format!(", {} of it in page faults", seconds(s)));
    Some(format!("in the kernel besides: {}{faults}", seconds(kernel_s)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::account::Cause;

    #[test]
    fn the_largest_cause_comes_first_and_small_ones_are_left_out() {
        let parts = [(Cause::Base, 0.1), (Cause::Mispredict, 0.39), (Cause::Tlb, 0.01)].into();
        let account = Account { model_s: 0.5, error: Some(0.04), parts, ..Account::default() };
        let function = Function {
            cpu_s: Some(0.52),
            kernel_s: Some(0.2),
            fault_s: Some(0.15),
            account: Some(account),
            ..Function::default()
        };
        assert_eq!(
            lines(&function),
            [
                "time: mispredict 78 %, base 20 % (the core model gives 500 ms of 520 ms, ± 4.0 %)",
                "in the kernel besides: 200 ms, 150 ms of it in page faults"
            ]
        );
        assert!(lines(&Function { kernel_s: Some(0.0), ..Function::default() }).is_empty());
    }
}
