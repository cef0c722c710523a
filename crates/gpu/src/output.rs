//! What a sampler, or the vendor's library in it, prints: a bounded part of it is logged, the rest is counted and dropped.
//!
//! Nobody waits for it: it is taken whenever it comes, so that a library which prints never holds its sampler up, and the log
//! gets no more of it than [`LOG_BYTES_MAX`] in [`WINDOW`].

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStderr;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// The log gets so much in a window: enough for any message that a person can use.
const LOG_BYTES_MAX: usize = 8 << 10;
/// How long a window is.
const WINDOW: Duration = Duration::from_secs(600);
/// Longest line of the log; the rest of a longer one is dropped.
const LINE_BYTES_MAX: usize = 400;
/// Taken at a time: the capacity of a pipe.
const READ_BYTES: usize = 1 << 16;
/// Read so often before frames have their turn again.
const READS_MAX: usize = 16;

/// The printed text of one sampler.
pub(crate) struct Output {
    /// `None` once it is closed.
    pipe: Option<ChildStderr>,
    buffer: Vec<u8>,
    budget: Budget,
}

impl Output {
    /// Of a child's standard error, whose end here is not to be waited for.
    pub(crate) fn new(pipe: Option<ChildStderr>) -> std::io::Result<Self> {
        if let Some(pipe) = &pipe {
            let flags = OFlag::from_bits_retain(fcntl(pipe, FcntlArg::F_GETFL)?) | OFlag::O_NONBLOCK;
            fcntl(pipe, FcntlArg::F_SETFL(flags))?;
        }
        Ok(Self { pipe, buffer: vec![0; READ_BYTES], budget: Budget::default() })
    }

    /// What becomes readable when something is printed.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Takes what is there.
    pub(crate) fn take(&mut self) {
        for _ in 0..READS_MAX {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(&mut self.buffer) {
                Ok(0) => self.pipe = None,
                Ok(length) => self.budget.take(&self.buffer[..length], Instant::now()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }

    /// Lines to be logged since the last call.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.budget.lines)
    }

    /// Bytes that were dropped since the last call.
    pub(crate) fn dropped(&mut self) -> u64 {
        std::mem::take(&mut self.budget.dropped)
    }

    /// Its last line.
    pub(crate) fn last_words(&self) -> Option<String> {
        let line = if self.budget.line.is_empty() { &self.budget.last } else { &self.budget.line };
        let words = shown(line);
        (!words.is_empty()).then_some(words)
    }
}

/// Divides what is printed into lines that are logged and bytes that are dropped.
#[derive(Default)]
struct Budget {
    /// When the window began, and what the log has got in it.
    window: Option<(Instant, usize)>,
    /// The line that is not complete yet, and the last complete one.
    line: Vec<u8>,
    last: Vec<u8>,
    lines: Vec<String>,
    dropped: u64,
}

impl Budget {
    fn take(&mut self, bytes: &[u8], now: Instant) {
        if self.window.is_none_or(|(begin, _)| now.saturating_duration_since(begin) >= WINDOW) {
            self.window = Some((now, 0));
        }
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
            // The rest of a flood is not looked at line by line, but for its end.
            if self.is_used_up()
                && let Some(last) = rest.iter().rposition(|byte| *byte == b'\n')
            {
                let begin =
                    rest[..last].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
                self.last = rest[begin..last].iter().take(LINE_BYTES_MAX).copied().collect();
                self.dropped += last as u64 + 1;
                rest = &rest[last + 1..];
            }
        }
        self.extend(rest);
    }

    fn is_used_up(&self) -> bool {
        self.window.is_some_and(|(_, logged)| logged >= LOG_BYTES_MAX)
    }

    fn extend(&mut self, bytes: &[u8]) {
        let space = LINE_BYTES_MAX.saturating_sub(self.line.len()).min(bytes.len());
        self.line.extend_from_slice(&bytes[..space]);
        self.dropped += (bytes.len() - space) as u64;
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = shown(&line);
        if let Some((_, logged)) = &mut self.window {
            if *logged < LOG_BYTES_MAX {
                *logged += line.len() + 1;
                self.lines.extend((!text.is_empty()).then_some(text));
            } else {
                self.dropped += line.len() as u64 + 1;
            }
        }
        if !line.is_empty() {
            self.last = line;
        }
    }
}

/// A line as a log may have it: no control characters.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim().chars().map(|one| if one.is_control() { '\u{fffd}' } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_logged_whole_and_without_control_characters() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        for piece in [b"one\ntw".as_slice(), b"o\n\n\x1b[31mred", b"\n last"] {
            budget.take(piece, now);
        }
        assert_eq!(budget.lines, ["one", "two", "\u{fffd}[31mred"]);
        assert_eq!((budget.dropped, shown(&budget.line).as_str()), (0, "last"));
    }

    #[test]
    fn a_flood_is_counted_and_the_log_gets_a_bounded_part_of_it() {
        let (mut budget, begin) = (Budget::default(), Instant::now());
        let flood: Vec<u8> = b"0123456789012345678901234567890\n".repeat(1 << 15);
        for turn in 0..8 {
            budget.take(&flood, begin + Duration::from_secs(turn));
        }
        let logged: usize = budget.lines.iter().map(|line| line.len() + 1).sum();
        assert!(logged <= LOG_BYTES_MAX + LINE_BYTES_MAX, "{logged}");
        assert_eq!(budget.dropped as usize + logged, flood.len() * 8);
        // Ten minutes later a person hears of it again.
        budget.lines.clear();
        budget.take(b"still here\n", begin + WINDOW);
        assert_eq!(budget.lines, ["still here"]);
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let (mut budget, now) = (Budget::default(), Instant::now());
        for _ in 0..1000 {
            budget.take(&[b'x'; 1000], now);
        }
        assert_eq!((budget.line.len(), budget.dropped), (LINE_BYTES_MAX, 1_000_000 - LINE_BYTES_MAX as u64));
    }
}
