//! Names the call sites of matrix products.

use super::code_map::CodeMap;
use super::modules::Pass;
use rprof_profile::Function;
use rprof_profile::blas::{Blas, Dimensions, ProductCalls};
use rprof_profile::code::ModuleInfo;
use rprof_profile::evidence::blas::{BlasEvidence, BlasSite, Calls};

/// The calls of `evidence`, at places in `modules`; those of several threads are put together.
pub fn blas(evidence: &BlasEvidence, modules: &[ModuleInfo], code: &mut CodeMap) -> Blas {
    let mut blas = Blas::default();
    for site in &evidence.sites {
        let Some(unnamed) = named(site, modules, code) else { continue };
        let of = |shape: Option<&Dimensions>, calls: &Calls| ProductCalls {
            shape: shape.cloned(),
            calls: calls.calls,
            time_s: (calls.timed > 0).then_some(calls.time_s),
            timed_calls: calls.timed,
            median_s: calls.median_s,
            ..unnamed.clone()
        };
        let others = (site.others.calls > 0).then(|| of(None, &site.others));
        blas.add(site.shapes.iter().map(|(shape, calls)| of(Some(shape), calls)).chain(others));
    }
    blas
}

/// A thread computes if it has this part of the FLOPs of the thread with most.
const COMPUTES: f64 = 0.1;

/// The threads that products were computed in: those of the function with most FLOPs in their libraries, or of one named like a
/// kernel for products, which may be in another library than the entries. `None`: FLOPs were not counted.
pub fn threads(blas: &Blas, functions: &[Function]) -> Option<u32> {
    let is_kernel = |f: &Function| f.name.contains("gemm") || f.name.contains("gemv");
    let of_library =
        |f: &&Function| is_kernel(f) || blas.products.iter().any(|product| product.library_name() == f.module);
    let in_threads = |f: &Function| {
        let flops: Vec<u64> = f.per_thread.iter().filter_map(|t| t.flops).filter(|flops| *flops > 0).collect();
        let most = *flops.iter().max()?;
        let at_work = flops.iter().filter(|flops| **flops as f64 >= COMPUTES * most as f64).count();
        Some((most, at_work as u32))
    };
    functions.iter().filter(of_library).filter_map(in_threads).max().map(|(_, threads)| threads)
}

/// A call site with names, and without calls. `None`: its place is in no module.
fn named(site: &BlasSite, modules: &[ModuleInfo], code: &mut CodeMap) -> Option<ProductCalls> {
    let place = code.place(Pass::Counted, site.at)?;
    let function = code.function(place);
    let line = code.line(place);
    let known = code.known(function);
    Some(ProductCalls {
        call: site.function.clone(),
        library: modules.get(site.callee.module as usize).map_or_else(String::new, |module| module.path.clone()),
        caller: known.name.to_string(),
        module: known.module.to_string(),
        file: line.as_ref().map(|line| line.file.to_string()),
        line: line.map(|line| line.line),
        site: format!("{:#x}", site.at.offset),
        threads: 1,
        ..ProductCalls::default()
    })
}
