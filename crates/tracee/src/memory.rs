//! The bytes of a process, through `/proc/PID/mem`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::address::Address;

/// An open address space. It stays that of the program that ran when it was opened: open it again after `execve`.
///
/// Reads and writes disregard page protections (as ptrace does), so text can be read and patched; they fail only if nothing is
/// mapped. The descriptor goes on working after the program makes itself undumpable.
#[derive(Debug)]
pub struct Memory {
    file: File,
}

impl Memory {
    /// Opens the address space of `pid`.
    ///
    /// # Errors
    /// The error of `open`: the process is gone, or we may not trace it.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let path = format!("/proc/{pid}/mem");
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Memory { file })
    }

    /// Reads up to `buffer.len()` bytes; fewer if the mapping ends.
    ///
    /// # Errors
    /// Nothing can be read there; `ESRCH`: no process runs in this address space any more, also if that happens meanwhile.
    pub fn read_some(&self, at: Address, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], at.get().wrapping_add(done as u64)) {
                // The kernel's answer if there is no address space; for an unmapped address it is an error.
                Ok(0) => return Err(Errno::ESRCH.into()),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if done == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Reads exactly `buffer.len()` bytes.
    pub fn read(&self, at: Address, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, at.get())
    }

    /// Reads a 64-bit little-endian word.
    pub fn read_u64(&self, at: Address) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes all of `bytes`.
    pub fn write(&self, at: Address, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_our_own() {
        let word = Box::new(0x1122_3344_5566_7788_u64);
        let at = Address::new(&raw const *word as u64);
        let memory = Memory::open(Pid::this()).unwrap();
        assert_eq!(memory.read_u64(at).unwrap(), *word);
        memory.write(at, &7u64.to_le_bytes()).unwrap();
        assert_eq!(memory.read_u64(at).unwrap(), 7);
        assert!(memory.read_u64(Address::new(8)).is_err());
    }

    #[test]
    fn an_address_space_that_is_gone_is_told_from_one_that_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let memory = Memory::open(Pid::from_raw(child.id() as i32)).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(memory.read_some(Address::new(8), &mut bytes).unwrap_err().raw_os_error(), Some(libc::EIO));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(memory.read_some(Address::new(8), &mut bytes).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
