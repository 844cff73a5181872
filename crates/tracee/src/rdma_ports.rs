//! Counters of the host's RDMA ports (InfiniBand, RoCE); their traffic goes past the kernel.

use std::fs;
use std::path::Path;

use rprof_profile::evidence::mpi::Traffic;

/// Where the kernel shows them.
pub const SYS: &str = "/sys";
/// The counters are in units of four octets (Documentation/ABI/stable/sysfs-class-infiniband).
const UNIT: u64 = 4;

/// The bytes of all ports below `sys`, of all programs of the host. `None`: it has no such ports.
pub fn bytes(sys: &Path) -> Option<Traffic> {
    let folders = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let ports = folders(&sys.join("class/infiniband")).flat_map(|device| folders(&device.join("ports")));
    let counter = |port: &Path, name: &str| -> Option<u64> {
        let text = fs::read_to_string(port.join("counters").join(name)).ok()?;
        Some(text.trim().parse::<u64>().ok()?.wrapping_mul(UNIT))
    };
    ports
        .filter_map(|port| {
            Some(Traffic { sent: counter(&port, "port_xmit_data")?, received: counter(&port, "port_rcv_data")? })
        })
        .reduce(|mut sum, port| {
            sum += port;
            sum
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_summed_in_octets() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(bytes(sys.path()), None);
        for (port, sent) in [("mlx5_0/ports/1", "1000\n"), ("mlx5_1/ports/1", "24\n")] {
            let counters = sys.path().join("class/infiniband").join(port).join("counters");
            fs::create_dir_all(&counters).unwrap();
            fs::write(counters.join("port_xmit_data"), sent).unwrap();
            fs::write(counters.join("port_rcv_data"), "5\n").unwrap();
        }
        fs::create_dir_all(sys.path().join("class/infiniband/other/ports/1/counters")).unwrap();
        assert_eq!(bytes(sys.path()), Some(Traffic { sent: 4096, received: 40 }));
    }
}
