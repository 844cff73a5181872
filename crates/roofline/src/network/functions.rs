//! Adds up work and communication below each function that communicates.

use std::collections::{BTreeMap, BTreeSet};

use super::below::{Below, Id};
use super::{cost, ranks_of_a_host};
use rprof_profile::communication::{Communication, NetworkSeconds};
use rprof_profile::mpi::{CallSite, Mpi};
use rprof_profile::network::Network;
use rprof_profile::{Function, Profile};

/// Most functions that are listed.
const MOST: usize = 40;
/// Functions with seconds that differ by less than this share are the same work.
const SAME: f64 = 0.05;
/// Frames below `main`, which belong to no program.
const START: [&str; 3] = ["_start", "__libc_start_call_main", "__libc_start_main"];

/// Functions by the seconds in MPI below them.
pub fn of(profile: &Profile) -> Vec<Communication> {
    let Some(mpi) = &profile.mpi else { return Vec::new() };
    let sites: Vec<&CallSite> = mpi.sites.iter().filter(|site| site.is_communication()).collect();
    let callers = sites.iter().map(|site| (site.caller.clone(), site.module.clone())).collect();
    let below = Below::of(profile, &callers);
    let mut sums = Sums::default();
    for site in &sites {
        sums.add_site(site, (mpi, profile.network.as_ref()), &below);
    }
    let communicate: BTreeSet<Id> = sums.of.keys().copied().collect();
    for function in &profile.functions {
        sums.add_work(function, &below, &communicate);
    }
    sums.finish(&below)
}

#[derive(Debug, Default)]
struct Sums {
    of: BTreeMap<Id, Sum>,
}

/// Below one function.
#[derive(Debug, Default)]
struct Sum {
    calls_mpi: bool,
    work_s: Option<f64>,
    bound_s: f64,
    flops: Option<f64>,
    dram_bytes: Option<f64>,
    mpi_s: f64,
    waiting_s: Known<f64>,
    bytes: Known<f64>,
    network: Known<NetworkSeconds>,
}

/// A sum that one unknown part makes unknown.
#[derive(Debug, Default)]
struct Known<T> {
    sum: T,
    is_unknown: bool,
}

impl Known<f64> {
    fn add(&mut self, value: Option<f64>, share: f64) {
        self.is_unknown |= value.is_none();
        self.sum += share * value.unwrap_or(0.0);
    }
}

impl<T: Copy> Known<T> {
    fn get(&self) -> Option<T> {
        (!self.is_unknown).then_some(self.sum)
    }
}

/// The functions that a share of something lies below; without samples, the function `own` alone.
fn shared(shares: Option<Vec<(Id, f64)>>, own: Option<Id>) -> Vec<(Id, f64)> {
    shares.unwrap_or_else(|| own.map(|own| (own, 1.0)).into_iter().collect())
}

impl Sums {
    fn add_site(&mut self, site: &CallSite, (mpi, network): (&Mpi, Option<&Network>), below: &Below) {
        let own = below.find(&site.caller, &site.module);
        let cost = network.and_then(|n| cost::of_site(site, n, ranks_of_a_host(n)));
        for (id, share) in shared(below.on_stack(&site.caller, &site.module), own) {
            let sum = self.of.entry(id).or_default();
            sum.calls_mpi |= Some(id) == own;
            sum.mpi_s += share * mpi.timed_s(site).unwrap_or(0.0);
            sum.waiting_s.add(mpi.timed_waiting_s(site), share);
            sum.bytes.add(site.bytes.map(|bytes| bytes as f64), share);
            sum.network.is_unknown |= cost.is_none();
            sum.network.sum.add(cost.unwrap_or_default(), share);
        }
    }

    fn add_work(&mut self, function: &Function, below: &Below, communicate: &BTreeSet<Id>) {
        let own = below.find(&function.name, &function.module);
        for (id, share) in shared(below.work(&function.name, &function.module), own) {
            if !communicate.contains(&id) {
                continue;
            }
            let sum = self.of.entry(id).or_default();
            let add = |to: &mut Option<f64>, value: Option<f64>| {
                if let Some(value) = value {
                    *to = Some(to.unwrap_or(0.0) + share * value);
                }
            };
            add(&mut sum.work_s, function.cpu_s);
            add(&mut sum.flops, function.flops.map(|flops| flops.total as f64));
            add(&mut sum.dram_bytes, function.bytes.and_then(|bytes| bytes.dram).map(|bytes| bytes as f64));
            // Time that no ceiling explains is taken as it is.
            let fraction = function.analysis.roof_fraction.map_or(1.0, |fraction| fraction.min(1.0));
            sum.bound_s += share * fraction * function.cpu_s.unwrap_or(0.0);
        }
    }

    fn finish(self, below: &Below) -> Vec<Communication> {
        let mut all: Vec<(usize, Communication)> =
            self.of.into_iter().map(|(id, sum)| (below.depth(id), sum.finish(below.function(id).clone()))).collect();
        // Of functions that do nothing but call the next one, the last remains.
        all.sort_by(|(a, of_a), (b, of_b)| of_b.mpi_s.total_cmp(&of_a.mpi_s).then(b.cmp(a)));
        let mut listed: Vec<Communication> = Vec::new();
        for (_, one) in all {
            let is_same = |a: f64, b: f64| (a - b).abs() <= SAME * a.max(b);
            let only_calls = |other: &Communication| {
                is_same(one.mpi_s, other.mpi_s) && is_same(one.work_s.unwrap_or(0.0), other.work_s.unwrap_or(0.0))
            };
            let is_start = START.iter().any(|start| one.name.starts_with(start));
            if one.calls_mpi || !is_start && !listed.iter().any(only_calls) {
                listed.push(one);
            }
        }
        listed.truncate(MOST);
        listed
    }
}

impl Sum {
    fn finish(self, (name, module): (String, String)) -> Communication {
        let per = |of: Option<f64>, by: Option<f64>| of.zip(by.filter(|by| *by > 0.0)).map(|(of, by)| of / by);
        let (bytes, network) = (self.bytes.get(), self.network.get());
        let work_s = self.work_s.unwrap_or(0.0);
        let bound_s = network.map(|network| {
            let blocking = network.seconds() - network.overlappable_s;
            self.bound_s.max(network.overlappable_s) + blocking
        });
        Communication {
            name,
            module,
            calls_mpi: self.calls_mpi,
            work_s: self.work_s,
            mpi_s: self.mpi_s,
            waiting_s: self.waiting_s.get(),
            network,
            flops: self.flops,
            dram_bytes: self.dram_bytes,
            bytes,
            oi: per(self.flops, self.dram_bytes),
            cai: per(self.flops, bytes),
            bound_s,
            roof_fraction: per(bound_s, Some(work_s + self.mpi_s)),
            class: None,
        }
    }
}
