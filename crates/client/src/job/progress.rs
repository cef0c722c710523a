//! How far long work is, on a terminal's standard error; nothing elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two lines.
const EACH: Duration = Duration::from_millis(200);

/// Counts things that are done.
pub struct Progress {
    what: &'static str,
    all: usize,
    done: usize,
    shown: Instant,
    is_terminal: bool,
    has_shown: bool,
}

impl Progress {
    /// Of so many.
    pub fn new(what: &'static str, all: usize) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { what, all, done: 0, shown: Instant::now(), is_terminal, has_shown: false }
    }

    /// The next one begins.
    pub fn step(&mut self) {
        self.at(self.done + 1, self.all);
    }

    /// So many are done, of all that are known by now.
    pub fn at(&mut self, done: usize, all: usize) {
        (self.done, self.all) = (done, all);
        if self.is_terminal && self.shown.elapsed() >= EACH {
            self.shown = Instant::now();
            self.has_shown = true;
            // Who can't read it misses nothing.
            let _ = write!(std::io::stderr(), "\r{} {} of {} ", self.what, self.done, self.all);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.has_shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
