//! The agent's control socket: commands of people and job prologs to a running agent.
//!
//! A request is one line, `gpu pause SECONDS` or `gpu resume`; the answer is one, `ok TEXT` or `error TEXT`. Who may send one
//! is decided by the socket's permissions.

use crate::sources::Sources;
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as Stream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use throughline_daemon::{Failure, paths};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// Longest request and answer, in bytes.
const LINE_BYTES: u64 = 512;
/// How long one request may take: the next one waits for it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest pause: who does not end one gets the measurements back the next day.
pub const PAUSE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The socket, ready to be served; removed when dropped.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Control {
    fn drop(&mut self) {
        // Its absence is what is wanted.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Control {
    /// Binds the socket. One that nobody answers on is left over from an agent that was killed, and is replaced.
    ///
    /// # Errors
    /// Another agent answers there, or the folder can't be used.
    pub fn bind(path: &Path, mode: u32) -> Result<Self, Failure> {
        if let Some(folder) = path.parent() {
            paths::create_dir(folder)?;
        }
        let remedy = "end the other agent, or set control.socket to another path";
        if Stream::connect(path).is_ok() {
            let error = std::io::Error::from(std::io::ErrorKind::AddrInUse);
            return Err(Failure::from_io(format!("control socket {}", path.display()), &error, remedy));
        }
        let _ = std::fs::remove_file(path);
        let bound = UnixListener::bind(path).and_then(|listener| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).map(|()| listener)
        });
        let listener = bound.map_err(|error| {
            Failure::from_io(format!("control socket {}", path.display()), &error, remedy)
        })?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Answers requests, one after another, for ever.
    pub async fn serve(self, sources: Sources) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    // A client that says nothing, or reads nothing, is left.
                    if !matches!(tokio::time::timeout(PATIENCE, answer(stream, &sources)).await, Ok(Ok(()))) {
                        tracing::debug!("a request on the control socket was not finished");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "control socket");
                    tokio::time::sleep(PATIENCE).await;
                }
            }
        }
    }
}

async fn answer(stream: UnixStream, sources: &Sources) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    tokio::io::BufReader::new(read.take(LINE_BYTES)).read_line(&mut line).await?;
    let reply = match Request::read(line.trim_end()) {
        Ok(request) => request.obey(sources),
        Err(error) => format!("error {error}"),
    };
    write.write_all(format!("{reply}\n").as_bytes()).await
}

/// What can be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Give the GPUs' performance monitors to others for so long.
    Pause(Duration),
    /// Take them again.
    Resume,
}

impl Request {
    fn read(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["gpu", "pause", seconds] => {
                let seconds: u64 =
                    seconds.parse().map_err(|_| format!("{seconds} is no number of seconds"))?;
                let pause = Duration::from_secs(seconds);
                if pause.is_zero() || pause > PAUSE_MAX {
                    return Err(format!("a pause has 1 to {} seconds", PAUSE_MAX.as_secs()));
                }
                Ok(Self::Pause(pause))
            }
            ["gpu", "resume"] => Ok(Self::Resume),
            _ => Err(format!("{line:?} is no request")),
        }
    }

    fn line(self) -> String {
        match self {
            Self::Pause(pause) => format!("gpu pause {}\n", pause.as_secs()),
            Self::Resume => "gpu resume\n".to_owned(),
        }
    }

    fn obey(self, sources: &Sources) -> String {
        let pause = match self {
            Self::Pause(pause) => Some(pause),
            Self::Resume => None,
        };
        if !sources.pause(pause) {
            return "ok nothing is sampled on this node: cupti.enabled is false, and NVML takes nothing from profilers".to_owned();
        }
        match pause {
            Some(pause) => {
                format!("ok the GPUs are free for a profiler within a second, for {} s", pause.as_secs())
            }
            None => "ok the GPUs are sampled again, unless a lease holds".to_owned(),
        }
    }
}

/// Sends a request to the agent at a socket, and prints the answer.
///
/// # Errors
/// No agent answers there (69), or it refuses.
pub fn query(socket: &Path, request: Request) -> anyhow::Result<ExitCode> {
    let remedy = "is throughline-agent running here, with the same configuration?";
    let mut stream = Stream::connect(socket)
        .map_err(|error| Failure::from_io(format!("control socket {}", socket.display()), &error, remedy))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.line().as_bytes())?;
    let mut reply = String::new();
    BufReader::new(stream.take(LINE_BYTES)).read_line(&mut reply).context("the agent does not answer")?;
    match reply.trim_end().split_once(' ') {
        Some(("ok", text)) => println!("{text}"),
        Some(("error", text)) => bail!("the agent refuses: {text}"),
        _ => bail!("the agent's answer is not understood: {reply:?}"),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written_and_pauses_have_a_bound() {
        for request in [Request::Pause(Duration::from_secs(90)), Request::Resume] {
            assert_eq!(Request::read(request.line().trim_end()), Ok(request));
        }
        assert!(Request::read("gpu pause 0").unwrap_err().contains("1 to 86400"));
        assert!(Request::read("gpu pause 86401").unwrap_err().contains("1 to 86400"));
        assert!(Request::read("gpu pause soon").unwrap_err().contains("soon is no number"));
        assert!(Request::read("").is_err());
    }
}
