//! `throughline-chaos`: the real processes on this machine under faults at random from a seed, and a ledger of what was
//! produced against what the database has at the end.
//!
//! One process is the runner. It starts itself again as `writer` (a spool and its delivery, as in every daemon), `rank`
//! (what an MPI rank sends), `attack` (what no client should send), `hostile-node` and `hostile-user` (what one with a right to send
//! should not), so that each of them can be killed.

mod attack;
mod certificates;
mod hostile;
mod model;
mod rank;
mod real;
mod writer;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Kills, stops, fills, tears and partitions the real processes at random from a seed")]
struct Arguments {
    #[command(flatten)]
    run: real::Options,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Plays seeds on the model: real spool, delivery and collector on simulated disks, network and clock
    Model(model::Options),
    /// A producer with a spool: appends numbered events until standard input ends, then delivers all
    #[command(hide = true)]
    Writer(writer::Options),
    /// A producer of MPI frames: pushes sums until standard input ends, then says goodbye
    #[command(hide = true)]
    Rank(rank::Options),
    /// A node with a valid certificate that claims everything until standard input ends
    #[command(hide = true)]
    HostileNode(hostile::NodeOptions),
    /// A user with a flood of short ranks until standard input ends
    #[command(hide = true)]
    HostileUser(hostile::UserOptions),
    /// Garbage for sockets that anybody may connect to
    #[command(hide = true)]
    Attack {
        /// The agent's socket for ranks
        #[arg(long)]
        socket: PathBuf,
        /// An address that takes TCP
        #[arg(long)]
        address: Vec<String>,
        /// Where the garbage begins
        #[arg(long)]
        seed: u64,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Some(Command::Model(options)) => model::run(&options),
        Some(Command::Writer(options)) => writer::run(&options),
        Some(Command::Rank(options)) => rank::run(&options),
        Some(Command::HostileNode(options)) => hostile::run_node(&options),
        Some(Command::HostileUser(options)) => hostile::run_user(&options),
        Some(Command::Attack { socket, address, seed }) => {
            attack::run(&socket, &address, seed);
            Ok(())
        }
        None => real::run(&arguments.run),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("throughline-chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}
