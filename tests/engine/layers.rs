//! Calls of matrix products as seen in a run: exact numbers and shapes, whatever library and convention. Layers that are predicted, and
//! input that is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cli::{Sandbox, status, stderr, stdout};

/// The reference BLAS of Debian: its C interface calls its Fortran.
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

/// The output of `rprof predict` with `arguments`.
fn predicted(sandbox: &Sandbox, arguments: &[&str]) -> std::process::Output {
    sandbox.run([&["predict"], arguments].concat())
}

fn has_openblas(sandbox: &Sandbox) -> bool {
    let is_there = compiled(sandbox, "products.c", &["-lopenblas", "-lpthread"]).is_some();
    let _ = std::fs::remove_file(sandbox.path().join("program"));
    is_there
}

#[test]
fn a_table_of_layers_is_predicted() {
    let sandbox = Sandbox::new();
    if !has_openblas(&sandbox) {
        return;
    }
    let table = "batch = 64\nlayers = [\n{ name = \"fc\", gemm = [64, 50, 784], calls = 3 },\n{ relu = 3200 },\n]\n";
    sandbox.file("net.toml", table, 0o644);
    let output = predicted(&sandbox, &["net.toml", "--scale", "batch=128", "--threads", "1", "--json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let of = |key: &str| found["layers"].as_array().unwrap().iter().map(|l| l[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("work"), ["128 × 50 × 784 NN", "relu 6400"]);
    assert_eq!((&found["batch"], &found["threads"]), (&Value::from(128), &Value::from(1)));
    let seconds: Vec<f64> = of("seconds").iter().map(|s| s.as_f64().unwrap()).collect();
    let sum = 3.0 * seconds[0] + seconds[1];
    assert!(
        (found["seconds"].as_f64().unwrap() - sum).abs() < 1e-12 * sum.max(1.0) && seconds.iter().all(|s| *s > 0.0)
    );
    let text = stdout(&predicted(&sandbox, &["net.toml"]));
    assert!(text.starts_with("Predicted: ") && text.contains("time an item, all layers: × "), "{text}");
}

#[test]
fn a_profile_s_products_are_predicted_with_another_batch() {
    let sandbox = Sandbox::new();
    let Some(program) = compiled(&sandbox, "products.c", &["-lopenblas", "-lpthread"]) else { return };
    counted(&sandbox, "OPENBLAS_NUM_THREADS=1", &program.display().to_string());
    let output = predicted(&sandbox, &["rprof.out", "--scale", "batch=256", "--batch-dimension", "m", "--json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let layers = found["layers"].as_array().unwrap();
    let scaled =
        layers.iter().find(|layer| layer["work"].as_str().unwrap().starts_with("256 × ")).expect("a scaled layer");
    assert_eq!(scaled["seen_s"], Value::Null, "{scaled}");
    assert!(layers.iter().any(|layer| layer["seen_s"].is_number()), "others stay as they are");
    assert!(found["library"].as_str().unwrap().contains("blas"), "{found}");
}

#[test]
fn input_that_cannot_be_predicted_gets_one_line() {
    let sandbox = Sandbox::new();
    sandbox.file("empty.toml", "layers = []", 0o644);
    sandbox.file("zero.toml", "layers = [{ gemm = [0, 1, 1] }]", 0o644);
    sandbox.file("relu.toml", "layers = [{ relu = 10 }]", 0o644);
    sandbox.file("fc.toml", "layers = [{ gemm = [4, 4, 4] }]", 0o644);
    sandbox.file("cut.onnx", b"\x3a\xff\x01abc", 0o644);
    for (arguments, part) in [
        (&["missing.toml"][..], "missing.toml"),
        (&["empty.toml"], "no layers"),
        (&["zero.toml"], "a size of 0"),
        (&["relu.toml", "--scale", "batch=3"], "--scale batch=3"),
        (&["fc.toml", "--blas", "/no/library.so"], "--blas PATH"),
        (&["fc.toml", "--scale", "m=3"], "only batch"),
        (&["cut.onnx"], "no ONNX model"),
        (&["cut.onnx", "--axis", "N=0"], "--axis"),
        (&["cut.onnx", "--axis", "N=1", "--axis", "N=2"], "--axis N: it is given twice"),
        (&["fc.toml", "--axis", "N=1"], "--axis N: a table of layers has no free dimensions"),
        (&[".", "--axis", "N=1"], "--axis N: a profile has no free dimensions"),
    ] {
        let output = predicted(&sandbox, arguments);
        let text = stderr(&output);
        assert_ne!(status(&output), 0, "{arguments:?}");
        assert!(text.contains(part) && text.trim_end().lines().count() == 1, "{arguments:?}: {text}");
    }
}
