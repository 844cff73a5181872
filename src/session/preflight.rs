//! Checks the program before anything runs: that it exists, may be executed and is for this machine.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::SessionError;
use crate::tracee::launch::{Program, find_in_path};
use crate::tracee::own_limits;

/// `#!` lines may name scripts in turn; the kernel follows this many.
const INTERPRETER_DEPTH: usize = 5;
/// Bytes of address space that a timed pass of a small program takes in rprof, with a reserve.
const OWN_ROOM: u64 = 256 << 20;
const ELF_CLASS_64: u8 = 2;
const EM_X86_64: u16 = 62;

/// The result of the preflight.
#[derive(Debug)]
pub struct Checked {
    /// Ready to launch.
    pub program: Program,
    /// The reason if it can be timed but not counted (setuid and the like).
    pub not_countable: Option<String>,
}

/// Checks that we can do our own work: with less, memory runs out in the midst of it.
pub fn own_room() -> Result<(), SessionError> {
    let limit = own_limits::own_address_space();
    if limit < OWN_ROOM { Err(SessionError::AddressSpace { needed: OWN_ROOM, limit }) } else { Ok(()) }
}

/// Checks that `/proc` lists processes by the ids that we know: without that a pass would wait for ever.
pub fn own_proc() -> Result<(), SessionError> {
    let own = std::process::id().to_string();
    match fs::read_link("/proc/self") {
        Ok(told) if told.as_os_str() == OsStr::new(&own) => Ok(()),
        Ok(told) => {
            Err(SessionError::Proc(format!("it is that of another namespace, where {own} is {}", told.display())))
        }
        Err(source) => Err(SessionError::Proc(format!("/proc/self: {source}"))),
    }
}

/// Resolves and checks `command` (program and arguments).
pub fn check(command: &[OsString]) -> Result<Checked, SessionError> {
    let name = command.first().cloned().unwrap_or_default();
    let not_found = || SessionError::NotFound { name: name.to_string_lossy().into_owned() };
    let path = find_in_path(&name).ok_or_else(not_found)?;
    let meta = match fs::metadata(&path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(refuse(&path, "permission denied; check the rights of the folders on its path"));
        }
        Err(_) => return Err(not_found()),
    };
    if meta.is_dir() {
        return Err(refuse(&path, "it is a folder"));
    }
    if access(&path, AccessFlags::X_OK).is_err() {
        return Err(refuse(&path, "permission denied; make it executable with chmod +x"));
    }
    let executed = check_format(&path, 0)?;
    let not_countable = fs::metadata(&executed).ok().and_then(|meta| setuid(&executed, &meta));
    Ok(Checked { program: Program { path, argv: command.to_vec() }, not_countable })
}

fn setuid(path: &Path, meta: &fs::Metadata) -> Option<String> {
    let mode = meta.permissions().mode();
    let changes_user = mode & 0o4000 != 0 && meta.uid() != nix::unistd::geteuid().as_raw();
    let changes_group = mode & 0o2000 != 0 && meta.gid() != nix::unistd::getegid().as_raw();
    (changes_user || changes_group).then(|| {
        format!(
            "{} is setuid or setgid: under a tracer the kernel would run it without its rights, so its counted pass is \
             left out; run rprof as that user to count it",
            path.display()
        )
    })
}

fn refuse(path: &Path, reason: impl Into<String>) -> SessionError {
    SessionError::CannotExecute { path: path.to_owned(), reason: reason.into() }
}

/// Checks the ELF header, or follows `#!`; returns the file that the kernel will execute.
fn check_format(path: &Path, depth: usize) -> Result<PathBuf, SessionError> {
    let mut head = Vec::new();
    let Ok(file) = File::open(path) else {
        return Ok(path.to_owned()); // executable but unreadable: let the kernel decide
    };
    let size = file.metadata().map_or(u64::MAX, |meta| meta.len());
    if file.take(256).read_to_end(&mut head).is_err() {
        return Ok(path.to_owned());
    }
    if head.starts_with(b"\x7fELF") {
        return check_elf(path, &head, size).map(|()| path.to_owned());
    }
    if let Some(line) = head.strip_prefix(b"#!") {
        if depth >= INTERPRETER_DEPTH {
            return Err(refuse(path, "its #! lines lead in a circle"));
        }
        let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
        let interpreter = line.split(|b| b.is_ascii_whitespace()).find(|w| !w.is_empty()).unwrap_or_default();
        let interpreter = PathBuf::from(OsStr::from_bytes(interpreter));
        if !interpreter.exists() {
            return Err(refuse(path, format!("its interpreter {} does not exist", interpreter.display())));
        }
        return check_format(&interpreter, depth + 1);
    }
    Err(refuse(path, "it is neither an ELF program nor a script that begins with #!"))
}

fn check_elf(path: &Path, head: &[u8], size: u64) -> Result<(), SessionError> {
    if head.len() < 20 {
        return Err(refuse(path, "its ELF header is truncated"));
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    if head[4] != ELF_CLASS_64 {
        return Err(refuse(path, "it is a 32-bit program; rprof profiles 64-bit x86 programs, so build it with -m64"));
    }
    if machine != EM_X86_64 || head[5] != 1 {
        let name = goblin::elf::header::machine_to_str(machine);
        return Err(refuse(path, format!("it is built for {name}, this host runs x86-64; build it for this host")));
    }
    if program_headers_end(head).is_none_or(|end| end > size) {
        return Err(refuse(path, "its program headers lie beyond its end: the file is truncated"));
    }
    Ok(())
}

/// The end of the program headers of a 64-bit little-endian ELF file.
fn program_headers_end(head: &[u8]) -> Option<u64> {
    let number = |at: usize| Some(u64::from(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?)));
    let offset = u64::from_le_bytes(head.get(32..40)?.try_into().ok()?);
    offset.checked_add(number(54)? * number(56)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(name: &str, content: &[u8]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        match check(&[path.into()]) {
            Ok(_) => "fine".into(),
            Err(e) => e.to_string(),
        }
    }

    fn elf(class: u8, machine: u16) -> Vec<u8> {
        let mut head = vec![0u8; 64];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        head[18..20].copy_from_slice(&machine.to_le_bytes());
        head
    }

    #[test]
    fn formats() {
        assert_eq!(reason("good", &elf(2, 62)), "fine");
        assert!(reason("bits32", &elf(1, 3)).contains("32-bit"));
        assert!(reason("arm", &elf(2, 183)).contains("AARCH64"));
        assert!(reason("short", b"\x7fELF").contains("truncated"));
        let mut cut = elf(2, 62);
        cut[54..58].copy_from_slice(&[56, 0, 13, 0]);
        assert!(reason("cut", &cut).contains("truncated"));
        assert!(reason("text", b"hello").contains("neither"));
        assert_eq!(reason("script", b"#! /bin/sh\nexit 0\n"), "fine");
        assert!(reason("lost", b"#!/no/such/sh\n").contains("/no/such/sh"));
    }

    #[test]
    fn missing_and_forbidden() {
        let missing = check(&["/no/such/program".into()]).unwrap_err();
        assert_eq!(missing.exit_code(), 127);
        let folder = check(&["/tmp".into()]).unwrap_err();
        assert_eq!(folder.exit_code(), 126);
    }
}
