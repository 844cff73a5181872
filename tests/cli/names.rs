//! Names of functions wherever their code comes from: files that no path leads to, other namespaces, other linkers, the vdso, code made
//! at run time.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cli::{Sandbox, function, status, stderr};

const HOT_FLOPS: u64 = 600_000_000;

/// Compiles `fixtures/names/kernels.c`.
fn kernels(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    compiled("kernels.c", &folder.join(name), options)
}

fn compiled(source: &str, program: &Path, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/names").join(source);
    let compiler =
        Command::new("cc").args(["-O2", "-fno-ipa-cp", "-o"]).arg(program).arg(source).args(options).status();
    assert!(compiler.expect("cc is needed: tests/run installs it").success(), "{options:?}");
    program.to_owned()
}

/// Runs both passes; the hot function must have its name, its time and its FLOPs.
fn both_know(sandbox: &Sandbox, what: &str, command: &[&OsStr]) -> Value {
    let options = ["--memory", "off", "--passes", "both", "--"].map(OsStr::new);
    let output = sandbox.run(options.iter().chain(command));
    assert_eq!(status(&output), 0, "{what}: {}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let hot = function(&profile, "hot_kernel");
    assert_eq!(hot["flops"]["total"], HOT_FLOPS, "{what}: {hot:#}");
    assert!(hot["share"].as_f64().unwrap() > 0.3, "{what}: {}", hot["share"]);
    assert!(function(&profile, "other_kernel")["share"].as_f64().unwrap() > 0.1, "{what}");
    profile
}

fn timed(sandbox: &Sandbox, command: &[&str]) -> Value {
    let output = sandbox.run(["--passes", "timed", "--"].iter().chain(command));
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    sandbox.profile("rprof.out")
}

fn hottest(profile: &Value) -> &Value {
    let functions = profile["functions"].as_array().unwrap();
    let share = |f: &Value| f["share"].as_f64().unwrap_or(0.0);
    functions.iter().max_by(|a, b| share(a).total_cmp(&share(b))).unwrap()
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("SKIPPED: packages: {program} is not installed");
    }
    found
}

/// Whether we may make namespaces.
fn may_unshare(what: &str) -> bool {
    let may = Command::new("unshare").args(["-pmf", "true"]).status().is_ok_and(|s| s.success());
    if !may {
        println!("SKIPPED: root: {what}: only root can make namespaces");
    }
    may
}

#[test]
fn small_programs_of_every_linker() {
    for (linker, binary) in [("bfd", "ld.bfd"), ("gold", "ld.gold"), ("lld", "ld.lld"), ("mold", "mold")] {
        if !has(binary) {
            continue;
        }
        let sandbox = Sandbox::new();
        let link = format!("-fuse-ld={linker}");
        for (name, options) in [("pie", ["-pie", "-fPIE"]), ("fixed", ["-no-pie", "-fno-pie"])] {
            let program = kernels(sandbox.path(), name, &[&[link.as_str()][..], &options].concat());
            both_know(&sandbox, &format!("{linker} {name}"), &[program.as_os_str()]);
        }
        kernels(sandbox.path(), "libkernels.so", &["-DLIBRARY", "-fPIC", "-shared", &link]);
        let program = kernels(
            sandbox.path(),
            "user",
            &["-DPROGRAM", "-L.", "-Wl,-rpath,$ORIGIN", &link, path(&sandbox.path().join("libkernels.so"))],
        );
        both_know(&sandbox, &format!("{linker} library"), &[program.as_os_str()]);
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_object_file_that_a_program_maps_as_it_is() {
    let sandbox = Sandbox::new();
    compiled("mapped_object.c", &sandbox.path().join("kernels.o"), &["-DOBJECT", "-c", "-g0"]);
    let program = compiled("mapped_object.c", &sandbox.path().join("maps"), &[]);
    let profile = both_know(&sandbox, "object file", &[program.as_os_str(), OsStr::new("kernels.o")]);
    assert_eq!(function(&profile, "hot_kernel")["module"], "kernels.o");
    let profile = timed(&sandbox, &[path(&program), "kernels.o"]);
    let hot = function(&profile, "hot_kernel");
    assert_eq!(hot["loops"].as_array().map(Vec::len), Some(1), "its code is read from the file: {hot:#}");
}

#[test]
fn a_folder_whose_name_is_no_text() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join(OsStr::from_bytes(b"d\xff\xe9"));
    std::fs::create_dir(&folder).unwrap();
    let program = kernels(&folder, "prog", &[]);
    let profile = both_know(&sandbox, "not UTF-8", &[program.as_os_str()]);
    assert_eq!(function(&profile, "hot_kernel")["module"], "prog");
}

#[test]
fn a_program_in_memory() {
    let sandbox = Sandbox::new();
    let program = kernels(sandbox.path(), "prog", &["-Wl,--build-id=none"]);
    let script = "import os,sys
fd = os.memfd_create('kernel', 0)
os.write(fd, open(sys.argv[1], 'rb').read())
os.execve(fd, ['kernel'], os.environ)
";
    sandbox.file("run.py", script, 0o644);
    let command = ["python3", "run.py", path(&program)].map(OsStr::new);
    let profile = both_know(&sandbox, "memfd", &command);
    assert_eq!(function(&profile, "hot_kernel")["module"], "memfd:kernel");
}

#[test]
fn a_program_that_is_gone_replaced_or_renamed_while_it_runs() {
    for id in ["sha1", "none"] {
        let sandbox = Sandbox::new();
        let link = format!("-Wl,--build-id={id}");
        kernels(sandbox.path(), "prog", &[&link]);
        let profile = timed(&sandbox, &["./prog", "unlink"]);
        let hot = hottest(&profile);
        assert_eq!(hot["name"], "hot_kernel", "{id}: {hot:#}");

        kernels(sandbox.path(), "prog", &[&link]);
        compiled("made_code.c", &sandbox.path().join("new"), &[&link]);
        let profile = timed(&sandbox, &["./prog", "replace", "new"]);
        let hot = hottest(&profile);
        assert_eq!(hot["name"], "hot_kernel", "{id}: {hot:#}");

        kernels(sandbox.path(), "prog", &[&link]);
        let profile = timed(&sandbox, &["./prog", "rename", "moved"]);
        let hot = hottest(&profile);
        assert_eq!(hot["name"], "hot_kernel", "{id}: {hot:#}");
    }
}

#[test]
fn a_program_in_another_mount_namespace() {
    if !may_unshare("a_program_in_another_mount_namespace") {
        return;
    }
    let sandbox = Sandbox::new();
    let program = kernels(sandbox.path(), "right", &["-Wl,--build-id=none"]);
    std::fs::create_dir(sandbox.path().join("mounted")).unwrap();
    // At the same path from here lies another program.
    compiled("made_code.c", &sandbox.path().join("mounted/prog"), &["-Wl,--build-id=none"]);
    let script = format!("mount -t tmpfs none mounted && cp {} mounted/prog && exec mounted/prog", path(&program));
    both_know(&sandbox, "mount namespace", &["unshare", "-m", "sh", "-c", &script].map(OsStr::new));
}

#[test]
fn the_vdso_has_the_name_of_its_function() {
    let sandbox = Sandbox::new();
    let source = "#include <time.h>
int main(void)
{
    struct timespec t;
    long s = 0;
    for (int i = 0; i < 20000000; i++) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        s += t.tv_nsec & 1;
    }
    return s < 0;
}
";
    sandbox.file("clock.c", source, 0o644);
    assert!(sandbox.shell("cc -O2 -o clock clock.c").status().unwrap().success());
    let output = sandbox.run(["--memory", "off", "--passes", "both", "--", "./clock"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let clock = function(&profile, "__vdso_clock_gettime");
    assert_eq!(clock["module"], "[vdso]");
    assert!(clock["instructions"].as_f64().unwrap() > 20e6, "both passes agree where it is: {clock:#}");
    // On some runs the C library's function before it has more samples.
    assert!(clock["share"].as_f64().unwrap() > 0.2, "{clock:#}");
}

#[test]
fn code_made_at_run_time_has_the_name_that_its_compiler_left() {
    let sandbox = Sandbox::new();
    compiled("made_code.c", &sandbox.path().join("made"), &[]);
    for (how, name) in [("map", "made_function"), ("dump", "dumped_function"), ("fork", "made_function")] {
        assert_eq!(hottest(&timed(&sandbox, &["./made", how]))["name"], name, "{how}");
    }
    // An image that only the process's memory has.
    let output = sandbox.run(["--memory", "off", "--passes", "both", "--", "./made", "gdb"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let profile = sandbox.profile("rprof.out");
    let made = function(&profile, "registered_function");
    assert!(made["instructions"].as_f64().unwrap() > 3e9, "both passes agree where it is: {made:#}");
    assert_eq!(hottest(&profile)["name"], made["name"]);
    if may_unshare("code_made_at_run_time_has_the_name_that_its_compiler_left") {
        // Its own process id, then its own /tmp, too.
        let profile = timed(&sandbox, &["unshare", "-pf", "--mount-proc", "./made", "map"]);
        assert_eq!(hottest(&profile)["name"], "made_function", "pid namespace");
        let script = "exec 9<made; mount -t tmpfs none /tmp && exec /proc/self/fd/9 map";
        let profile = timed(&sandbox, &["unshare", "-pmf", "--mount-proc", "sh", "-c", script]);
        assert_eq!(hottest(&profile)["name"], "made_function", "pid and mount namespace");
    }
}

#[test]
fn code_that_a_program_copied_to_anonymous_memory_keeps_its_name() {
    let sandbox = Sandbox::new();
    for (name, options) in [("pie", &[][..]), ("fixed", &["-no-pie", "-fno-pie"]), ("lld", &["-fuse-ld=lld"])] {
        if name == "lld" && !has("ld.lld") {
            continue;
        }
        let program = compiled("moved_text.c", &sandbox.path().join(name), options);
        let profile = both_know(&sandbox, name, &[program.as_os_str()]);
        assert_eq!(function(&profile, "hot_kernel")["module"], name);
    }
    // What lies there instead has no name of the file's.
    let program = compiled("moved_text.c", &sandbox.path().join("other"), &[]);
    let profile = timed(&sandbox, &[path(&program), "other"]);
    assert_eq!(hottest(&profile)["module"], "[anon]", "{:#}", hottest(&profile)["name"]);
}

#[test]
fn names_of_d_are_those_of_the_source() {
    let sandbox = Sandbox::new();
    let source = "module app;
import core.stdc.stdio;
struct Grid(T, int n) {
    T[n] data;
    pragma(inline, false) T relax(long times) { T a = 1; foreach (i; 0 .. times) a = a * 0.999 + data[i % n]; return a; }
}
pragma(inline, false) double hotLoop(long n) { double a = 1; foreach (i; 0 .. n) a = a * 0.999 + 1; return a; }
void main() { Grid!(double, 8) g; g.data[] = 1.0; printf(\"%.3f\\n\", hotLoop(300_000_000) + g.relax(200_000_000)); }
";
    sandbox.file("app.d", source, 0o644);
    for compiler in ["gdc -O2 -g -o app", "ldc2 -O2 -g -of=app"] {
        if !has(compiler.split(' ').next().unwrap()) {
            continue;
        }
        assert!(sandbox.shell(&format!("{compiler} app.d")).status().unwrap().success());
        let profile = timed(&sandbox, &["./app"]);
        std::fs::remove_dir_all(sandbox.path().join("rprof.out")).unwrap();
        assert_eq!(hottest(&profile)["name"], "app.hotLoop(long)", "{compiler}");
        function(&profile, "app.Grid!(double, 8).Grid.relax(long)");
    }
}

#[test]
fn a_c_function_and_a_fortran_function_of_one_name_are_two() {
    if !has("gfortran") {
        return;
    }
    let sandbox = Sandbox::new();
    let c = "#include <stdio.h>
void smooth_(double *a, long *n);
__attribute__((noinline)) double smooth(double a, long n) { for (long i = 0; i < n; i++) a = a * 0.999 + 1; return a; }
int main(void) { double a = 1; long n = 200000000; smooth_(&a, &n); printf(\"%f\\n\", a + smooth(1, 300000000)); }
";
    let fortran = "subroutine smooth(a, n)
  double precision a
  integer*8 n, i
  do i = 1, n
    a = a * 0.5d0 + 1
  end do
  if (a < 0) print *, a
end subroutine
";
    sandbox.file("c.c", c, 0o644);
    sandbox.file("f.f90", fortran, 0o644);
    let build = "gcc -O2 -c c.c && gfortran -O2 -c f.f90 && gfortran -o both c.o f.o";
    assert!(sandbox.shell(build).status().unwrap().success());
    let profile = timed(&sandbox, &["./both"]);
    let share = |name: &str| function(&profile, name)["share"].as_f64().unwrap();
    let (of_c, of_fortran) = (share("smooth"), share("smooth_"));
    assert!(of_c > 0.4 && of_fortran > 0.2, "{of_c} and {of_fortran}");
}

#[test]
fn callers_of_large_frames_are_said_to_be_missing() {
    let sandbox = Sandbox::new();
    let source = "#include <stdio.h>
__attribute__((noinline)) double leaf(double *p, long n) { double a = p[0]; for (long i = 0; i < n; i++) a = a * 0.999 + 1; return a; }
#define CALLER(name, to) __attribute__((noinline)) double name(double x, long n) { double local[7500]; for (int i = 0; i < 7500; i++) local[i] = x + i; double r = to; __asm__ volatile(\"\" :: \"r\"(local) : \"memory\"); return r + local[3]; }
CALLER(inner, leaf(local, n))
CALLER(outer, inner(local[5], n))
int main(void) { double s = 0; for (int i = 0; i < 30; i++) s += outer(i, 10000000); printf(\"%.3f\\n\", s); }
";
    sandbox.file("deep.c", source, 0o644);
    assert!(sandbox.shell("cc -O2 -g -fomit-frame-pointer -o deep deep.c").status().unwrap().success());
    let profile = timed(&sandbox, &["./deep"]);
    let warnings = profile["run"]["warnings"].as_array().unwrap();
    let cut = warnings.iter().find(|warning| warning["code"] == "callers-cut");
    let functions = profile["functions"].as_array().unwrap().iter();
    let has_root = functions.filter(|f| f["name"] == "main").any(|f| f["inclusive_s"].as_f64() > Some(0.3));
    assert!(cut.is_some() || has_root, "neither the callers nor that they are missing: {warnings:#?}");
}
