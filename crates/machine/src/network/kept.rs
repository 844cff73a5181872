//! The cache of network ceilings: a file for each arrangement of ranks, library and settings, beside the ceilings of hosts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::hosts::Hosts;
use crate::store;
use rprof_profile::network::{Network, NetworkHost};
use rprof_tracee::whole_file;

/// Version of the measurement; grows with every change.
const NETWORK_VERSION: u32 = 2;
/// Largest size of a file: far more than any has.
const LARGEST: u64 = 64 << 20;

/// The conditions under which a kept measurement is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    hosts: Vec<NetworkHost>,
    /// CPUs of each rank.
    cpus: Vec<String>,
    /// Build id, or the file if it has none.
    library: String,
    settings: Vec<(String, String)>,
    /// Of rprof and of the measurement.
    version: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    key: Key,
    network: Network,
}

impl Key {
    /// That of a measurement: of its hosts, library and settings.
    pub fn of(network: &Network, hosts: &Hosts) -> Key {
        Key {
            hosts: network.hosts.clone(),
            cpus: hosts.cpus(),
            library: network.build_id.clone().unwrap_or_else(|| network.library.clone()),
            settings: network.settings.clone(),
            version: format!("{} {NETWORK_VERSION}", env!("CARGO_PKG_VERSION")),
        }
    }

    fn path(&self, directory: &Path) -> PathBuf {
        directory.join(format!("network-{:016x}.json", store::hash(&format!("{self:?}"))))
    }
}

/// The kept measurement of `key`.
pub fn load(directory: &Path, key: &Key) -> Option<Network> {
    let path = key.path(directory);
    let data = fs::metadata(&path).ok()?;
    if !data.is_file() || data.len() > LARGEST {
        return None;
    }
    let entry: Entry = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    (entry.key == *key).then_some(entry.network)
}

/// Keeps a measurement, in one step.
///
/// # Errors
/// The file cannot be written.
pub fn save(directory: &Path, key: &Key, network: &Network) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let entry = Entry { key: key.clone(), network: network.clone() };
    let text = serde_json::to_string(&entry).map_err(io::Error::other)?;
    whole_file::write(&key.path(directory), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::hosts::Place;

    #[test]
    fn other_placement_library_or_settings_are_another_measurement() {
        let dir = tempfile::tempdir().unwrap();
        let on = |names: &str, cpus: &str| {
            let place = |name: char| Place { host: name.into(), boot: "b".into(), cpus: cpus.into() };
            Hosts::new(names.chars().map(place).collect())
        };
        let network = |hosts: &Hosts| Network {
            library: "/lib/libmpi.so".into(),
            build_id: Some("ab".into()),
            hosts: hosts.listed(),
            ..Network::default()
        };
        let hosts = on("ab", "0-1");
        let first = network(&hosts);
        let key = Key::of(&first, &hosts);
        assert_eq!(load(dir.path(), &key), None);
        save(dir.path(), &key, &first).unwrap();
        assert_eq!(load(dir.path(), &key), Some(first.clone()));
        let others = [
            (Network { build_id: Some("cd".into()), ..first.clone() }, hosts.clone()),
            (Network { settings: vec![("UCX_TLS".into(), "tcp".into())], ..first.clone() }, hosts.clone()),
            (network(&on("ba", "0-1")), on("ba", "0-1")),
            (network(&on("aabb", "0-1")), on("aabb", "0-1")),
            (first, on("ab", "0")),
        ];
        for (network, hosts) in others {
            assert_eq!(load(dir.path(), &Key::of(&network, &hosts)), None, "{network:?}");
        }
    }
}
