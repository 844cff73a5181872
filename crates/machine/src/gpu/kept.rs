//! The cache of a GPU's ceilings: a file for each GPU, driver and version, beside those of the CPUs.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::driver::Identity;
use crate::suite::campaign::Effort;
use rprof_profile::gpu::Gpu;
use rprof_tracee::whole_file;

/// Version of the set of ceilings and of their measurement; grows with every change.
const GPU_CEILINGS_VERSION: u32 = 3;

/// Largest size of a file: far more than any has.
const LARGEST: u64 = 16 << 20;

/// The conditions under which a kept measurement is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    name: String,
    uuid: String,
    pci: String,
    /// Version of the driver's API, and of the driver itself if the kernel reports it.
    driver: String,
    /// Version of rprof and of the set of ceilings.
    version: String,
}

/// A file.
#[derive(Serialize, Deserialize)]
struct Entry {
    key: Key,
    effort: String,
    gpu: Gpu,
}

impl Key {
    /// The key of a GPU.
    pub fn of(gpu: &Gpu, identity: &Identity) -> Key {
        let module = fs::read_to_string("/sys/module/nvidia/version").unwrap_or_default();
        Key {
            name: gpu.name.clone(),
            uuid: identity.uuid.clone(),
            pci: identity.pci.clone(),
            driver: format!("{} {}", gpu.driver, module.trim()),
            version: format!("{} {GPU_CEILINGS_VERSION}", env!("CARGO_PKG_VERSION")),
        }
    }

    fn file_name(&self) -> String {
        let digits = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).take(40).collect::<String>();
        format!("gpu-{}-{}.json", digits(&self.uuid), digits(&self.pci))
    }
}

/// The kept measurement of `key`, if it is at least as thorough as `effort`. One of another driver or version is not used.
pub fn load(directory: &Path, key: &Key, effort: Effort) -> Option<Gpu> {
    let path = directory.join(key.file_name());
    let data = fs::metadata(&path).ok()?;
    if !data.is_file() || data.len() > LARGEST {
        return None;
    }
    let entry: Entry = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let is_enough = effort == Effort::Quick || entry.effort == Effort::Full.name();
    (entry.key == *key && is_enough).then_some(entry.gpu)
}

/// Keeps a measurement, in one step.
///
/// # Errors
/// The file cannot be written.
pub fn save(directory: &Path, key: &Key, effort: Effort, gpu: &Gpu) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let entry = Entry { key: key.clone(), effort: effort.name().into(), gpu: gpu.clone() };
    let text = serde_json::to_string(&entry).map_err(io::Error::other)?;
    whole_file::write(&directory.join(key.file_name()), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_measurement_serves_quick_requests_and_not_the_other_way_round() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let gpu = Gpu { name: "X".into(), driver: 13_000, ..Gpu::default() };
        let (uuid, pci) = ("00ff".into(), "0000:01:00.0".into());
        let identity = Identity { uuid, pci, shared_opt_in: 0, managed: true, integrated: false, is_shared: false };
        let key = Key::of(&gpu, &identity);
        assert_eq!(load(dir.path(), &key, Effort::Quick), None);
        save(dir.path(), &key, Effort::Quick, &gpu).expect("save");
        assert_eq!(load(dir.path(), &key, Effort::Quick), Some(gpu.clone()));
        assert_eq!(load(dir.path(), &key, Effort::Full), None);
        save(dir.path(), &key, Effort::Full, &gpu).expect("save");
        assert_eq!(load(dir.path(), &key, Effort::Quick), Some(gpu.clone()));
        let other = Key { driver: "12080".into(), ..key };
        assert_eq!(load(dir.path(), &other, Effort::Quick), None);
    }
}
