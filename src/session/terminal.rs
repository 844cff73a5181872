//! Notices whether the program reads the terminal: such input cannot be replayed in the counted pass. It sees a read that waits
//! while it does. Text typed before the program began is seen to be gone afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::unistd::Pid;

/// A person types slower than this.
const PERIOD: Duration = Duration::from_millis(50);
const SYS_READ: &str = "0";

/// Watches a process until dropped or asked.
#[derive(Debug)]
pub struct TerminalWatch {
    seen: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Bytes that were typed before the program began.
    typed_ahead: usize,
}

impl TerminalWatch {
    /// Starts watching `program` for a blocking read of descriptor 0.
    pub fn start(program: Pid) -> TerminalWatch {
        let (seen, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let typed_ahead = bytes_waiting();
        let (see, halt) = (seen.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !halt.load(Ordering::Relaxed) && !see.load(Ordering::Relaxed) {
                see.store(waits_for_input(program), Ordering::Relaxed);
                std::thread::sleep(PERIOD);
            }
        });
        TerminalWatch { seen, stop, thread: Some(thread), typed_ahead }
    }

    /// Ends the watch: whether the terminal was read.
    pub fn finish(mut self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.seen.load(Ordering::Relaxed) || bytes_waiting() < self.typed_ahead
    }
}

/// Bytes of whole lines that a read of our terminal would return.
fn bytes_waiting() -> usize {
    let mut waiting: libc::c_int = 0;
    // SAFETY: the kernel writes one integer into a live variable.
    let result = unsafe { libc::ioctl(0, libc::FIONREAD, &raw mut waiting) };
    if result == 0 { waiting.max(0) as usize } else { 0 }
}

/// Whether a task of `program` is inside `read(0, …)`.
fn waits_for_input(program: Pid) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{program}/task")) else { return false };
    tasks.flatten().any(|task| {
        let Ok(call) = std::fs::read_to_string(task.path().join("syscall")) else { return false };
        let mut words = call.split_whitespace();
        words.next() == Some(SYS_READ) && words.next() == Some("0x0")
    })
}
