//! Epochs kept over restarts: what each port last said and since when it counts, in one file of the state
//! folder. Written whole beside the old one and moved over it, so that a crash leaves one of the two. A file
//! that can't be read, or is damaged, is no failure: counting begins anew, with epochs of its own.

use super::Sweeper;
use super::target::History;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use throughline_infiniband::mad::Counters;
use throughline_sample::Guid;

/// First line of the file: its format.
const HEADING: &str = "throughline epochs 1";
/// Largest file that is read: the ports of the largest subnet at 500 bytes each.
const BYTES_MAX: u64 = 64 << 20;
/// Ports read from a file at most; no subnet has more than 2^16 LIDs, and few switches more than 64 ports.
const PORTS_MAX: usize = 1 << 18;

/// What a sweeper remembers, as the file's text.
#[must_use]
pub fn text_of(sweeper: &Sweeper) -> String {
    let mut text = String::with_capacity(1 << 16);
    text.push_str(HEADING);
    text.push('\n');
    for ((guid, port), epoch, counters) in sweeper.history() {
        push(&mut text, guid, port, epoch, counters);
    }
    let sum = crc32c::crc32c(text.as_bytes());
    text.push_str(&format!("end {sum:08x}\n"));
    text
}

/// Writes a text in place of the file.
///
/// # Errors
/// The folder can't be written; the file that was there is as it was.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let write = || {
        let mut file = std::fs::File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    let result = write().and_then(|()| std::fs::rename(&fresh, path));
    if result.is_err() {
        // What is left of it would only take room away from a full disk.
        let _ = std::fs::remove_file(&fresh);
    }
    result
}

/// One port: all numbers in hexadecimal.
fn push(text: &mut String, guid: Guid, port: u8, epoch: i64, counters: &Counters) {
    use std::fmt::Write as _;
    let (known, saturated, values) = counters.parts();
    // Writing to a String can't fail.
    let _ = write!(text, "{:x} {port:x} {epoch:x} {known:x} {saturated:x}", guid.0);
    for value in values {
        let _ = write!(text, " {value:x}");
    }
    text.push('\n');
}

/// Gives a sweeper what a file remembers; how many ports. `None` where there is no file.
///
/// # Errors
/// The file can't be read, or is damaged: the sweeper is as it was.
pub fn load(sweeper: &mut Sweeper, path: &Path) -> io::Result<Option<usize>> {
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let history = parse(file.take(BYTES_MAX))?;
    let ports = history.len();
    sweeper.restore(history);
    Ok(Some(ports))
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it is damaged: {what}"))
}

/// Reads the file's text.
///
/// # Errors
/// Anything that [`store`] does not write.
pub(crate) fn parse(file: impl Read) -> io::Result<History> {
    let mut lines = BufReader::new(file);
    let mut history = History::new();
    let (mut line, mut sum, mut number) = (String::new(), 0, 0_usize);
    loop {
        line.clear();
        number += 1;
        if lines.read_line(&mut line)? == 0 {
            return Err(damaged("its end is missing"));
        }
        let words = line.trim_end();
        if let Some(reported) = words.strip_prefix("end ") {
            return match u32::from_str_radix(reported, 16) {
                Ok(reported) if reported == sum => Ok(history),
                _ => Err(damaged("its checksum is wrong")),
            };
        }
        sum = crc32c::crc32c_append(sum, line.as_bytes());
        if number == 1 {
            if words != HEADING {
                return Err(damaged("it does not begin as expected"));
            }
        } else if history.len() < PORTS_MAX {
            let (key, value) = port(words).ok_or_else(|| damaged(&format!("line {number}")))?;
            history.insert(key, value);
        } else {
            return Err(damaged("it has too many ports"));
        }
    }
}

fn port(line: &str) -> Option<((Guid, u8), (i64, Counters))> {
    let mut words = line.split(' ');
    let mut number = || u64::from_str_radix(words.next()?, 16).ok();
    let (guid, port, epoch) = (number()?, number()?, number()?);
    let (known, saturated) = (number()?, number()?);
    let counters = Counters::from_parts(known, saturated, &mut number)?;
    let key = (Guid(guid), u8::try_from(port).ok()?);
    let epoch = i64::try_from(epoch).ok().filter(|epoch| *epoch > 0)?;
    words.next().is_none().then_some((key, (epoch, counters)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(ports: &str) -> String {
        let body = format!("{HEADING}\n{ports}");
        format!("{body}end {:08x}\n", crc32c::crc32c(body.as_bytes()))
    }

    #[test]
    fn what_is_written_is_read() {
        let counters = Counters::from_parts(0b1001, 0b1000, {
            let mut values = [77, 0xFFFF].into_iter();
            move || values.next()
        })
        .unwrap();
        let mut line = String::new();
        push(&mut line, Guid(0xABC), 3, 1_790_000_000_000_000_000, &counters);
        let history = parse(text(&line).as_bytes()).unwrap();
        assert_eq!(history.get(&(Guid(0xABC), 3)), Some(&(1_790_000_000_000_000_000, counters)));
    }

    #[test]
    fn damage_is_named() {
        let good = text("abc 3 18d 1 0 4d\n");
        assert_eq!(parse(good.as_bytes()).unwrap().len(), 1);
        for (bad, words) in [
            (good.replace("4d", "4e"), "checksum"),
            (good.replace("throughline", "through"), "begin"),
            (good[..good.len() - 13].to_owned(), "end is missing"),
            (text("abc 3 18d 1 0\n"), "line 2"),
            (text("abc 3 18d 1 0 4d 4d\n"), "line 2"),
            (text("abc 300 18d 1 0 4d\n"), "line 2"),
            (text("abc 3 0 1 0 4d\n"), "line 2"),
            (String::new(), "end is missing"),
        ] {
            let error = parse(bad.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{bad:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, ports in "[0-9a-f \n]{0,200}") {
            let _ = parse(bytes.as_slice());
            let _ = parse(text(&ports).as_bytes());
        }
    }
}
