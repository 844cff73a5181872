//! Judges a call: whether a run that repeats another one may make it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::unistd::Pid;

use super::call_table::{Argument, OpenFlags, Target, judged_calls, target, writes};
use super::descriptors::{Socket, named_file, process_of_pidfd};
use super::journal::Journal;
use super::listeners::{Listener, listener_on_port, local_listener};
use super::paths::{absolute, has_our_files, is_harmless_device, is_of_itself, is_users_terminal, text_at, true_path};
use super::unrepeatable::{Unrepeatable, Why};
use rprof_isa::x86_64::system_call::name;
use rprof_tracee::address::Address;
use rprof_tracee::memory::Memory;
use rprof_tracee::proc_status::read_status;

/// How a call comes to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By its name: a link is the file.
    Named,
    /// Through links.
    Followed,
    /// Through links, and empties it first.
    Emptied,
}

impl Way {
    fn of(follows: bool) -> Way {
        if follows { Way::Followed } else { Way::Named }
    }
}

/// The thread that makes a call.
pub struct Caller<'c> {
    /// The thread.
    pub tid: Pid,
    /// Its process.
    pub pid: Pid,
    /// Its memory.
    pub memory: &'c Memory,
    /// Number of the call.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// Processes and threads of the program.
    pub own: &'c BTreeSet<Pid>,
}

impl Caller<'_> {
    fn path(&self, folder: Option<Argument>, path: Argument) -> Option<PathBuf> {
        let text = text_at(self.memory, self.arguments[path])?;
        // An empty path is the descriptor itself (AT_EMPTY_PATH), or an error.
        let folder = folder.map(|argument| self.arguments[argument] as i32);
        if text.is_empty() { named_file(self.tid, folder?) } else { absolute(self.tid, folder, &text) }
    }

    fn word(&self, at: u64) -> Option<u64> {
        self.memory.read_u64(Address::new(at)).ok()
    }

    /// The address of a socket in the second and third argument.
    fn address(&self) -> Vec<u8> {
        let mut address = vec![0; (self.arguments[2] as usize).min(size_of::<libc::sockaddr_storage>())];
        match self.memory.read(Address::new(self.arguments[1]), &mut address) {
            Ok(()) => address,
            Err(_) => Vec::new(),
        }
    }

    fn refuse(&self, object: impl ToString, why: Why) -> Unrepeatable {
        Unrepeatable::Call {
            name: name(self.number as u32).unwrap_or("a system call"),
            object: object.to_string(),
            why,
        }
    }

    fn refuse_file(&self, path: &Path, why: Why) -> Unrepeatable {
        self.refuse(path.display(), why)
    }
}

/// Effects of a repeated run so far that rprof takes back.
#[derive(Debug)]
pub struct Effects {
    journal: Journal,
    /// The program has opened a file for writing that existed before the first run: each write is judged from now on.
    watches_writes: bool,
}

impl Effects {
    /// For a run that repeats the one which began at `first_run`.
    pub fn since(first_run: SystemTime) -> Self {
        Effects { journal: Journal::new(first_run), watches_writes: false }
    }

    /// The calls that are to be judged.
    pub fn judged_calls(&self) -> impl Iterator<Item = i64> {
        judged_calls().chain(writes().filter(|_| self.watches_writes))
    }

    /// Whether the run changed files.
    pub fn changed_files(&self) -> bool {
        self.journal.has_any()
    }

    /// Puts files back as the first run left them. Returns those for which that failed, with the reason.
    pub fn take_back(self) -> Vec<(PathBuf, io::Error)> {
        self.journal.put_back()
    }

    /// Judges a call before it is made.
    ///
    /// # Errors
    /// Its effect would come twice.
    pub fn judge(&mut self, caller: &Caller<'_>) -> Result<(), Unrepeatable> {
        let Some(target) = target(caller.number) else { return Ok(()) };
        match target {
            Target::Open { folder, path, flags } => self.judge_open(caller, folder, path, flags),
            Target::New { folder, path } => match caller.path(folder, path) {
                // If the path exists, the call fails.
                Some(path) if fs::symlink_metadata(&path).is_err() => self.change(caller, &path, Way::Named),
                _ => Ok(()),
            },
            Target::Change { folder, path, follows } => match caller.path(folder, path) {
                Some(path) if fs::symlink_metadata(&path).is_ok() => self.change(caller, &path, Way::of(follows)),
                _ => Ok(()),
            },
            Target::Rename { from, to } => match (caller.path(from.0, from.1), caller.path(to.0, to.1)) {
                (Some(from), Some(to)) if fs::symlink_metadata(&from).is_ok() => {
                    self.change(caller, &from, Way::Named)?;
                    self.change(caller, &to, Way::Named)
                }
                _ => Ok(()),
            },
            Target::Descriptor => match named_file(caller.tid, caller.arguments[0] as i32) {
                Some(path) => self.change(caller, &path, Way::Followed),
                None => Ok(()),
            },
            Target::Write(descriptor) if self.watches_writes => self.judge_write(caller, caller.arguments[descriptor]),
            Target::SharedMapping if self.watches_writes && writes_through(caller.arguments) => {
                self.judge_write(caller, caller.arguments[4])
            }
            Target::Write(_) | Target::SharedMapping => Ok(()),
            Target::Connect => self.judge_connect(caller),
            Target::Bind => match local_name(caller) {
                Some(path) if fs::symlink_metadata(&path).is_err() => self.change(caller, &path, Way::Named),
                _ => Ok(()),
            },
            Target::Send => judge_send(caller),
            Target::Kill | Target::ThreadSignal | Target::DescriptorSignal | Target::OtherProcess => {
                judge_signal(caller, target)
            }
            Target::Host => Err(caller.refuse("", Why::NotFollowed)),
        }
    }

    /// The run is about to change the file at `path`.
    fn change(&mut self, caller: &Caller<'_>, path: &Path, way: Way) -> Result<(), Unrepeatable> {
        if is_of_itself(path, caller.tid, caller.pid) {
            return Ok(());
        }
        if !has_our_files(caller.tid) {
            return Err(caller.refuse_file(path, Why::OtherRoot));
        }
        let path = true_path(path, way != Way::Named);
        if is_harmless_device(&path) {
            return Ok(());
        }
        if path.starts_with("/proc") || path.starts_with("/sys") {
            return Err(caller.refuse_file(&path, Why::OfKernel));
        }
        self.journal.note(&path, way == Way::Emptied).map_err(|why| caller.refuse_file(&path, why))
    }

    fn judge_open(
        &mut self,
        caller: &Caller<'_>,
        folder: Option<Argument>,
        path: Argument,
        flags: OpenFlags,
    ) -> Result<(), Unrepeatable> {
        let flags = match flags {
            OpenFlags::In(argument) => caller.arguments[argument] as i32,
            OpenFlags::At(argument) => caller.word(caller.arguments[argument]).unwrap_or(0) as i32,
            OpenFlags::Create => libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC,
        };
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
        let is_unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
        if flags & libc::O_PATH != 0 || is_unnamed {
            return Ok(());
        }
        let Some(path) = caller.path(folder, path) else { return Ok(()) };
        if is_of_itself(&path, caller.tid, caller.pid) {
            return Ok(());
        }
        let follows = flags & (libc::O_NOFOLLOW | libc::O_EXCL) == 0;
        match fs::metadata(&path) {
            Ok(there) if there.file_type().is_fifo() && !self.journal.has_made(&true_path(&path, follows)) => {
                Err(caller.refuse_file(&path, Why::NoOtherEnd))
            }
            Ok(there) if there.file_type().is_char_device() || there.file_type().is_block_device() => {
                let path = true_path(&path, follows);
                // Shells look whether there is a terminal; their writes to it are judged.
                let is_terminal = is_users_terminal(&path);
                self.watches_writes |= is_terminal;
                match is_harmless_device(&path) || is_terminal || !writes {
                    true => Ok(()),
                    false => Err(caller.refuse_file(&path, Why::Device)),
                }
            }
            Ok(_) if !writes => Ok(()),
            // If the path exists, the call fails.
            Ok(_) if flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL => Ok(()),
            Ok(there) if there.is_dir() => Ok(()),
            Ok(_) if flags & libc::O_TRUNC != 0 && follows => self.change(caller, &path, Way::Emptied),
            // The first write to an old file is refused, not the look at it.
            Ok(_) => self.change(caller, &path, Way::of(follows)).or_else(|refused| match refused.is_of_old_file() {
                true => {
                    self.watches_writes = true;
                    Ok(())
                }
                false => Err(refused),
            }),
            Err(_) if flags & libc::O_CREAT != 0 => self.change(caller, &path, Way::of(follows)),
            Err(_) => Ok(()),
        }
    }

    /// A write to a descriptor that is open already.
    fn judge_write(&mut self, caller: &Caller<'_>, descriptor: u64) -> Result<(), Unrepeatable> {
        match named_file(caller.tid, descriptor as i32) {
            Some(path) if is_users_terminal(&path) => Err(caller.refuse_file(&path, Why::Device)),
            Some(path) if fs::metadata(&path).is_ok_and(|meta| meta.is_file()) && !path.starts_with("/proc") => {
                self.change(caller, &path, Way::Followed)
            }
            _ => Ok(()),
        }
    }

    fn judge_connect(&self, caller: &Caller<'_>) -> Result<(), Unrepeatable> {
        let Some(family) = caller.word(caller.arguments[1]).map(|word| i32::from(word as u16)) else { return Ok(()) };
        match family {
            libc::AF_UNSPEC | libc::AF_NETLINK | libc::AF_ALG => Ok(()),
            libc::AF_UNIX => match local_name(caller) {
                Some(path) if fs::metadata(&path).is_err() => Ok(()),
                _ if local_listener(caller.own, &caller.address()) != Listener::Other => Ok(()),
                Some(path) => Err(caller.refuse_file(&path, Why::Received)),
                None => Err(caller.refuse("a local socket", Why::Received)),
            },
            // It sends nothing yet.
            libc::AF_INET | libc::AF_INET6
                if Socket::look(caller.pid, caller.arguments[0] as i32).is_some_and(|socket| !socket.is_stream) =>
            {
                Ok(())
            }
            libc::AF_INET | libc::AF_INET6 if listener_on_port(caller.own, &caller.address()) != Listener::Other => {
                Ok(())
            }
            libc::AF_INET | libc::AF_INET6 => Err(caller.refuse("a network socket", Why::Received)),
            _ => Err(caller.refuse("a socket", Why::Received)),
        }
    }
}

/// Whether `mmap` with these arguments lets the program change a file by stores.
fn writes_through(arguments: [u64; 6]) -> bool {
    const KIND: i32 = 0xf;
    let is_shared = matches!(arguments[3] as i32 & KIND, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE);
    is_shared && arguments[2] as i32 & libc::PROT_WRITE != 0
}

/// The path in the address of a local socket; `None`: it is an abstract one, or of another family.
fn local_name(caller: &Caller<'_>) -> Option<PathBuf> {
    let address = caller.address();
    let family = i32::from(u16::from_ne_bytes([*address.first()?, *address.get(1)?]));
    let path = address[2..].split(|byte| *byte == 0).next()?;
    if family == libc::AF_UNIX && !path.is_empty() { absolute(caller.tid, None, path) } else { None }
}

fn judge_send(caller: &Caller<'_>) -> Result<(), Unrepeatable> {
    match Socket::look(caller.pid, caller.arguments[0] as i32) {
        // It is no socket, and the call fails, or the kernel does not say.
        None => Err(caller.refuse("a socket", Why::Received)),
        Some(Socket { family: libc::AF_NETLINK | libc::AF_ALG, .. }) => Ok(()),
        Some(Socket { peer: Some(peer), .. }) if caller.own.contains(&peer) => Ok(()),
        // Its peer was judged when it was connected.
        Some(Socket { family: libc::AF_INET | libc::AF_INET6, is_stream: true, .. }) => Ok(()),
        Some(Socket { family: libc::AF_UNIX, .. }) => Err(caller.refuse("a local socket", Why::Received)),
        Some(_) => Err(caller.refuse("a network socket", Why::Received)),
    }
}

fn judge_signal(caller: &Caller<'_>, target: Target) -> Result<(), Unrepeatable> {
    let [first, second, ..] = caller.arguments.map(|argument| argument as i32);
    let (receiver, signal) = match target {
        Target::DescriptorSignal => (process_of_pidfd(caller.tid, first).map_or(0, Pid::as_raw), second),
        Target::ThreadSignal => (first, caller.arguments[2] as i32),
        Target::OtherProcess => (first, 1),
        _ => (first, second),
    };
    // To ask whether a process is there changes nothing; a group's number is that of the process that leads it.
    let is_own = match receiver {
        -1 => false,
        0 => nix::unistd::getpgid(Some(caller.pid)).is_ok_and(|group| caller.own.contains(&group)),
        receiver => caller.own.contains(&Pid::from_raw(receiver.wrapping_abs())),
    };
    let status = read_status(Pid::from_raw(receiver.wrapping_abs()));
    // One that has ended, and waits for its parent, takes no signal any more; a new one is its parent's.
    let is_gone = receiver > 0 && status.ok().is_none_or(|status| caller.own.contains(&Pid::from_raw(status.ppid)));
    match signal == 0 || is_own || is_gone {
        true => Ok(()),
        false => Err(caller.refuse(format!("process {receiver}"), Why::Received)),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::fd::AsRawFd;

    use super::*;

    /// Judges a call of this test's own process.
    fn judged(effects: &mut Effects, number: i64, arguments: [u64; 6]) -> Result<(), String> {
        let memory = Memory::open(Pid::this()).unwrap();
        let own = BTreeSet::from([Pid::this()]);
        let tid = nix::unistd::gettid();
        let caller = Caller { tid, pid: Pid::this(), memory: &memory, number, arguments, own: &own };
        effects.judge(&caller).map_err(|refused| refused.to_string())
    }

    #[test]
    fn calls_are_judged_by_what_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let text = |name: &str| CString::new(folder.path().join(name).to_str().unwrap()).unwrap();
        let old = text("old");
        fs::write(folder.path().join("old"), "").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(40));
        let mut effects = Effects::since(SystemTime::now());
        let mut open = |path: &CString, flags: i32| {
            judged(&mut effects, libc::SYS_open, [path.as_ptr() as u64, flags as u64, 0, 0, 0, 0])
        };
        let new = text("new");
        assert_eq!(open(&old, libc::O_RDONLY), Ok(()));
        let refused = open(&old, libc::O_WRONLY | libc::O_TRUNC).unwrap_err();
        assert!(refused.starts_with("open of /") && refused.ends_with("/old (it existed before)"), "{refused}");
        assert_eq!(open(&old, libc::O_WRONLY | libc::O_APPEND), Ok(()), "its first write is refused");
        assert_eq!(open(&new, libc::O_WRONLY | libc::O_CREAT), Ok(()));
        assert_eq!(open(&c"/dev/null".into(), libc::O_WRONLY), Ok(()));
        assert_eq!(open(&c"/dev/stdout".into(), libc::O_WRONLY), Ok(()));
        assert!(open(&c"/proc/sys/kernel/hostname".into(), libc::O_WRONLY).is_err());
        let appended = fs::File::options().append(true).open(folder.path().join("old")).unwrap();
        let pipe = nix::unistd::pipe().unwrap().1;
        let mut write = |fd: i32| judged(&mut effects, libc::SYS_write, [fd as u64, 0, 1, 0, 0, 0]);
        assert!(write(appended.as_raw_fd()).unwrap_err().starts_with("write of /"));
        assert_eq!(write(pipe.as_raw_fd()), Ok(()));
        let (old, new) = (old.as_ptr() as u64, new.as_ptr() as u64);
        let mut call = |number, first: u64, second: u64| judged(&mut effects, number, [first, second, 0, 0, 0, 0]);
        assert!(call(libc::SYS_unlink, old, 0).is_err());
        assert_eq!(call(libc::SYS_unlink, new, 0), Ok(()), "it is not there");
        assert!(call(libc::SYS_rename, old, new).is_err());
        assert_eq!(call(libc::SYS_mkdir, new, 0), Ok(()));
        assert_eq!(call(libc::SYS_mkdir, old, 0), Ok(()), "it fails");
        let own = std::process::id() as u64;
        assert_eq!(call(libc::SYS_kill, own, 15), Ok(()));
        assert_eq!(call(libc::SYS_kill, 1, 0), Ok(()));
        assert!(call(libc::SYS_kill, 1, 15).unwrap_err().contains("process 1"));
        assert!(call(libc::SYS_reboot, 0, 0).is_err());
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(call(libc::SYS_sendmsg, one.as_raw_fd() as u64, 0), Ok(()));
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(call(libc::SYS_sendto, udp.as_raw_fd() as u64, 0).is_err());
    }
}
