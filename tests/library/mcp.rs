//! `rprof mcp`, spoken to by the reference client of the Model Context Protocol.

use crate::python::run;

#[test]
fn the_reference_client_asks_and_profiles() {
    run("mcp_client.py", tempfile::tempdir().unwrap().path());
}

/// The ten programs of `fixtures/diagnosis`, none of which is in the demo.
#[test]
#[ignore = "profiles ten programs: minutes"]
fn a_script_that_knows_nothing_of_rprof_finds_ten_causes() {
    run("mcp_causes.py", tempfile::tempdir().unwrap().path());
}
