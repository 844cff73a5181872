//! Matrix products of BLAS: a line, and a table of shapes with what a better shape would change.

use super::name;
use super::number::{NOT_MEASURED, or_unmeasured, percent, seconds};
use super::regions::Rows;
use super::table;
use rprof_model::products;
use rprof_profile::Profile;
use rprof_profile::blas::{Blas, Dimensions, ProductCalls};

/// Rows of the table in Markdown and HTML.
pub const ROWS: usize = 40;
/// Shapes that get advice.
const ADVISED: usize = 6;
/// Advice is given from this share of the time on.
const WORTH: f64 = 0.01;
/// From this share of the time on the short report has a line.
const MUCH: f64 = 0.05;
const NAME_WIDTH: usize = 30;

/// Elapsed seconds of the run: natively, else counted.
fn elapsed(profile: &Profile) -> Option<f64> {
    let of = |kind: &str| profile.run.passes.iter().find(|pass| pass.kind == kind).map(|pass| pass.wall_s);
    of("timed").or_else(|| of("counted")).filter(|s| *s > 0.0)
}

/// The part of the elapsed time that a thread that calls is in these calls.
fn share(product: &ProductCalls, elapsed: Option<f64>) -> Option<f64> {
    let seconds = product.usual_s()? / f64::from(product.threads.max(1));
    Some((seconds / elapsed?).min(1.0))
}

fn threads(blas: &Blas) -> u32 {
    blas.threads.unwrap_or(1)
}

/// The shape, or its replacement.
fn shape(shape: Option<&Dimensions>) -> String {
    shape.map_or_else(|| "other shapes".into(), Dimensions::to_string)
}

/// The shapes with most time, at most `most`. `None`: no product was called.
pub fn rows(profile: &Profile, most: usize) -> Option<Rows> {
    let blas = profile.blas.as_ref().filter(|blas| !blas.products.is_empty())?;
    let elapsed = elapsed(profile);
    let at = |p: &ProductCalls| products::share_of_peak(p, &profile.machine, threads(blas));
    let row = |p: &ProductCalls| {
        vec![
            format!("{} in {}", name::printable(&p.call), name::shorten(&p.caller, NAME_WIDTH)),
            shape(p.shape.as_ref()),
            p.calls.to_string(),
            or_unmeasured(p.usual_s(), seconds),
            or_unmeasured(share(p, elapsed), percent),
            if p.shape.is_some() { or_unmeasured(at(p), percent) } else { "–".into() },
            place(p),
        ]
    };
    let shown = &blas.products[..most.min(blas.products.len())];
    let rows = shown.iter().map(row).collect();
    let mut notes: Vec<String> = advice(profile, blas, elapsed);
    if blas.at_least {
        notes.push("calls are lower limits: a process ran natively from some time on (see its warning)".into());
    }
    if blas.products.iter().any(|p| p.shape.is_none()) {
        notes.push("other shapes: those of a call site beyond its first 64".into());
    }
    notes.extend(table::rest(blas.products.len() - shown.len(), "shape"));
    notes.extend(table::faster("of peak", shown.iter().filter_map(at)));
    notes.push("time: calls × median call of the counted pass; share: of the elapsed time".into());
    let titles = ["call", "shape", "calls", "time", "share", "of peak", "where"];
    Some(Rows { title: title(blas), titles: titles.to_vec(), rows, words: vec![0, 1, 6], notes })
}

fn title(blas: &Blas) -> String {
    match blas.threads {
        Some(1) => "Matrix products (BLAS); peak: of one thread, which computed them".into(),
        Some(threads) => format!("Matrix products (BLAS); peak: of {threads} threads, which computed them"),
        None => "Matrix products (BLAS); peak: of one thread".into(),
    }
}

fn place(p: &ProductCalls) -> String {
    name::place(p.file.as_deref(), p.line).unwrap_or_else(|| format!("{}+{}", p.module, p.site))
}

/// The gains of better shapes, each shape once.
fn advice(profile: &Profile, blas: &Blas, elapsed: Option<f64>) -> Vec<String> {
    let mut shapes: Vec<&Dimensions> = Vec::new();
    let mut all = Vec::new();
    for product in &blas.products {
        let Some(dimensions) = &product.shape else { continue };
        let matters = share(product, elapsed).is_none_or(|share| share >= WORTH);
        if all.len() >= ADVISED || !matters || shapes.contains(&dimensions) {
            continue;
        }
        shapes.push(dimensions);
        let advice = products::advice(product, &profile.machine, threads(blas));
        all.extend(advice.map(|advice| format!("→ {}: {advice}", shape(Some(dimensions)))));
    }
    all
}

/// `Matrix products: 45 % of the time, most in cblas_sgemm 128 × 50 × 784 NN (100 calls in train), at 34 % of peak (--all).`
pub fn sentence(profile: &Profile) -> Option<String> {
    let blas = profile.blas.as_ref()?;
    let elapsed = elapsed(profile);
    let all = blas.products.iter().filter_map(|p| share(p, elapsed)).sum::<f64>().min(1.0);
    let most = blas.products.first().filter(|_| all >= MUCH)?;
    let at = products::share_of_peak(most, &profile.machine, threads(blas))
        .map_or_else(|| NOT_MEASURED.to_owned(), |share| format!("{} of peak", percent(share)));
    Some(format!(
        "Matrix products: {} of the time, most in {} {} ({} calls in {}): {at} (--all).",
        percent(all),
        name::printable(&most.call),
        shape(most.shape.as_ref()),
        most.calls,
        name::shorten(&most.caller, NAME_WIDTH),
    ))
}
