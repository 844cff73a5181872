//! Which system calls are judged before a repeated run makes them, and what each may change.

/// An argument of a call, by its position.
pub type Argument = usize;

/// What a call may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Opens a file; `flags` are those of `open`, or lie in memory (`openat2`).
    Open {
        /// The folder's descriptor; `None`: the working folder.
        folder: Option<Argument>,
        path: Argument,
        flags: OpenFlags,
    },
    /// Makes a name that must be absent.
    New { folder: Option<Argument>, path: Argument },
    /// Changes or removes the file with a name.
    Change { folder: Option<Argument>, path: Argument, follows: bool },
    /// Renames.
    Rename { from: (Option<Argument>, Argument), to: (Option<Argument>, Argument) },
    /// Changes the file of a descriptor.
    Descriptor,
    /// Writes to a descriptor.
    Write(Argument),
    /// Maps a file, which stores may change then.
    SharedMapping,
    /// Connects a socket.
    Connect,
    /// Binds a socket.
    Bind,
    /// Sends by a socket.
    Send,
    /// Sends a signal to a process or group.
    Kill,
    /// Sends a signal to a thread of a process.
    ThreadSignal,
    /// Sends a signal by a descriptor.
    DescriptorSignal,
    /// Writes into another process.
    OtherProcess,
    /// Changes the host, or speaks to others in a way that rprof does not follow.
    Host,
}

/// The argument with the flags of an `open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenFlags {
    /// In a register.
    In(Argument),
    /// In the memory that a register points to.
    At(Argument),
    /// Those of `creat`.
    Create,
}

const fn change(path: Argument, follows: bool) -> Target {
    Target::Change { folder: None, path, follows }
}

const fn change_at(follows: bool) -> Target {
    Target::Change { folder: Some(0), path: 1, follows }
}

const fn new(path: Argument) -> Target {
    Target::New { folder: None, path }
}

const fn new_at(folder: Argument, path: Argument) -> Target {
    Target::New { folder: Some(folder), path }
}

/// All calls that are judged.
const TABLE: &[(i64, Target)] = &[
    (libc::SYS_open, Target::Open { folder: None, path: 0, flags: OpenFlags::In(1) }),
    (libc::SYS_openat, Target::Open { folder: Some(0), path: 1, flags: OpenFlags::In(2) }),
    (libc::SYS_openat2, Target::Open { folder: Some(0), path: 1, flags: OpenFlags::At(2) }),
    (libc::SYS_creat, Target::Open { folder: None, path: 0, flags: OpenFlags::Create }),
    (libc::SYS_mkdir, new(0)),
    (libc::SYS_mkdirat, new_at(0, 1)),
    (libc::SYS_mknod, new(0)),
    (libc::SYS_mknodat, new_at(0, 1)),
    (libc::SYS_link, new(1)),
    (libc::SYS_linkat, new_at(2, 3)),
    (libc::SYS_symlink, new(1)),
    (libc::SYS_symlinkat, new_at(1, 2)),
    (libc::SYS_unlink, change(0, false)),
    (libc::SYS_unlinkat, change_at(false)),
    (libc::SYS_rmdir, change(0, false)),
    (libc::SYS_truncate, change(0, true)),
    (libc::SYS_chmod, change(0, true)),
    (libc::SYS_fchmodat, change_at(true)),
    (libc::SYS_chown, change(0, true)),
    (libc::SYS_lchown, change(0, false)),
    (libc::SYS_fchownat, change_at(true)),
    (libc::SYS_utime, change(0, true)),
    (libc::SYS_utimes, change(0, true)),
    (libc::SYS_futimesat, change_at(true)),
    (libc::SYS_utimensat, change_at(true)),
    (libc::SYS_setxattr, change(0, true)),
    (libc::SYS_lsetxattr, change(0, false)),
    (libc::SYS_removexattr, change(0, true)),
    (libc::SYS_lremovexattr, change(0, false)),
    (libc::SYS_rename, Target::Rename { from: (None, 0), to: (None, 1) }),
    (libc::SYS_renameat, Target::Rename { from: (Some(0), 1), to: (Some(2), 3) }),
    (libc::SYS_renameat2, Target::Rename { from: (Some(0), 1), to: (Some(2), 3) }),
    (libc::SYS_fchmod, Target::Descriptor),
    (libc::SYS_fchown, Target::Descriptor),
    (libc::SYS_fsetxattr, Target::Descriptor),
    (libc::SYS_fremovexattr, Target::Descriptor),
    (libc::SYS_connect, Target::Connect),
    (libc::SYS_bind, Target::Bind),
    (libc::SYS_sendto, Target::Send),
    (libc::SYS_sendmsg, Target::Send),
    (libc::SYS_sendmmsg, Target::Send),
    (libc::SYS_kill, Target::Kill),
    (libc::SYS_tkill, Target::Kill),
    (libc::SYS_rt_sigqueueinfo, Target::Kill),
    (libc::SYS_tgkill, Target::ThreadSignal),
    (libc::SYS_rt_tgsigqueueinfo, Target::ThreadSignal),
    (libc::SYS_pidfd_send_signal, Target::DescriptorSignal),
    (libc::SYS_process_vm_writev, Target::OtherProcess),
    (libc::SYS_io_uring_setup, Target::Host),
    (libc::SYS_msgsnd, Target::Host),
    (libc::SYS_mq_open, Target::Host),
    (libc::SYS_mq_unlink, Target::Host),
    (libc::SYS_mount, Target::Host),
    (libc::SYS_umount2, Target::Host),
    (libc::SYS_pivot_root, Target::Host),
    (libc::SYS_move_mount, Target::Host),
    (libc::SYS_fsmount, Target::Host),
    (libc::SYS_swapon, Target::Host),
    (libc::SYS_swapoff, Target::Host),
    (libc::SYS_reboot, Target::Host),
    (libc::SYS_sethostname, Target::Host),
    (libc::SYS_setdomainname, Target::Host),
    (libc::SYS_settimeofday, Target::Host),
    (libc::SYS_clock_settime, Target::Host),
    (libc::SYS_init_module, Target::Host),
    (libc::SYS_finit_module, Target::Host),
    (libc::SYS_delete_module, Target::Host),
    (libc::SYS_kexec_load, Target::Host),
    (libc::SYS_kexec_file_load, Target::Host),
    (libc::SYS_acct, Target::Host),
    (libc::SYS_quotactl, Target::Host),
    (libc::SYS_bpf, Target::Host),
];

/// The calls that write to an open descriptor. They are judged only once the program has something open that they must not change.
const WRITES: &[(i64, Target)] = &[
    (libc::SYS_write, Target::Write(0)),
    (libc::SYS_pwrite64, Target::Write(0)),
    (libc::SYS_writev, Target::Write(0)),
    (libc::SYS_pwritev, Target::Write(0)),
    (libc::SYS_pwritev2, Target::Write(0)),
    (libc::SYS_ftruncate, Target::Write(0)),
    (libc::SYS_fallocate, Target::Write(0)),
    (libc::SYS_sendfile, Target::Write(0)),
    (libc::SYS_splice, Target::Write(2)),
    (libc::SYS_copy_file_range, Target::Write(2)),
    (libc::SYS_mmap, Target::SharedMapping),
    (libc::SYS_io_submit, Target::Host),
];

/// The numbers of the calls that are judged from the start.
pub fn judged_calls() -> impl Iterator<Item = i64> {
    TABLE.iter().map(|(number, _)| *number)
}

/// The numbers of the calls that write to an open descriptor.
pub fn writes() -> impl Iterator<Item = i64> {
    WRITES.iter().map(|(number, _)| *number)
}

/// What call `number` may change; `None`: nothing that would come twice.
pub fn target(number: i64) -> Option<Target> {
    TABLE.iter().chain(WRITES).find(|(known, _)| *known == number).map(|(_, target)| *target)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_call_stands_there_once() {
        let numbers: BTreeSet<i64> = judged_calls().chain(writes()).collect();
        assert_eq!(numbers.len(), TABLE.len() + WRITES.len());
        assert_eq!(target(libc::SYS_read), None);
    }
}
