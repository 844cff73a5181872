//! Source lines of loops: the report gives a line of the function's own file, even if the code comes from a header.

use crate::cli::{Sandbox, function, status, stderr};

/// A dependent sum, far down in a header.
const HEADER: &str = "static inline __attribute__((always_inline)) double sum(const double *x, long n)
{
    double s = 0;
    for (long i = 0; i < n; i++)
        s += x[i & 63];
    return s;
}
";

/// The same as a part of a function.
const PART: &str = "for (long i = 0; i < n; i++)
    s += x[i & 63];
";

const PROGRAM: &str = "#include \"sum.h\"
__attribute__((noinline)) double inlined(const double *x, long n)
{
    return sum(x, n);
}
__attribute__((noinline)) double included(const double *x, long n)
{
    double s = x[n & 7] * 3;
#include \"part.inc\"
    return s;
}
int main(void)
{
    static double x[64];
    return inlined(x, 400000000) + included(x, 400000000) > 1;
}
";

#[test]
fn a_loop_is_named_by_a_line_that_its_file_has() {
    let sandbox = Sandbox::new();
    sandbox.file("sum.h", "\n".repeat(500) + HEADER, 0o644);
    sandbox.file("part.inc", "\n".repeat(700) + PART, 0o644);
    sandbox.file("sums.c", PROGRAM, 0o644);
    let compiled = sandbox.shell("cc -O2 -g -o sums sums.c").status().unwrap();
    assert!(compiled.success());
    let output = sandbox.run(["--memory", "off", "--passes", "both", "--", "./sums"]);
    let told = stderr(&output);
    assert_eq!(status(&output), 0, "{told}");

    let profile = sandbox.profile("rprof.out");
    for (name, loop_name, file, line, place) in [
        ("inlined", "inlined:4", "sums.c", 4, "the loop at sums.c:4 "),
        ("included", "included:part.inc:702", "part.inc", 702, "the loop at part.inc:702 "),
    ] {
        let found = function(&profile, name);
        assert!(found["file"].as_str().unwrap().ends_with("sums.c"), "{}", found["file"]);
        let inner = &found["loops"][0];
        assert_eq!((&inner["name"], &inner["line"]), (&loop_name.into(), &line.into()));
        assert!(inner["file"].as_str().unwrap().ends_with(file), "{}", inner["file"]);
        let advice = sandbox.whole_report("rprof.out");
        assert!(advice.contains(place), "{place}: {told}");
    }
}

/// A loop around one with an inlined function as its body.
const STEPS: &str = "#include <stdio.h>
static inline double step(double x)
{
    return x * 0.999 + 1;
}
__attribute__((noinline)) double loops(long n)
{
    double a = 1;
    for (long i = 0; i < n; i++)
        for (int k = 0; k < 100; k++)
            a = step(a);
    return a;
}
int main(void)
{
    printf(\"%.4f\\n\", loops(2000000));
}
";

#[test]
fn loops_have_their_own_lines_in_all_forms_of_debug_information() {
    let sandbox = Sandbox::new();
    sandbox.file("steps.c", STEPS, 0o644);
    let compilers = [
        "cc -O2 -g",
        "cc -O2 -g -Wl,--compress-debug-sections=zlib-gnu",
        "cc -O2 -g -ffunction-sections -Wl,--gc-sections",
        "clang -O2 -g",
    ];
    for compiler in compilers {
        let command = format!("{compiler} -o steps steps.c");
        if compiler.starts_with("clang") && !sandbox.shell("clang --version").status().unwrap().success() {
            println!("SKIPPED: packages: clang is not installed");
            continue;
        }
        assert!(sandbox.shell(&command).status().unwrap().success(), "{command}");
        let output = sandbox.run(["--passes", "timed", "-o", "r", "--", "./steps"]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let profile = sandbox.profile("r");
        std::fs::remove_dir_all(sandbox.path().join("r")).unwrap();
        let found = function(&profile, "loops");
        let outer = &found["loops"][0];
        assert_eq!(outer["line"], 9, "{compiler}: {}", outer["name"]);
        assert_eq!(outer["loops"][0]["line"], 10, "{compiler}: {}", outer["loops"][0]["name"]);
        let step = found["inlined"].as_array().unwrap().iter().find(|inlined| inlined["name"] == "step");
        assert_eq!(step.unwrap_or_else(|| panic!("{compiler}: no step"))["line"], 4);
    }
}
