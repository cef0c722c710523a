//! The sender that no job knows, and its receiver: bytes over TCP at a steady rate, in a process of its own on an emulated
//! host. Neither links MPI nor runs under `throughline-exec`.

use anyhow::Context;
use clap::Args;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of one write.
const CHUNK_BYTES: usize = 16 << 10;
/// How long the sender tries to reach the receiver, which starts at the same time.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// Options of the hidden subcommand `stream`.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = true)]
pub struct StreamOptions {
    /// Take bytes here until the process is stopped
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Send there until the process is stopped
    #[arg(long, value_name = "ADDRESS", conflicts_with = "listen")]
    to: Option<SocketAddr>,
    /// Send at most so fast
    #[arg(long, value_name = "N", default_value_t = u64::MAX)]
    bytes_per_second: u64,
}

/// Runs it.
///
/// # Errors
/// The address can't be taken or reached.
pub fn run(options: &StreamOptions) -> anyhow::Result<()> {
    match (options.listen, options.to) {
        (Some(address), _) => receive(address),
        (None, Some(address)) => send(address, options.bytes_per_second),
        (None, None) => Ok(()),
    }
}

fn receive(address: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || {
            let mut bytes = vec![0; CHUNK_BYTES];
            while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
        });
    }
    Ok(())
}

fn send(address: SocketAddr, bytes_per_second: u64) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) if begin.elapsed() > CONNECT_LIMIT => {
                return Err(error).with_context(|| format!("connecting to {address}"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    let bytes = vec![0; CHUNK_BYTES];
    let pause = Duration::from_secs_f64(CHUNK_BYTES as f64 / bytes_per_second.max(1) as f64);
    let mut next = Instant::now();
    loop {
        stream.write_all(&bytes).with_context(|| format!("sending to {address}"))?;
        // What a full link held back is not caught up with: a sender of a steady rate has no memory.
        next = (next + pause).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
