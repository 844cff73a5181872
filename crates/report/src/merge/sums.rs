//! Figures of two parts of a merge as one.

use std::ops::Add;

use super::jobs::Arrangement;
use rprof_profile::counters::Counter;
use rprof_profile::function::Source;
use rprof_profile::pages::Pages;

/// Both, or nothing: a part that was not measured makes the whole unknown, not smaller.
pub fn both<T>(a: Option<T>, b: Option<T>, f: impl FnOnce(T, T) -> T) -> Option<T> {
    a.zip(b).map(|(a, b)| f(a, b))
}

pub fn sum<T: Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
    both(a, b, |a, b| a + b)
}

/// Ranks have memory of their own; runs of a program are assumed to touch the same pages again.
pub fn pages(a: Pages, b: Pages, arrangement: Arrangement) -> Pages {
    match arrangement {
        Arrangement::SideBySide => a.beside(b),
        Arrangement::InTurn => a.larger(b),
    }
}

/// Makes the numbers of threads in `counters` greater by `threads`.
pub fn shift(counters: &mut [Counter], threads: u32) {
    counters.iter_mut().flat_map(|counter| &mut counter.per_thread).for_each(|part| part.thread += threads);
}

/// Counters of one name add up; a counter missing in one part is unknown for the whole.
pub fn counters(into: &mut Vec<Counter>, others: Vec<Counter>) {
    let known = |c: &Counter| others.iter().any(|o| o.event == c.event);
    into.iter_mut().filter(|c| !known(c)).for_each(|c| lose(c, "a part of the merge has no such counter"));
    for mut other in others {
        match into.iter_mut().find(|c| c.event == other.event) {
            Some(counter) => add_counter(counter, other),
            None => {
                lose(&mut other, "a part of the merge has no such counter");
                into.push(other);
            }
        }
    }
}

fn lose(counter: &mut Counter, reason: &str) {
    if counter.value.is_some() {
        counter.source = Source::not_measured(reason);
    }
    (counter.value, counter.ratio, counter.raw) = (None, None, None);
}

fn add_counter(into: &mut Counter, other: Counter) {
    if into.value.is_some() && other.value.is_none() {
        into.source = other.source.clone();
    }
    let error = |c: &Counter| c.value.zip(c.source.error).map_or(0.0, |(v, e)| v * e);
    let absolute = error(into).hypot(error(&other));
    into.value = sum(into.value, other.value);
    into.counted = sum(into.counted, other.counted);
    into.ratio = into.value.zip(into.counted).filter(|(_, c)| *c > 0.0).map(|(v, c)| v / c);
    into.raw = sum(into.raw, other.raw);
    into.background = sum(into.background, other.background);
    into.running_share = both(into.running_share, other.running_share, f64::min);
    into.unattributed = both(into.unattributed, other.unattributed, f64::max);
    into.balance = both(into.balance, other.balance, f64::min);
    into.certified &= other.certified;
    into.source.error = into.value.filter(|v| *v > 0.0 && absolute > 0.0).map(|v| absolute / v);
    into.per_thread.extend(other.per_thread);
}
