//! Pages touched: exact against a set of all pages, sampled against exact.

use std::collections::HashSet;

use crate::feed::{simulate, simulate_selecting};
use crate::kernels::{self, host};
use rprof::memory::{CacheModel, LastLevelPolicy, PageColoring};
use rprof::profile::evidence::memory::MemoryEvidence;
use rprof::profile::evidence::pages::Estimate;

/// Number of kernels, the first ones, that go through memory once, all of it within the opening.
const STREAMS: usize = 8;

/// Pages of the accesses of `run` by the instruction `site`, or by all.
fn touched(run: fn(kernels::Emit), site: Option<u32>) -> f64 {
    let mut pages = HashSet::new();
    run(&mut |access| {
        if site.is_none_or(|site| site == access.site) {
            pages.extend(access.address >> 12..=(access.address + u64::from(access.bytes.max(1)) - 1) >> 12);
        }
    });
    pages.len() as f64
}

fn pages(evidence: &MemoryEvidence, site: Option<u32>) -> Estimate {
    let wanted = evidence.pages.sites.iter().filter(|s| site.is_none_or(|site| s.at.offset == u64::from(site)));
    evidence.pages.union(wanted)
}

#[test]
fn exact_pages_are_those_of_the_program() {
    for kernel in kernels::all() {
        let model = CacheModel::exact(host(LastLevelPolicy::Victim), PageColoring::SmallPages, Vec::new());
        let evidence = simulate(model, kernel.run);
        for site in [None, Some(0), Some(1)] {
            let expected = Estimate { pages: touched(kernel.run, site), error: None, sampled: false };
            assert_eq!(pages(&evidence, site), expected, "{} {site:?}", kernel.name);
        }
    }
}

#[test]
fn sampled_pages_are_a_lower_bound_and_streams_are_complete() {
    for (i, kernel) in kernels::all().iter().enumerate() {
        let model = CacheModel::sampled(host(LastLevelPolicy::Victim), PageColoring::SmallPages, Vec::new());
        let (found, all) = (pages(&simulate_selecting(model, kernel.run), None), touched(kernel.run, None));
        println!("{:<26} {all:>6} pages, {:.1} sampled", kernel.name, found.pages);
        assert!(found.sampled && found.error.is_none());
        assert!(found.pages > 0.0 && found.pages <= 1.02 * all, "{}: {} of {all}", kernel.name, found.pages);
        // The others go on to pages in pauses, or touch a line of a page that the sample does not have.
        assert!(i >= STREAMS || found.pages == all, "{}: {} of {all}", kernel.name, found.pages);
    }
}
