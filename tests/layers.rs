//! Calls of matrix products as seen in a run: exact numbers and shapes, whatever library and convention.

#[path = "common/cli.rs"]
mod cli;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cli::{Sandbox, status, stderr, stdout};
use serde_json::Value;

/// The reference BLAS of Debian, whose C interface calls its Fortran.
const REFERENCE: &str = "/usr/lib/x86_64-linux-gnu/blas";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/blas").join(name)
}

/// `name` compiled in `sandbox`; `None`: its library is not installed.
fn compiled(sandbox: &Sandbox, name: &str, options: &[&str]) -> Option<PathBuf> {
    let program = sandbox.path().join("program");
    let mut command = Command::new("cc");
    let output = command.args(["-O2", "-g", "-o"]).arg(&program).arg(fixture(name)).args(options).output().unwrap();
    if !output.status.success() {
        println!("SKIPPED: packages: {name} cannot be built: {}", stderr(&output));
    }
    output.status.success().then_some(program)
}

/// Calls by (caller, function, shape) of a counted run; a shape is `m,n,k,transposes`, or `others`.
fn counted(sandbox: &Sandbox, setting: &str, command: &str) -> BTreeMap<(String, String, String), u64> {
    let rprof = env!("CARGO_BIN_EXE_rprof");
    let script = format!("{setting} {rprof} --passes counted --memory off --quiet -- {command}");
    let output = sandbox.shell(&script).output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let native = sandbox.shell(&format!("{setting} {command}")).output().unwrap();
    assert_eq!(stdout(&output), stdout(&native));
    calls(&sandbox.profile("rprof.out"))
}

fn calls(profile: &Value) -> BTreeMap<(String, String, String), u64> {
    let mut calls = BTreeMap::new();
    for product in profile["blas"]["products"].as_array().unwrap_or(&Vec::new()) {
        let shape = &product["shape"];
        let shape = match shape["m"].as_u64() {
            Some(m) => format!("{m},{},{},{}", shape["n"], shape["k"], shape["transposes"].as_str().unwrap()),
            None => "others".into(),
        };
        let text = |key: &str| product[key].as_str().unwrap().to_owned();
        *calls.entry((text("caller"), text("call"), shape)).or_insert(0) += product["calls"].as_u64().unwrap();
        assert_eq!(product["calls"], product["timed_calls"], "{product}");
    }
    calls
}

fn assert_calls_of_products(found: &BTreeMap<(String, String, String), u64>) {
    let mut expected = BTreeMap::new();
    let mut add = |caller: &str, call: &str, shape: &str, calls: u64| {
        expected.insert((caller.to_owned(), call.to_owned(), shape.to_owned()), calls);
    };
    add("rows", "cblas_dgemm", "128,50,200,NT", 100);
    add("rows", "cblas_dgemm", "20,30,40,NT", 60);
    add("columns", "dgemm_", "10,20,30,TN", 21);
    add("columns", "dgemm_", "11,20,30,TN", 20);
    add("vector", "cblas_sgemv", "200,100,null,T", 1000);
    add("fortran_vector", "sgemv_", "60,70,null,N", 7);
    add("complex_product", "cblas_zgemm", "11,12,13,NN", 5);
    add("main", "cblas_dgemm", "40,41,42,NN", 3);
    (1..=64).for_each(|m| add("many", "cblas_dgemm", &format!("{m},3,5,NN"), 2));
    add("many", "cblas_dgemm", "others", 12);
    assert_eq!(*found, expected);
}

#[test]
fn calls_and_shapes_are_exact_with_openblas() {
    let sandbox = Sandbox::new();
    let Some(program) = compiled(&sandbox, "products.c", &["-lopenblas", "-lpthread"]) else { return };
    for setting in ["OPENBLAS_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=2"] {
        assert_calls_of_products(&counted(&sandbox, setting, &program.display().to_string()));
    }
    let report = sandbox.whole_report("rprof.out");
    let row = report.lines().find(|line| line.contains("128 × 50 × 200 NT")).expect("a row of the table");
    assert!(row.contains("cblas_dgemm in rows") && row.contains(" 100 "), "{row}");
}

#[test]
fn a_product_within_another_counts_once() {
    let sandbox = Sandbox::new();
    if !Path::new(REFERENCE).join("libblas.so.3").exists() {
        println!("SKIPPED: packages: the reference BLAS is not installed");
        return;
    }
    let Some(program) = compiled(&sandbox, "products.c", &["-lblas", "-lpthread"]) else { return };
    let setting = format!("LD_LIBRARY_PATH={REFERENCE}");
    assert_calls_of_products(&counted(&sandbox, &setting, &program.display().to_string()));
}

#[test]
fn a_program_s_own_functions_with_such_names_are_left_alone() {
    let sandbox = Sandbox::new();
    let Some(program) = compiled(&sandbox, "own.c", &[]) else { return };
    assert_eq!(counted(&sandbox, "", &program.display().to_string()), BTreeMap::new());
}

#[test]
fn shapes_of_numpy_are_exact() {
    let python = "/usr/bin/python3";
    if !Command::new(python).args(["-c", "import numpy"]).output().is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: packages: Debian's NumPy is not installed");
        return;
    }
    let sandbox = Sandbox::new();
    let command = format!("{python} {}", fixture("products.py").display());
    let mut by_shape = BTreeMap::new();
    for ((_, call, shape), calls) in counted(&sandbox, "OPENBLAS_NUM_THREADS=1", &command) {
        let call = call.trim_start_matches("scipy_").trim_end_matches("64_").to_owned();
        *by_shape.entry((call, shape)).or_insert(0) += calls;
    }
    let expected = [
        ("cblas_dgemv", "200,300,null,N", 30),
        ("cblas_sgemm", "128,10,50,NN", 100),
        ("cblas_sgemm", "128,50,50,NN", 400),
        ("cblas_sgemm", "128,50,784,NN", 100),
    ];
    // NumPy tries its BLAS with a small product when it is imported; row-major vectors are passed transposed.
    by_shape.retain(|(call, _), _| call != "cblas_ddot");
    for (call, shape, calls) in expected {
        let other = shape.replace("200,300,null,N", "300,200,null,T");
        let found = by_shape.remove(&(call.into(), shape.into())).or_else(|| by_shape.remove(&(call.into(), other)));
        assert_eq!(found, Some(calls), "{call} {shape}; {by_shape:?}");
    }
    assert_eq!(by_shape, BTreeMap::new());
}
