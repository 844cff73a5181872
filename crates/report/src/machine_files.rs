//! The files of a host: pictures and a page.

use super::{html, machine};
use rprof_profile::Machine;

/// The pictures and `machine.html`, by name.
pub fn files(host: &Machine) -> Vec<(String, String)> {
    let mut files = machine::pictures(host);
    files.push(("machine.html".to_owned(), html::machine_page(host)));
    files
}
