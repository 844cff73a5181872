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
