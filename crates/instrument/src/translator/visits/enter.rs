//! Brings the stopped threads of a process into the code cache.

use std::time::Instant;

use nix::unistd::Pid;

use super::Visitor;
use super::catch::release;
use super::refresh::{is_ours, text_of};
use crate::translator::code_cache::layout;
use crate::translator::code_cache::version::Version;
use crate::translator::kernel::context_tables::map_tables;
use crate::translator::kernel::dispositions::{Action, Dispositions};
use crate::translator::kernel::fold::unfold;
use crate::translator::kernel::prepare_image::{self, Deferred};
use crate::translator::kernel::signal_bits::bit;
use crate::translator::program::address_space::AddressSpace;
use crate::translator::program::thread::Thread;
use crate::translator::sampling::access_buffer::{AccessBuffer, enter};
use crate::translator::tracer::program::remote_in;
use crate::translator::tracer::run_error::{RunError, unless_gone};
use crate::translator::tracer::tasks::CS_64;
use crate::translator::translate::text_ranges::Treatment;
use rprof_tracee::address::Address;
use rprof_tracee::elf_reader::has_section;
use rprof_tracee::maps::{Mapping, read_maps};
use rprof_tracee::memory::Memory;
use rprof_tracee::proc_status::{Status, read_cpu_seconds, read_start_ticks, read_status};
use rprof_tracee::restarts::{repeat_ended_call, restart_call};
use rprof_tracee::same_memory::{self, Memory as Sharing};
use rprof_tracee::thread::{Registers, Stopped};

/// The section in which the linker collects descriptions of restartable sequences (librseq, tcmalloc).
const SEQUENCES: &str = "__rseq_cs";

impl Visitor {
    /// Stops the threads of `pid` and lets them go on in the code cache.
    ///
    /// # Errors
    /// Why not, as a clause; then the process runs on natively.
    pub(super) fn enter(&mut self, pid: Pid) -> Result<(), String> {
        let status = read_status(pid).map_err(|_| "it has ended".to_owned())?;
        if status.filtered && (status.filters == 0 || status.filters != self.inherited_filters) {
            return Err("it filters its system calls (seccomp), so rprof can map nothing into it".into());
        }
        let maps = read_maps(pid).map_err(|e| format!("its mappings cannot be read: {e}"))?;
        self.refuse_sequences(pid, &maps)?;
        let space = self.space_of(pid)?;
        let caught = self.catch(pid)?;
        let tids: Vec<Pid> = caught.iter().map(Stopped::tid).collect();
        let mut natively: Vec<(Pid, Registers)> = Vec::new();
        for stopped in &caught {
            let Ok(mut registers) = stopped.registers() else { continue };
            restart_call(&mut registers);
            repeat_ended_call(&mut registers);
            natively.push((stopped.tid(), registers));
        }
        match self.enter_stopped((pid, space), caught, &natively, &status) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.undo(&tids, &natively);
                Err(error.to_string())
            }
        }
    }

    /// The address space of a process: that of another one if they share it.
    fn space_of(&self, pid: Pid) -> Result<Pid, String> {
        for &other in self.run.program.address_spaces.keys().filter(|other| **other != pid) {
            match same_memory::compare(pid, other) {
                Sharing::Shared => return Ok(other),
                Sharing::Separate => {}
                Sharing::Unknown if has_mappings_of(pid, other) => {
                    return Err(format!(
                        "it may share its memory with process {other}, and the kernel does not tell (kcmp)"
                    ));
                }
                Sharing::Unknown => {}
            }
        }
        Ok(pid)
    }

    /// rprof's copies of restartable sequences would not be restarted.
    fn refuse_sequences(&mut self, pid: Pid, maps: &[Mapping]) -> Result<(), String> {
        for mapping in maps.iter().filter(|m| m.executable && m.is_file()) {
            let known = self.sequences.entry(mapping.path.clone());
            let path = format!("/proc/{pid}/root{}", mapping.path);
            if *known.or_insert_with(|| has_section(path.as_ref(), SEQUENCES)) {
                return Err(format!(
                    "{} has restartable sequences (rseq), which lose their meaning in copies",
                    mapping.path
                ));
            }
        }
        Ok(())
    }

    fn enter_stopped(
        &mut self,
        (pid, space): (Pid, Pid),
        caught: Vec<Stopped>,
        natively: &[(Pid, Registers)],
        status: &Status,
    ) -> Result<(), RunError> {
        if natively.iter().any(|(_, registers)| registers.cs != CS_64) {
            return Err(RunError::Unsupported("it is a 32-bit program".into()));
        }
        for (stopped, (_, registers)) in caught.iter().zip(natively) {
            stopped.set_registers(registers)?;
            stopped.follow_children()?;
        }
        let mut caught = caught.into_iter();
        let first = caught.next().ok_or(RunError::Gone)?;
        // All threads are stopped, so the mappings stay as they are.
        let maps = read_maps(pid).map_err(|_| RunError::Gone)?;
        let (first, mut deferred) = self.furnish(space, first, &maps)?;
        let first = self.read_actions((pid, space), first, status, &mut deferred)?;
        let mut ready = Vec::new();
        for stopped in std::iter::once(first).chain(caught) {
            ready.extend(unless_gone(self.move_in((pid, space), stopped))?);
        }
        for stopped in ready {
            let tid = stopped.tid();
            if natively.first().is_some_and(|first| first.0 == tid) {
                self.run.program.defer_all(tid, std::mem::take(&mut deferred));
            }
            self.cpu_before.extend(read_cpu_seconds(tid).map(|cpu_s| (tid, cpu_s)));
            unless_gone(self.run.program.go_on(stopped))?;
        }
        Ok(())
    }

    /// Maps what rprof needs into a process, unless it is there, and takes over its text.
    fn furnish(&mut self, pid: Pid, stopped: Stopped, maps: &[Mapping]) -> Result<(Stopped, Deferred), RunError> {
        if !self.run.program.threads_in(pid).is_empty() {
            // Another process that shares it has come in.
            return Ok((stopped, Vec::new()));
        }
        let (mut stopped, mut before) = (stopped, Deferred::new());
        let known = self.run.program.address_spaces.get_mut(&pid);
        if let Some(address_space) = known
            && address_space.is_furnished(maps)
        {
            let is_whole;
            (is_whole, stopped, before) = unfold(address_space, maps, stopped)?;
            if is_whole && address_space.refresh_text(maps) {
                address_space.image.placing.borrow_mut().begin_again(Instant::now());
                return Ok((stopped, before));
            }
        }
        // It has executed another program, needs translations of its own, or has mapped something at the addresses that
        // rprof's mappings had.
        let maps = &read_maps(pid).map_err(|_| RunError::Gone)?;
        self.run.program.address_spaces.remove(&pid);
        let memory = Memory::open(pid).map_err(|e| RunError::Unsupported(format!("its memory cannot be read: {e}")))?;
        let text = text_of(maps);
        let near = text.iter().filter(|t| t.treatment == Treatment::Translate);
        let is_vdso = |at: Address| maps.iter().any(|m| m.contains(at) && m.path == "[vdso]");
        let near: Vec<Address> = near.map(|t| t.start).filter(|at| !is_vdso(*at)).collect();
        let limit = self.run.program.open_address_space(pid);
        let (cache, contexts, stopped, deferred) = prepare_image::prepare_running(pid, stopped, &memory, maps, &near)?;
        let image = self.run.image(cache, contexts);
        let mut address_space = AddressSpace::new(pid, memory, text, &self.run.program.modules, image);
        address_space.refresh_text(maps);
        let mut remote = remote_in(&address_space, stopped)?;
        // A process has those of the one that forked it.
        for inherited in maps.iter().filter(|m| is_ours(m)) {
            let arguments = [inherited.start.get(), inherited.end - inherited.start, 0, 0, 0, 0];
            remote.call("munmap", libc::SYS_munmap, arguments)?;
        }
        let (stopped, more) = remote.finish()?;
        self.run.program.address_spaces.insert(pid, address_space);
        self.run.program.close_address_space(pid, limit);
        Ok((stopped, before.into_iter().chain(deferred).chain(more).collect()))
    }

    /// Reads the process's actions for the signals of rprof's own traps.
    fn read_actions(
        &mut self,
        (pid, space): (Pid, Pid),
        stopped: Stopped,
        status: &Status,
        deferred: &mut Deferred,
    ) -> Result<Stopped, RunError> {
        let mut stopped = stopped;
        let address_space = self.run.program.address_spaces.get(&space).ok_or(RunError::Gone)?;
        let mut action_of = |signal: i32, stopped: Stopped| -> Result<(Action, Stopped), RunError> {
            if status.caught & bit(signal) == 0 {
                return Ok((Action::without_handler(status.ignored & bit(signal) != 0), stopped));
            }
            let context = address_space.image.contexts.borrow_mut().take()?;
            let at = address_space.image.contexts.borrow().base(context) + u64::from(layout::ACTION);
            let mut remote = remote_in(address_space, stopped)?;
            let read = remote.call("rt_sigaction", libc::SYS_rt_sigaction, [signal as u64, 0, at.get(), 8, 0, 0]);
            let contexts = address_space.image.contexts.borrow();
            let words = [0, 1, 2, 3].map(|i| contexts.get(context, layout::ACTION + 8 * i));
            drop(contexts);
            address_space.image.contexts.borrow_mut().give_back(context);
            read?;
            let (stopped, signals) = remote.finish()?;
            deferred.extend(signals);
            Ok((Action::from_words(words), stopped))
        };
        let (trap, fault);
        (trap, stopped) = action_of(libc::SIGTRAP, stopped)?;
        (fault, stopped) = action_of(libc::SIGSEGV, stopped)?;
        self.run.program.settings.entry(pid).or_default().dispositions = Some(Dispositions::of_running(trap, fault));
        Ok(stopped)
    }

    /// Gives a stopped thread a context and an address in the cache to go on at.
    fn move_in(&mut self, (pid, space): (Pid, Pid), stopped: Stopped) -> Result<Stopped, RunError> {
        let tid = stopped.tid();
        let image = self.run.program.address_spaces.get(&space).ok_or(RunError::Gone)?.image.clone();
        let mut registers = stopped.registers()?;
        let context = image.contexts.borrow_mut().take()?;
        let ordinal = self.ordinal(pid, tid);
        image.contexts.borrow().set(context, layout::PROGRAM_GS, registers.gs_base);
        let version = if self.with_addresses {
            self.run.recorded.samples.drain.as_ref().map_or(Version::default(), AccessBuffer::wanted)
        } else {
            Version::Plain
        };
        enter(&mut self.run.recorded.samples.drain, &image.contexts.borrow(), context, ordinal, version);
        registers.gs_base = image.contexts.borrow().base(context).get();
        self.run
            .program
            .threads
            .insert(tid, Thread::new(pid, space, ordinal, context, image.contexts.clone(), version));
        let address_space = self.run.program.address_spaces.get_mut(&space).ok_or(RunError::Gone)?;
        let (stopped, signals) = map_tables(address_space, [context], stopped)?;
        self.run.program.defer_all(tid, signals);
        self.run.program.note_mask(&stopped)?;
        self.run.redirect(stopped, registers)
    }

    fn ordinal(&mut self, pid: Pid, tid: Pid) -> u32 {
        let began = read_start_ticks(tid).unwrap_or(0);
        match self.ordinals.get(&tid) {
            Some(&(then, ordinal)) if then == began => {
                self.run.evidence.roster.enter_again(tid, ordinal);
                ordinal
            }
            _ => {
                let ordinal = self.run.evidence.roster.enter(pid, tid);
                self.ordinals.insert(tid, (began, ordinal));
                ordinal
            }
        }
    }

    /// Lets stopped threads run on natively as they were.
    fn undo(&mut self, tids: &[Pid], natively: &[(Pid, Registers)]) {
        for &tid in tids {
            if let Some(thread) = self.run.program.threads.remove(&tid) {
                thread.contexts.borrow_mut().give_back(thread.context);
                self.run.evidence.roster.leave(tid);
            }
            let stopped = Stopped::still(tid);
            if let Some((_, registers)) = natively.iter().find(|n| n.0 == tid) {
                // If it is gone, its end will be seen.
                let _ = stopped.set_registers(registers);
            }
            release(stopped);
        }
    }
}

/// Whether two processes have the same mappings, as those have that share their memory, and a process right after it was forked.
fn has_mappings_of(one: Pid, other: Pid) -> bool {
    let maps = |pid| read_maps(pid).ok().filter(|maps| !maps.is_empty());
    maps(one).is_some_and(|one| maps(other).is_some_and(|other| one == other))
}
