//! `profile`: runs rprof on a program that the client names.

use std::fs::Metadata;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::arguments::ProfileArguments;
use super::error::Refusal;
use super::folder::Folder;
use super::questions;

/// Interval between looks at a running program.
const LOOK: Duration = Duration::from_millis(20);
/// After an interrupt, rprof and the program have so long to end.
const GRACE: Duration = Duration::from_secs(60);
/// Bytes of the program's output in an answer.
const OUTPUT: u64 = 600;

/// Starts programs, and ends them when the client goes.
#[derive(Debug)]
pub struct Runner {
    rprof: PathBuf,
    is_over: AtomicBool,
}

impl Runner {
    /// Runs programs under the program `rprof`.
    pub fn new(rprof: PathBuf) -> Runner {
        Runner { rprof, is_over: AtomicBool::new(false) }
    }

    /// Interrupts what runs; nothing is started any more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Profiles a program and waits for its end.
    ///
    /// # Errors
    /// [`Refusal`]: the program is outside of the folder, or rprof failed.
    pub fn profile(&self, folder: &Folder, arguments: &ProfileArguments) -> Result<Value, Refusal> {
        let Some((program, rest)) = arguments.program.split_first() else {
            return Err(Refusal::new("program is empty: name one, such as [\"./app\"]"));
        };
        if !(arguments.timeout_s > 0.0 && arguments.timeout_s.is_finite()) {
            return Err(Refusal::new("timeout_s is a number of seconds above 0"));
        }
        // A name without a slash is looked up in PATH, by rprof.
        let program = if program.contains('/') { folder.existing(program)? } else { PathBuf::from(program) };
        let output = folder.new_entry(&arguments.output)?;
        let before = written(&output);
        let (mut out, mut err) = (stream()?, stream()?);
        let mut command = Command::new(&self.rprof);
        command.arg("--quiet").arg("-o").arg(&output);
        if let Some(passes) = arguments.passes {
            command.args(["--passes", passes.name()]);
        }
        command.arg("--").arg(program).args(rest).current_dir(folder.path()).stdin(Stdio::null());
        let cannot = |error: std::io::Error| Refusal::new(format!("cannot run {}: {error}", self.rprof.display()));
        command.stdout(out.try_clone().map_err(cannot)?).stderr(err.try_clone().map_err(cannot)?);
        let child = command.spawn().map_err(cannot)?;
        let (status, interrupted) = self.wait(child, Duration::from_secs_f64(arguments.timeout_s)).map_err(cannot)?;
        if written(&output) == before {
            return Err(failure(&tail(&mut err, u64::MAX)));
        }
        let mut answer = questions::verdict(folder, &arguments.output)?;
        answer["profile"] = json!(arguments.output);
        answer["exit_status"] = json!(status.code());
        answer["interrupted"] = json!(interrupted);
        answer["stdout_end"] = json!(tail(&mut out, OUTPUT));
        Ok(answer)
    }

    /// Waits for rprof; interrupts it, and the program with it, when the time is over or the client is gone.
    fn wait(&self, mut child: Child, most: Duration) -> std::io::Result<(ExitStatus, bool)> {
        let begun = Instant::now();
        let mut interrupted: Option<Instant> = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((status, interrupted.is_some()));
            }
            let is_late = begun.elapsed() >= most || self.is_over.load(Ordering::SeqCst);
            match interrupted {
                None if is_late => {
                    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
                    interrupted = Some(Instant::now());
                }
                Some(since) if since.elapsed() >= GRACE => child.kill()?,
                _ => {}
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// A file without a name that a program's output goes to: a program that writes much must not wait for us.
fn stream() -> Result<std::fs::File, Refusal> {
    let failed = |error: std::io::Error| Refusal::new(format!("cannot keep the program's output: {error}"));
    let name = c"rprof-mcp-output";
    let descriptor = nix::sys::memfd::memfd_create(name, nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    descriptor.map(std::fs::File::from).map_err(|error| failed(error.into()))
}

/// The last `most` bytes of a stream, as text.
fn tail(stream: &mut std::fs::File, most: u64) -> String {
    let length = stream.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::new();
    let from = length.saturating_sub(most);
    let read = stream.seek(SeekFrom::Start(from)).and_then(|_| stream.read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match read {
        Ok(_) if from > 0 => format!("…{text}"),
        _ => text,
    }
}

/// When the profile in `output` was written, and as which file; `None` if there is none.
fn written(output: &Path) -> Option<(u64, i64, i64)> {
    let of = |file: Metadata| (file.ino(), file.mtime(), file.mtime_nsec());
    std::fs::metadata(output.join("profile.json")).ok().map(of)
}

/// The line by which rprof says why it failed, without its own name.
fn failure(told: &str) -> Refusal {
    let line = told.lines().rev().find_map(|line| line.strip_prefix("rprof: "));
    Refusal::new(line.unwrap_or("rprof wrote no profile"))
}
