//! ibsim's console: commands in by a fifo, answers and prompts out by its standard output.

use super::{SimError, io};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What ibsim prints when it waits for a command.
const PROMPT: &str = "sim> ";
/// Longest command: ibsim reads lines into 128 bytes.
const LINE_BYTES_MAX: usize = 120;
/// Longest wait for a prompt. ibsim does tens of thousands of commands a second.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Kept output: what a few thousand refused commands say.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
struct Output {
    text: String,
    prompts: usize,
    is_closed: bool,
}

type SharedOutput = Arc<(Mutex<Output>, Condvar)>;

/// The console of one simulator.
pub(super) struct Console {
    fifo: File,
    shared: SharedOutput,
    /// Prompts that were answered with a command.
    answered: usize,
}

/// Makes the fifo: our end, which stays open, and the simulator's standard input.
pub(super) fn fifo(folder: &Path) -> Result<(File, Stdio), SimError> {
    let path = folder.join("console");
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
    if let Err(errno) = nix::unistd::mkfifo(&path, mode)
        && errno != nix::errno::Errno::EEXIST
    {
        return Err(io(format!("creating the fifo {}", path.display()))(errno.into()));
    }
    // For reading and writing, so that opening does not wait for the other end.
    let open = || OpenOptions::new().read(true).write(true).open(&path);
    let ours = open().map_err(io(format!("opening {}", path.display())))?;
    let theirs = open().map_err(io(format!("opening {}", path.display())))?;
    Ok((ours, Stdio::from(theirs)))
}

impl Console {
    pub(super) fn new(fifo: File, output: ChildStdout) -> Console {
        let shared = SharedOutput::default();
        let reader = Arc::clone(&shared);
        std::thread::spawn(move || read_all(output, &reader));
        Console { fifo, shared, answered: 0 }
    }

    /// Whether the first prompt came.
    pub(super) fn is_ready(&self) -> bool {
        self.lock().prompts > 0
    }

    /// What was printed and not yet taken.
    pub(super) fn output(&self) -> String {
        self.lock().text.clone()
    }

    pub(super) fn run(&mut self, commands: &str) -> Result<String, SimError> {
        self.lock().text.clear();
        let lines = commands.lines().filter(|line| !line.trim().is_empty());
        let mut bytes = Vec::with_capacity(commands.len() + 1);
        for line in lines {
            if line.len() > LINE_BYTES_MAX {
                return Err(SimError::Refused(format!("longer than {LINE_BYTES_MAX} bytes: {line}")));
            }
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
            self.answered += 1;
        }
        self.fifo.write_all(&bytes).map_err(io("writing to ibsim's console"))?;
        let (lock, changed) = &*self.shared;
        // The first prompt came before any command.
        let goal = self.answered + 1;
        let output = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut output, waited) = changed
            .wait_timeout_while(output, ANSWER_LIMIT, |output| output.prompts < goal && !output.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        if output.is_closed || waited.timed_out() {
            let what = if output.is_closed { "ended" } else { "did not answer on its console" };
            return Err(SimError::Program { program: "ibsim", what, said: output.text.clone() });
        }
        Ok(std::mem::take(&mut output.text))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Output> {
        // A panic elsewhere leaves text and a count: both stay usable.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads until the simulator ends, counting prompts, so that it never waits for a full pipe.
fn read_all(mut output: ChildStdout, shared: &SharedOutput) {
    let mut bytes = [0; 4096];
    let mut rest = String::new();
    loop {
        let count = output.read(&mut bytes).unwrap_or(0);
        let mut state = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        if count == 0 {
            state.is_closed = true;
            shared.1.notify_all();
            return;
        }
        let text = String::from_utf8_lossy(&bytes[..count]);
        // A prompt may be cut by the end of a read: what is left over is looked at with the next one.
        rest.push_str(&text);
        state.prompts += rest.matches(PROMPT).count();
        let keep = rest.rfind(PROMPT).map_or(0, |at| at + PROMPT.len());
        let cut = rest.len().saturating_sub(PROMPT.len() - 1).max(keep);
        rest = rest.get(cut..).unwrap_or_default().to_owned();
        if state.text.len() + text.len() <= OUTPUT_BYTES_MAX {
            state.text.push_str(&text);
        }
        shared.1.notify_all();
    }
}
