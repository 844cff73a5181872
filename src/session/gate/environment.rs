//! The program's environment: few variables with the same values in every run. The kernel puts them above the stack, so their length
//! moves it, and runners of pull requests have other ones each time.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Variables that a program gets from ours, if they are set.
const KEPT: [&str; 3] = ["HOME", "LD_LIBRARY_PATH", "PATH"];
/// Variables that it gets with these values.
const SET: [(&str, &str); 2] = [("LC_ALL", "C"), ("PYTHONHASHSEED", "0")];

/// The environment with the `wanted` variables: `NAME` as it is in ours, `NAME=VALUE` with that value.
pub fn environment(wanted: &[OsString]) -> impl Iterator<Item = (OsString, OsString)> + use<> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let mut set = |name: &OsStr, value: OsString| {
        variables.retain(|(known, _)| known != name);
        variables.push((name.to_owned(), value));
    };
    for name in KEPT {
        if let Some(value) = std::env::var_os(name) {
            set(OsStr::new(name), value);
        }
    }
    SET.into_iter().for_each(|(name, value)| set(OsStr::new(name), value.into()));
    for variable in wanted {
        let bytes = variable.as_bytes();
        match bytes.iter().position(|&byte| byte == b'=') {
            Some(at) => set(OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..]).to_owned()),
            None => {
                if let Some(value) = std::env::var_os(variable) {
                    set(variable, value);
                }
            }
        }
    }
    variables.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_few_variables_and_those_that_the_user_names() {
        let wanted = ["CARGO_MANIFEST_DIR", "LC_ALL=de_DE.UTF-8", "X=a=b", "SURELY_NOT_SET"].map(OsString::from);
        let found: Vec<(OsString, OsString)> = environment(&wanted).collect();
        let value = |name: &str| found.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.to_str());
        assert_eq!(value("LC_ALL"), Some("de_DE.UTF-8"));
        assert_eq!((value("X"), value("PYTHONHASHSEED"), value("SURELY_NOT_SET")), (Some("a=b"), Some("0"), None));
        assert_eq!(value("CARGO_MANIFEST_DIR"), Some(env!("CARGO_MANIFEST_DIR")));
        assert!(value("CARGO_PKG_NAME").is_none(), "cargo sets it for tests, and nobody wanted it");
    }
}
