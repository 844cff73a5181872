//! Time in libraries of MPI is waiting, whichever thread spins there.

use crate::cli::{Sandbox, status, stderr};
use crate::jobs::{LIBRARIES, launched, program};

/// Names of the files that libraries of MPI consist of, and of the C library that they call, begin so.
const LIBRARY: [&str; 5] = ["libmpi", "libuc", "libopen-pal", "mca_", "libc.so"];

#[test]
fn libraries_of_mpi_do_not_work_and_neither_do_threads_that_they_begin() {
    look_where_time_is(LIBRARIES[0]);
}

#[test]
fn libraries_of_mpi_do_not_work_and_neither_do_threads_that_they_begin_in_mpich() {
    look_where_time_is(LIBRARIES[1]);
}

fn look_where_time_is(library: &str) {
    let Some(program) = program(library, "late") else { return };
    for passes in ["single", "timed"] {
        let sandbox = Sandbox::new();
        // A thread of MPICH's looks for messages all the time. UCX has changed the rights of pages of the C library.
        let script = format!(
            "export MPIR_CVAR_ASYNC_PROGRESS=1; \"${{launch[@]}}\" $rprof --memory off --passes {passes} -o r -- {} sender 40 20",
            program.display()
        );
        let output = launched(&sandbox, library, 2, &script);
        assert_eq!(status(&output), 0, "{library}: {}", stderr(&output));
        let profile = sandbox.profile("r/rank-1");
        let functions = profile["functions"].as_array().unwrap().iter();
        let of_library = functions.filter(|f| LIBRARY.iter().any(|l| f["module"].as_str().unwrap().starts_with(l)));
        let seconds = |what: &str| of_library.clone().filter_map(|f| f[what].as_f64()).sum::<f64>();
        let (work_s, waiting_s) = (seconds("cpu_s"), seconds("waiting_s"));
        assert!(waiting_s > 0.2, "{library}, {passes}: {waiting_s} s of waiting");
        assert!(work_s < 0.1 * waiting_s, "{library}, {passes}: {work_s} s of work, {waiting_s} s of waiting");
    }
}
