//! A hostile user of a node: short ranks with job numbers of others and invented ones, through the socket that every rank uses.

use super::{COUNTS_INTERVAL, end_of_input};
use crate::rank::Connection;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Options {
    /// The agent's socket
    #[arg(long)]
    socket: PathBuf,
    /// Which numbers
    #[arg(long)]
    seed: u64,
    /// Numbers of others' jobs
    #[arg(long, value_delimiter = ',')]
    jobs: Vec<u32>,
    /// From one rank to the next
    #[arg(long, default_value_t = 25)]
    pace_ms: u64,
}

/// Prints `sent ...` now and then, until standard input ends.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(options.seed);
    let is_closed = end_of_input();
    let mut out = std::io::stdout();
    let mut counted: Option<Instant> = None;
    let (mut ranks, mut crashed, mut untaken) = (0, 0, 0);
    while is_closed.recv_timeout(Duration::from_millis(options.pace_ms)) == Err(RecvTimeoutError::Timeout) {
        let job = match random.usize(..10 * options.jobs.len()) {
            at if at < options.jobs.len() => options.jobs[at],
            _ => random.u32(1_000_000..),
        };
        let mut rank = Connection::new(options.socket.clone(), random.u32(..4), 4, job.to_string());
        if !rank.push(random.u64(1..1000)) {
            untaken += 1;
        } else if random.bool() && rank.say_goodbye() {
            ranks += 1;
        } else {
            // Its connection ends without MPI_Finalize: a crash, and detail of it is requested.
            crashed += 1;
        }
        if counted.is_none_or(|at| at.elapsed() > COUNTS_INTERVAL) {
            counted = Some(Instant::now());
            let line =
                format!("sent {ranks} short ranks and {crashed} that crash; {untaken} were not taken\n");
            out.write_all(line.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(())
}
