//! Lines of a saved file, one at a time and bounded, with their numbers for messages.
//!
//! It knows no format. A line longer than any format has, and a file that ends within a line, are errors: half
//! a fabric must not look like a whole one.

use super::OfflineError;
use std::io::{self, BufRead, Read};
use throughline_sample::admission::clean_text;

/// Longest line. The longest known are those of `dump_fts -M` (three bytes a port) and of ibdiagnet's tables
/// with some 200 columns: a few kilobytes.
pub const MAX_LINE_BYTES: usize = 64 * 1024;
/// Most bytes of one file after decompression: forwarding tables of 8,008 hosts and 542 switches as text are
/// 0.4 GB, those of the largest subnet possible about ten times that.
pub const MAX_FILE_BYTES: u64 = 8 << 30;
/// Bytes of a wrong line that a message shows.
const SHOWN_BYTES: usize = 80;

/// The lines of one file.
pub struct Lines<'a> {
    reader: io::Take<&'a mut dyn BufRead>,
    file: String,
    number: u64,
    bytes: Vec<u8>,
    text: String,
}

impl<'a> Lines<'a> {
    /// Lines of a reader; `file` is its name in messages.
    pub fn new(file: &str, reader: &'a mut dyn BufRead) -> Lines<'a> {
        let reader = reader.take(MAX_FILE_BYTES);
        Lines { reader, file: file.to_owned(), number: 0, bytes: Vec::new(), text: String::new() }
    }

    /// Goes to the next line; `false` at the end.
    ///
    /// # Errors
    /// The file can't be read, a line is too long, or the last one has no end.
    pub fn advance(&mut self) -> Result<bool, OfflineError> {
        self.bytes.clear();
        let read = (&mut self.reader).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut self.bytes);
        let read = read.map_err(|cause| OfflineError::Io { path: self.file.clone().into(), cause })?;
        self.text.clear();
        if read == 0 {
            if self.reader.limit() == 0 {
                return Err(self.file_error(format!("larger than {MAX_FILE_BYTES} bytes")));
            }
            return Ok(false);
        }
        self.number += 1;
        if self.bytes.last() != Some(&b'\n') {
            let reason = if read > MAX_LINE_BYTES {
                format!("line {} is longer than {MAX_LINE_BYTES} bytes", self.number)
            } else {
                let hint = "save it again, or end the line if the file is whole";
                format!("line {} has no end, so the file is cut short; {hint}", self.number)
            };
            return Err(self.file_error(reason));
        }
        while matches!(self.bytes.last(), Some(b'\n' | b'\r')) {
            self.bytes.pop();
        }
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => self.text.push_str(text),
            Err(_) => self.text.push_str(&String::from_utf8_lossy(&self.bytes)),
        }
        Ok(true)
    }

    /// The present line, without its end. Bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The present line's number, from 1; 0 before the first.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The present line is not what it should be.
    #[must_use]
    pub fn expected(&self, expected: &'static str) -> OfflineError {
        let found = clean_text(self.text.trim(), SHOWN_BYTES).into_owned();
        OfflineError::Line { file: self.file.clone(), line: self.number, expected, found }
    }

    /// Something is wrong with the file as a whole.
    #[must_use]
    pub fn file_error(&self, reason: String) -> OfflineError {
        OfflineError::File { file: self.file.clone(), reason }
    }
}

/// A number, decimal or with 0x.
pub fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits)?,
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok()?,
        None => return None,
    };
    T::try_from(value).ok()
}

/// Hexadecimal digits without 0x.
pub fn hexadecimal(digits: &str) -> Option<u64> {
    // The standard library takes a sign.
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        u64::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// A description as it can be printed anywhere, in the way in which live ones are.
pub fn description(text: &str) -> String {
    crate::mad::node_description(text.as_bytes())
}
