//! Files of /proc that a program opens: `/proc/PID/maps`, which rprof opens in its name
//! ([`own_maps`](crate::translator::kernel::own_maps)), and `/proc/PID/mem`, by which it can write text
//! ([`text_writes`](crate::translator::tracer::text_writes)).

use std::borrow::Cow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use nix::unistd::Pid;

use crate::translator::code_cache::block::CallSite;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::syscall_table::stop_at_writes;
use crate::translator::kernel::own_maps::{PATH, as_without_rprof, file_of, is_same};
use crate::translator::kernel::proc_path::{ProcFile, proc_file};
use crate::translator::tracer::program::Program;
use crate::translator::tracer::run_error::RunError;
use crate::translator::tracer::system_calls::succeeded;
use crate::translator::translate::text_ranges::{TextRange, Treatment};
use rprof_tracee::address::Address;
use rprof_tracee::thread::{Registers, Stopped};

impl Program {
    /// `open` or `openat` of a path that begins with "/pro" or "maps" or is "mem", or any `openat2`.
    pub fn open(&mut self, stopped: Stopped, registers: Registers, site: CallSite) -> Result<(), RunError> {
        let tid = stopped.tid();
        let of_open = registers.rax as i64 == libc::SYS_open;
        let folder = if of_open { libc::AT_FDCWD } else { registers.rdi as i32 };
        let asked = self.proc_file_to_open(tid, if of_open { registers.rdi } else { registers.rsi }, folder);
        let file = match asked {
            Some((pid, ProcFile::Maps)) => self.maps_as_without_rprof(pid),
            Some((_, ProcFile::Memory)) => {
                if may_write(&registers) {
                    stop_at_writes(&self.address_space(tid)?.image.cache.borrow().tables);
                }
                None
            }
            None => None,
        };
        let Some(file) = file else { return self.rest_in_cache(stopped, registers, site.native) };
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let mut words = [0; 4];
        for (i, byte) in path.bytes().enumerate() {
            words[i / 8] |= u64::from(byte) << (8 * (i % 8));
        }
        let thread = self.thread(tid)?;
        let at = {
            let contexts = thread.contexts.borrow();
            (0u32..).zip(words).for_each(|(i, word)| contexts.set(thread.context, layout::ACTION + 8 * i, word));
            (contexts.base(thread.context) + u64::from(layout::ACTION)).get()
        };
        let asked = if of_open { Registers { rdi: at, ..registers } } else { Registers { rsi: at, ..registers } };
        let (stopped, after) = self.execute(stopped, asked, site)?;
        if succeeded(&after) {
            if is_same(&file, tid, after.rax) {
                stopped.set_registers(&Registers { rdi: registers.rdi, rsi: registers.rsi, ..after })?;
                return self.go_on(stopped);
            }
            let close = Registers { rax: libc::SYS_close as u64, rdi: after.rax, ..registers };
            let (stopped, _) = self.execute(stopped, close, site)?;
            return self.pass(stopped, registers, site);
        }
        // It has another /proc, in which rprof is missing or has another number: it gets what is there.
        self.pass(stopped, registers, site)
    }

    /// The file of /proc that the path at `at` names, from the descriptor `folder` on.
    fn proc_file_to_open(&self, tid: Pid, at: u64, folder: i32) -> Option<(Pid, ProcFile)> {
        let (thread, space) = self.thread_and_space(tid).ok()?;
        let mut path = [0; PATH];
        let size = space.memory.read_some(Address::new(at), &mut path).ok()?;
        proc_file(&from_root(&path[..size], tid, folder)?, thread.pid)
    }

    /// The maps of process `pid`, if rprof has changed its text.
    fn maps_as_without_rprof(&self, pid: Pid) -> Option<OwnedFd> {
        let id = self.threads.values().find(|t| t.pid == pid)?.address_space;
        let address_space = self.address_spaces.get(&id)?;
        let real = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
        let text: Vec<TextRange> =
            address_space.text.iter().filter(|t| t.treatment == Treatment::Translate).copied().collect();
        let contexts = address_space.image.contexts.borrow().mapping();
        let cache = address_space.image.cache.borrow();
        let ours: Vec<_> = cache.mappings().chain([contexts]).map(|(at, size)| (at.get(), size)).collect();
        // A name in another encoding stays what it is only if all lines are bytes; such programs get the real ones.
        file_of(&as_without_rprof(std::str::from_utf8(&real).ok()?, &text, &ours))
    }
}

/// Whether `open`, `openat` or `openat2` with these registers opens a file for writing, as far as they say.
fn may_write(registers: &Registers) -> bool {
    let flags = match registers.rax as i64 {
        libc::SYS_open => registers.rsi,
        libc::SYS_openat => registers.rdx,
        _ => return true,
    };
    flags as i32 & libc::O_ACCMODE != libc::O_RDONLY
}

/// `path` as it is from the root, if it counts from the descriptor `folder` of thread `tid`.
fn from_root(path: &[u8], tid: Pid, folder: i32) -> Option<Cow<'_, [u8]>> {
    if path.first() == Some(&b'/') {
        return Some(Cow::Borrowed(path));
    }
    let link = if folder == libc::AT_FDCWD { "cwd".to_owned() } else { format!("fd/{folder}") };
    let mut whole = std::fs::read_link(format!("/proc/{tid}/{link}")).ok()?.into_os_string().into_vec();
    whole.push(b'/');
    whole.extend_from_slice(path);
    Some(Cow::Owned(whole))
}
