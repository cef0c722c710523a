//! The client's side of control: commands to a running fabric over its socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use throughline_crawler::transport::wire::{self, CLASS_NONE, Hello, Kind};

/// Time for a fabric to carry out a command: routing 8,008 hosts anew takes seconds on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A command was not done.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The fabric can't be reached.
    #[error("simulated fabric {socket}: {cause}")]
    Io {
        /// The socket.
        socket: String,
        /// The reason.
        cause: std::io::Error,
    },
    /// The fabric refused it; those before it were done.
    #[error("{0}")]
    Refused(String),
}

/// Runs commands, one a line, and returns what they said.
///
/// # Errors
/// [`ControlError`]; what comes after a refused command is not done.
pub fn control(socket: &Path, commands: &str) -> Result<String, ControlError> {
    let io = |cause| ControlError::Io { socket: socket.display().to_string(), cause };
    let mut stream = UnixStream::connect(socket).map_err(io)?;
    stream.set_read_timeout(Some(LIMIT)).map_err(io)?;
    let mut out = Vec::new();
    Hello { class: CLASS_NONE, port: 0, node: String::new() }.put(&mut out);
    wire::put(&mut out, Kind::Control, &[commands.as_bytes()]);
    stream.write_all(&out).map_err(io)?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let malformed = |error: wire::Malformed| io(std::io::Error::other(error.to_string()));
        while let Some(frame) = wire::take(&bytes).map_err(malformed)? {
            let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
            match (frame.kind, frame.body.split_first()) {
                (Kind::Done, Some((0, said))) => return Ok(text(said)),
                (Kind::Done, Some((_, said))) => return Err(ControlError::Refused(text(said))),
                (Kind::Refused, _) => return Err(ControlError::Refused(text(frame.body))),
                _ => {}
            }
            let taken = frame.bytes;
            bytes.drain(..taken);
        }
        match stream.read(&mut chunk).map_err(io)? {
            0 => return Err(io(std::io::Error::other("it closed the connection"))),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}
