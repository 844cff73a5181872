//! Prepares a fresh program image: maps tables, contexts and arenas into it, and takes the right to execute from its text.

use std::fs::OpenOptions;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::translator::code_cache::arena::{Arena, LOW, REACH};
use crate::translator::code_cache::cache::CodeCache;
use crate::translator::code_cache::contexts::Contexts;
use crate::translator::code_cache::layout;
use crate::translator::code_cache::shared::{HUGE, Shared};
use crate::translator::code_cache::stubs::names;
use crate::translator::kernel::address_budget::Room;
use crate::translator::kernel::memory_locks::unpopulated;
use crate::translator::program::address_space::AddressSpace;
use crate::translator::translate::text_ranges::{TextRange, Treatment, treatment};
use rprof_tracee::address::Address;
use rprof_tracee::maps::{Mapping, mapped_since, read_maps};
use rprof_tracee::memory::Memory;
use rprof_tracee::remote::{Remote, RemoteError};
use rprof_tracee::thread::{SignalInfo, Stopped};

/// Distance of an arena below its text.
const BELOW: u64 = 1 << 30;
/// Lowest address at which rprof places mappings. Below, programs place memory at fixed addresses, and the heap of one that is linked to
/// fixed addresses grows.
const LOWEST: u64 = 1 << 32;
/// End of the contexts, if possible, with the tables, and the code of programs in the low 2 GiB: below every place that the kernel
/// chooses for a PIE, and outside the shadow memories of the address, memory and thread sanitizers.
const CONTEXTS_END: u64 = 0x5555_0000_0000;
/// The first address of that kind.
const CONTEXTS_FROM: u64 = 0x5500_0000_0000;
/// The first address of that kind but for the thread sanitizer.
const CONTEXTS_LEAST: u64 = 0x5110_0000_0000;

/// A prepared image.
#[derive(Debug)]
pub struct Image {
    /// Its code cache.
    pub cache: CodeCache,
    /// Its threads' contexts.
    pub contexts: Contexts,
    /// Its executable memory.
    pub text: Vec<TextRange>,
    /// Its memory.
    pub memory: Memory,
}

/// A shared mapping to be made.
struct Wish {
    size: u64,
    at: u64,
    protection: i32,
}

/// A fresh program image after [`prepare`].
#[derive(Debug)]
pub enum Prepared {
    /// It can be translated.
    Image(Box<Image>, Stopped),
    /// It has no room for rprof's mappings; it is unchanged.
    NoRoom(RemoteError, Stopped),
}

/// Prepares the image of `pid` after its thread has just finished `execve`.
pub fn prepare(pid: Pid, thread: Stopped) -> Result<Prepared, RemoteError> {
    let memory = Memory::open(pid)?;
    let maps = read_maps(pid)?;
    let entry = thread.program_counter()?;
    let mut remote = Remote::new(thread, &memory, entry)?;
    let executable = || maps.iter().filter(|m| m.executable && m.path != "[vsyscall]");
    let text: Vec<TextRange> = executable()
        .map(|m| TextRange { start: m.start, end: m.end, treatment: treatment(m), located: None })
        .collect();
    let near = executable().filter(|m| treatment(m) == Treatment::Translate && m.path != "[vdso]");
    let mut near: Vec<Address> = near.map(|m| m.start).collect();
    if near.is_empty() {
        // Code that is not translated may make other code.
        near.extend(executable().filter(|m| m.path != "[vdso]").map(|m| m.start));
    }
    let (cache, contexts) = match furnish(pid, &mut remote, entry, &maps, &near) {
        Ok(furnished) => furnished,
        Err(error) if error.leaves_no_room() => {
            unmap_all_but(pid, &mut remote, &maps)?;
            return Ok(Prepared::NoRoom(error, remote.finish()?.0));
        }
        Err(error) => return Err(error),
    };
    let (thread, _) = remote.finish()?;
    // The text that the calls came from so far is about to lose its execute permission.
    let gadget = cache.arenas.first().ok_or_else(no_room)?.stubs.gadget;
    let mut remote = Remote::new(thread, &memory, Address::new(gadget.get()))?;
    for mapping in executable().filter(|m| treatment(m) == Treatment::Translate) {
        strip(&mut remote, mapping)?;
    }
    let (thread, _) = remote.finish()?;
    Ok(Prepared::Image(Box::new(Image { cache, contexts, text, memory }), thread))
}

/// Maps tables, contexts and arenas into a process that runs its program already; `thread` is one of its threads, all of which are
/// stopped, and `near` the beginnings of its text. Its text stays as it is.
pub fn prepare_running(
    pid: Pid,
    thread: Stopped,
    memory: &Memory,
    maps: &[Mapping],
    near: &[Address],
) -> Result<(CodeCache, Contexts, Stopped, Deferred), RemoteError> {
    let site = near.first().copied().ok_or_else(no_room)?;
    let mut remote = Remote::new(thread, memory, site)?;
    let furnished = furnish(pid, &mut remote, site, maps, near);
    if furnished.is_err() {
        unmap_all_but(pid, &mut remote, maps)?;
    }
    let (cache, contexts) = furnished?;
    let (thread, signals) = remote.finish()?;
    Ok((cache, contexts, thread, signals))
}

/// Unmaps everything that was mapped since `maps` were read.
fn unmap_all_but(pid: Pid, remote: &mut Remote<'_>, maps: &[Mapping]) -> Result<(), RemoteError> {
    for new in mapped_since(pid, maps)? {
        remote.call("munmap", libc::SYS_munmap, [new.start.get(), new.end - new.start, 0, 0, 0, 0])?;
    }
    Ok(())
}

/// Replaces the mappings that rprof shares with `address_space` by new tables, contexts and arenas, with the help of a stopped thread of
/// it that is not in the cache.
pub fn renew(
    address_space: &AddressSpace,
    thread: Stopped,
) -> Result<((CodeCache, Contexts), Stopped, Deferred), RemoteError> {
    let maps = read_maps(address_space.pid)?;
    let old = address_space.image.cache.borrow();
    let gadget = address_space.gadget().ok_or_else(no_room)?;
    let mut remote = Remote::new(thread, &address_space.memory, gadget)?;
    let near: Vec<Address> =
        address_space.text.iter().filter(|t| t.treatment == Treatment::Translate).map(|t| t.start).collect();
    let (cache, contexts) = furnish(address_space.pid, &mut remote, gadget, &maps, &near)?;
    let (thread, mut signals) = remote.finish()?;
    let gadget = cache.arenas.first().ok_or_else(no_room)?.stubs.gadget;
    let mut remote = Remote::new(thread, &address_space.memory, Address::new(gadget.get()))?;
    for (at, size) in old.mappings().chain([address_space.image.contexts.borrow().mapping()]) {
        remote.call("munmap", libc::SYS_munmap, [at.get(), size, 0, 0, 0, 0])?;
    }
    let (thread, more) = remote.finish()?;
    signals.extend(more);
    Ok(((cache, contexts), thread, signals))
}

/// Maps tables, contexts, and an arena close to each of the places in `near`; none of it is locked.
fn furnish(
    pid: Pid,
    remote: &mut Remote<'_>,
    site: Address,
    maps: &[Mapping],
    near: &[Address],
) -> Result<(CodeCache, Contexts), RemoteError> {
    unpopulated(pid, remote, |remote| furnish_unpopulated(pid, remote, site, maps, near))
}

fn furnish_unpopulated(
    pid: Pid,
    remote: &mut Remote<'_>,
    site: Address,
    maps: &[Mapping],
    near: &[Address],
) -> Result<(CodeCache, Contexts), RemoteError> {
    let room = Room::of(pid);
    let mut taken: Vec<(u64, u64)> = maps.iter().map(|m| (m.start.get(), m.end.get())).collect();
    let contexts = map_contexts(remote, site, &taken, room.contexts)?;
    let (at, size) = contexts.mapping();
    taken.push((at.get(), at.get() + size));
    let at = aside(&taken, layout::TABLES).ok_or_else(no_room)?;
    let tables = map(remote, site, &Wish { size: layout::TABLES, at, protection: libc::PROT_READ })?;
    taken.push((at, at + layout::TABLES));
    let mut arenas: Vec<Arena> = Vec::new();
    // Those in the low 2 GiB need none of their own.
    let (low, high): (Vec<&Address>, Vec<&Address>) = near.iter().partition(|text| text.get() < LOW);
    for text in high.into_iter().chain(low) {
        if !arenas.iter().any(|a| a.reaches(text.get())) {
            let wish = arena_wish(&taken, text.get(), room)?;
            let shared = map(remote, site, &wish)?;
            taken.push((wish.at, wish.at + wish.size));
            arenas.push(Arena::new(shared));
        }
    }
    Ok((CodeCache::new(tables, arenas), contexts))
}

/// A free place of `size` bytes that no program uses for memory by convention.
fn aside(taken: &[(u64, u64)], size: u64) -> Option<u64> {
    [CONTEXTS_FROM, CONTEXTS_LEAST].into_iter().find_map(|lowest| gap(taken, size, CONTEXTS_END, lowest))
}

/// Signals that came meanwhile, to be delivered later.
pub type Deferred = Vec<(i32, SignalInfo)>;

/// Maps one more arena near `near`, with the help of a stopped thread of the process.
pub fn add_arena(
    pid: Pid,
    thread: Stopped,
    memory: &Memory,
    gadget: Address,
    near: Address,
) -> Result<(Arena, Stopped, Deferred), RemoteError> {
    let taken: Vec<(u64, u64)> = read_maps(pid)?.iter().map(|m| (m.start.get(), m.end.get())).collect();
    let mut remote = Remote::new(thread, memory, gadget)?;
    let wish = arena_wish(&taken, near.get(), Room::of(pid))?;
    let shared = unpopulated(pid, &mut remote, |remote| map(remote, gadget, &wish))?;
    let (thread, signals) = remote.finish()?;
    Ok((Arena::new(shared), thread, signals))
}

fn arena_wish(taken: &[(u64, u64)], near: u64, room: Room) -> Result<Wish, RemoteError> {
    let at = place(taken, near, room.arena).ok_or_else(no_room)?;
    Ok(Wish { size: room.arena, at, protection: libc::PROT_READ | libc::PROT_EXEC })
}

fn no_room() -> RemoteError {
    RemoteError::Refused { call: "finding room for the code cache", source: Errno::ENOMEM }
}

fn map_contexts(
    remote: &mut Remote<'_>,
    site: Address,
    taken: &[(u64, u64)],
    mut count: u64,
) -> Result<Contexts, RemoteError> {
    loop {
        let size = layout::CONTEXT * count;
        let at = aside(taken, size).ok_or_else(no_room)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        match map(remote, site, &Wish { size, at, protection }) {
            Ok(shared) => return Ok(Contexts::new(shared)),
            // The program has little of its address space left: fewer threads, then.
            Err(RemoteError::Refused { source: Errno::ENOMEM, .. }) if count > 1 => count /= 2,
            Err(error) => return Err(error),
        }
    }
}

/// Makes a file of memory in the program and maps it in both processes.
fn map(remote: &mut Remote<'_>, scratch: Address, wish: &Wish) -> Result<Shared, RemoteError> {
    // The names are behind the borrowed `syscall` for the time of the calls.
    let place = scratch + 2;
    let (names, offsets) = names();
    let mut saved = vec![0; names.len()];
    remote.memory().read(place, &mut saved)?;
    let ready = saved == names;
    if !ready {
        remote.memory().write(place, &names)?;
    }
    let places: Vec<u64> = offsets.iter().map(|offset| place.get() + offset).collect();
    let result = map_file(remote, &places, wish);
    if !ready {
        remote.memory().write(place, &saved)?;
    }
    result
}

/// Linux 6.3; older kernels do not know it and need none.
const MFD_EXEC: u64 = 0x10;

/// Maps a memfd with the name at the first of `names`. If `vm.memfd_noexec` forbids that, maps a file without a name in the first
/// of the folders there that allows executable mappings.
fn map_file(remote: &mut Remote<'_>, names: &[u64], wish: &Wish) -> Result<Shared, RemoteError> {
    let flags = u64::from(libc::MFD_CLOEXEC);
    let mut created = remote.call("memfd_create", libc::SYS_memfd_create, [names[0], flags | MFD_EXEC, 0, 0, 0, 0]);
    if let Err(RemoteError::Refused { source: Errno::EINVAL, .. }) = created {
        created = remote.call("memfd_create", libc::SYS_memfd_create, [names[0], flags, 0, 0, 0, 0]);
    }
    let forbidden = match created {
        Ok(descriptor) => return map_and_close(remote, descriptor, wish),
        Err(RemoteError::Refused { source: source @ (Errno::EACCES | Errno::EPERM), .. }) => source,
        Err(error) => return Err(error),
    };
    let flags = (libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC) as u64;
    for &folder in &names[1..] {
        let opened = remote.call("openat", libc::SYS_openat, [libc::AT_FDCWD as u64, folder, flags, 0o600, 0, 0]);
        let mapped = opened.and_then(|descriptor| map_and_close(remote, descriptor, wish));
        if !matches!(mapped, Err(RemoteError::Refused { .. })) {
            return mapped;
        }
    }
    let call = "memfd_create, which vm.memfd_noexec forbids, and mapping code from a temporary folder";
    Err(RemoteError::Refused { call, source: forbidden })
}

fn map_and_close(remote: &mut Remote<'_>, descriptor: u64, wish: &Wish) -> Result<Shared, RemoteError> {
    let result = map_descriptor(remote, descriptor, wish);
    remote.call("close", libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
    result
}

fn map_descriptor(remote: &mut Remote<'_>, descriptor: u64, wish: &Wish) -> Result<Shared, RemoteError> {
    // Another process with the same memory may have other descriptors.
    let tid = remote.tid().ok_or(RemoteError::Ended(0))?;
    let path = format!("/proc/{tid}/fd/{descriptor}");
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    file.set_len(wish.size).map_err(RemoteError::Share)?;
    let flags = (libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE) as u64;
    let arguments = [wish.at, wish.size, wish.protection as u64, flags, descriptor, 0];
    let at = remote.call("mmap", libc::SYS_mmap, arguments)?;
    // Core dumps should look as they would without rprof; an old kernel may refuse.
    let advice = [at, wish.size, libc::MADV_DONTDUMP as u64, 0, 0, 0];
    let _ = remote.call("madvise", libc::SYS_madvise, advice);
    Shared::map(OwnedFd::from(file), wish.size, Address::new(at)).map_err(RemoteError::Share)
}

/// Takes PROT_EXEC from a mapping.
fn strip(remote: &mut Remote<'_>, mapping: &Mapping) -> Result<(), RemoteError> {
    let protection = libc::PROT_READ | if mapping.writable { libc::PROT_WRITE } else { 0 };
    let size = mapping.end - mapping.start;
    let arguments = [mapping.start.get(), size, protection as u64, 0, 0, 0];
    match remote.call("mprotect", libc::SYS_mprotect, arguments) {
        Ok(_) => Ok(()),
        // Sealed (the vdso of newer kernels): calls are translated all the same.
        Err(RemoteError::Refused { source: Errno::EPERM | Errno::EACCES, .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A free place of `size` bytes for the translation of `text`: below it and near, never behind it, since its heap grows there. Data in
/// the low 2 GiB are reached from everywhere.
fn place(taken: &[(u64, u64)], text: u64, size: u64) -> Option<u64> {
    if text < LOWEST {
        return aside(taken, size);
    }
    gap(taken, size, text.saturating_sub(BELOW), text.saturating_sub(REACH).max(LOWEST))
        .or_else(|| gap(taken, size, text.saturating_sub(size), LOWEST))
        .or_else(|| aside(taken, size))
}

/// The highest free range of `size` bytes that ends at or below `from` and starts at or above `lowest`, aligned for huge
/// pages if it has room for one.
fn gap(taken: &[(u64, u64)], size: u64, from: u64, lowest: u64) -> Option<u64> {
    let align = if size < HUGE { 0x1_0000 } else { HUGE };
    let before = |at: u64| (at & !(align - 1)).checked_sub(size.next_multiple_of(align));
    let mut at = before(from)?;
    while at >= lowest {
        match taken.iter().filter(|&&(start, end)| start < at + size && end > at).map(|t| t.0).min() {
            None => return Some(at),
            Some(start) => at = before(start)?,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_placed_where_programs_place_memory() {
        let size = 64 << 20;
        let beside_pies = |at: u64| (CONTEXTS_FROM..CONTEXTS_END).contains(&at);
        // Linked to fixed addresses, below 2 GiB and above.
        for text in [0x40_0000, 0x9000_0000] {
            assert!(place(&[(text, text + 0x1000)], text, size).is_some_and(beside_pies));
        }
        let pie = 0x5555_5555_4000;
        assert_eq!(place(&[(pie, pie + (3 << 30))], pie, size), Some((pie - BELOW - size) & !(HUGE - 1)));
        let low_pie = LOWEST + 0x1000;
        assert!(place(&[(low_pie, low_pie + 0x1000)], low_pie, size).is_some_and(beside_pies));
    }

    #[test]
    fn two_images_fit_below_pies() {
        let size = layout::CONTEXT * layout::CONTEXTS;
        let first = aside(&[], size).unwrap();
        let second = aside(&[(first, first + size)], size).unwrap();
        assert!(second >= CONTEXTS_LEAST && second + size <= first);
    }

    #[test]
    fn gaps_lie_between_what_is_taken() {
        let taken = [(0x40_0000, 0x50_0000), (0x90_0000, 0xa0_0000)];
        assert_eq!(gap(&taken, 0x10_0000, 0x80_0000, 0x10_0000), Some(0x70_0000));
        assert_eq!(gap(&taken, 0x10_0000, 0x98_0000, 0x10_0000), Some(0x80_0000));
        assert_eq!(gap(&taken, 0x60_0000, 0x80_0000, 0x10_0000), None);
        assert_eq!(gap(&taken, 0x30_0000, 0x98_0000, 0x10_0000), None, "what a huge page can begin at is taken");
        assert_eq!(gap(&taken, 0x1f_0000, 0x90_0000, 0x10_0000), Some(0x71_0000));
        assert_eq!(gap(&taken, HUGE, 0x90_0000, 0x10_0000), Some(0x60_0000));
    }
}
