//! A terminal that is drawn again in place: alternate screen, one write a frame, keys without Enter. Whatever
//! ends the command, the terminal is as it was.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{self, Write};
use std::time::Duration;

/// Alternate screen, no cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// The cursor and the screen from before.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the upper left corner.
const HOME: &str = "\x1b[H";
/// Clears the rest of a line.
const END_OF_LINE: &str = "\x1b[K";
/// Clears what is below.
const END_OF_SCREEN: &str = "\x1b[J";
/// Size where a terminal does not report one: that of a VT100.
const USUAL: (usize, usize) = (24, 80);

/// A terminal taken over.
pub struct Screen {
    before: Termios,
}

impl Screen {
    /// Takes the terminal over; `None` where standard input and output are none.
    ///
    /// # Errors
    /// It can't be set.
    pub fn open() -> io::Result<Option<Screen>> {
        let (input, output) = (io::stdin(), io::stdout());
        if !isatty(&input) || !isatty(&output) {
            return Ok(None);
        }
        let before = tcgetattr(&input)?;
        let mut raw = before.clone();
        // Ctrl-C stays a signal.
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&input, OptionalActions::Now, &raw)?;
        let screen = Screen { before };
        write_all(ENTER)?;
        Ok(Some(screen))
    }

    /// Rows and columns now.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => USUAL,
        }
    }

    /// Shows lines from the top, each cut to the width, in one write.
    ///
    /// # Errors
    /// Those of the output.
    pub fn draw(&self, text: &str) -> io::Result<()> {
        let (rows, columns) = self.size();
        let mut frame = String::from(HOME);
        for (index, line) in text.lines().take(rows).enumerate() {
            if index > 0 {
                frame.push_str("\r\n");
            }
            frame.extend(line.chars().take(columns));
            frame.push_str(END_OF_LINE);
        }
        frame.push_str(END_OF_SCREEN);
        write_all(&frame)
    }

    /// A key, if one is pressed within this time. An end of input is a `q`.
    ///
    /// # Errors
    /// Those of the input.
    pub fn key(&self, within: Duration) -> io::Result<Option<u8>> {
        let input = io::stdin();
        let mut waiting = [PollFd::new(&input, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() };
        match poll(&mut waiting, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut key = [0];
        match rustix::io::read(&input, &mut key) {
            // VMIN 0 reads nothing where nothing is there; a terminal that hung up says so in its events.
            Ok(0) if waiting[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => Ok(Some(b'q')),
            Ok(1) => Ok(Some(key[0])),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(None),
            Err(_) => Ok(Some(b'q')),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone has nothing to be restored.
        let _ = write_all(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn write_all(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
