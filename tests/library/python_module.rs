//! The Python module of the wheel (`python/`): frames of recorded profiles, the reader for Hatchet, cells of a notebook.

use crate::python::run;

#[test]
fn recorded_profiles_are_pandas_frames() {
    run("frames.py", tempfile::tempdir().unwrap().path());
}

#[test]
fn hatchet_reads_a_recorded_profile() {
    run("hatchet_reader.py", tempfile::tempdir().unwrap().path());
}

#[test]
fn a_cell_of_a_notebook_is_profiled() {
    run("notebook.py", tempfile::tempdir().unwrap().path());
}
