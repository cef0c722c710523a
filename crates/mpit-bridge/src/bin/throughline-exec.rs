//! `throughline-exec PROGRAM ARGS...` runs a program with the MPI shim that fits it, or as it is.
//!
//! It replaces itself by the program and prints nothing: whatever goes wrong with the shim, the program runs.

use clap::Parser;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use throughline_mpit_bridge::exec::{
    Decision, Family, LaunchContext, Target, decide, explain, find_object, find_program, is_tool_of_nvtx,
    preload,
};

/// Statuses of a program that can't be run, as shells, env(1) and nohup(1) give them.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

const HELP: &str = "\
Before the program, behind the launcher, on each node:
  mpirun -n 4 throughline-exec ./program arguments
  srun throughline-exec python3 script.py
Before the launcher it works for the ranks on this node:
  throughline-exec mpirun -n 4 ./program

Without an agent, without MPI or without the shim's libraries the program runs as it is. Its
arguments, output and exit status are the same in any case.

Environment:
  THROUGHLINE_SHIM=off       run the program as it is
  THROUGHLINE_SOCKET=PATH    the agent's socket; else /run/throughline/mpi.sock, then
                             $XDG_RUNTIME_DIR/throughline/mpi.sock
  THROUGHLINE_LIB_DIR=DIR    where libthroughline-{openmpi,openmpi5,mpich,mpi3}.so are;
                             else beside this program or in ../lib/throughline
  THROUGHLINE_PVARS=LIST     MPI_T performance variables to read, separated by commas; a star at
                             the end of a name stands for any rest; an empty list reads none
  THROUGHLINE_WIRE=1         tell which messages Open MPI really sends, also inside collectives; about
                             0.1 microseconds a message. With Open MPI 4.1 and 5.0; others' monitoring
                             is not known to leave programs unharmed
  THROUGHLINE_TRACE=1        as --trace; give it to all ranks of a job
  THROUGHLINE_TRACE_RATE=N, THROUGHLINE_TRACE_RECORDS=N
                             records a second of a rank, and in all, at most
  THROUGHLINE_TRACE_DIR=DIR  folder that all nodes of the job share, by which ranks find rank 0 to
                             compare clocks; else ~/.throughline
  THROUGHLINE_DEBUG=1        say on standard error what is done";

/// Run a program so that Throughline observes its MPI operations.
#[derive(Debug, Parser)]
#[command(name = "throughline-exec", version, max_term_width = 110, after_help = HELP, arg_required_else_help = true)]
struct Arguments {
    /// Say what would be preloaded, why, and whether an agent listens; do not run the program.
    #[arg(long)]
    dry_run: bool,

    /// The program's MPI is of this family, whatever it looks like: openmpi, or mpich and its like.
    #[arg(long, value_name = "FAMILY", value_parser = ["openmpi", "mpich"])]
    mpi: Option<String>,

    /// Trace each call and message with its times, for `throughline job trace`.
    #[arg(long)]
    trace: bool,

    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Printing help or the complaint to a closed stream fails, and there is nobody to report to.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 64 } else { 0 });
        }
    };
    let around = LaunchContext::of_process();
    let (Some(name), rest) = (arguments.program.first(), &arguments.program[1..]) else {
        return ExitCode::from(64); // clap has required one
    };
    let path = around.variables.get("PATH").map_or("/usr/bin:/bin", String::as_str);
    let Some(file) = find_program(name, path) else {
        eprintln!("throughline-exec: {}", explain::not_found(&name.to_string_lossy()));
        return ExitCode::from(NOT_FOUND);
    };
    let chosen = choose(&arguments, &file, rest, &around);
    if arguments.dry_run {
        return say(&chosen, &file, &around);
    }
    run(name, rest, &file, chosen, &around, arguments.trace)
}

/// What would be done, and whether it would be of use.
fn say(chosen: &Result<(PathBuf, &'static str), String>, file: &Path, around: &LaunchContext) -> ExitCode {
    match chosen {
        _ if explain::has_mpi_inside(file) => println!(
            "nothing to see: the MPI library is linked into the program (static MPI), and no call leaves it; link \
             the program to the shared library"
        ),
        Ok((object, why)) => println!("preload {}: {why}\n{}", object.display(), explain::agent(around)),
        Err(why) => println!("nothing to preload: {why}"),
    }
    ExitCode::SUCCESS
}

/// The object to preload, or why none.
fn choose(
    arguments: &Arguments,
    file: &Path,
    rest: &[OsString],
    around: &LaunchContext,
) -> Result<(PathBuf, &'static str), String> {
    let requested = arguments.mpi.as_deref().map(|name| match name {
        "openmpi" => Family::OpenMpi,
        _ => Family::Mpich,
    });
    let (target, why) = match (decide(file, rest, around), requested) {
        (Decision::Preload(target, _), Some(family)) if target.family == family => {
            (target, "requested with --mpi")
        }
        (_, Some(family)) => (Target::guessed(family, file, around), "requested with --mpi"),
        (Decision::Preload(target, why), None) => (target, why),
        (Decision::Leave(why), None) => return Err(why.to_owned()),
    };
    let own = std::env::current_exe().unwrap_or_default();
    find_object(&target, &own, around).map(|object| (object, why)).ok_or_else(|| {
        "no libthroughline-*.so that fits this MPI is installed; set THROUGHLINE_LIB_DIR to their folder"
            .to_owned()
    })
}

fn run(
    name: &OsString,
    rest: &[OsString],
    file: &Path,
    chosen: Result<(PathBuf, &'static str), String>,
    around: &LaunchContext,
    trace: bool,
) -> ExitCode {
    let debug = around.variables.contains_key("THROUGHLINE_DEBUG");
    let mut command = Command::new(file);
    command.arg0(name).args(rest);
    if trace {
        command.env("THROUGHLINE_TRACE", "1");
    }
    match chosen {
        Ok((object, why)) => {
            if debug {
                eprintln!("throughline-exec: preload {}: {why}", object.display());
            }
            if is_tool_of_nvtx(std::env::var_os("NVTX_INJECTION64_PATH").as_deref()) {
                command.env("NVTX_INJECTION64_PATH", &object);
            }
            let existing = std::env::var_os("LD_PRELOAD");
            match existing.map(OsString::into_string) {
                None => command.env("LD_PRELOAD", preload(&object, None)),
                Some(Ok(existing)) => command.env("LD_PRELOAD", preload(&object, Some(&existing))),
                Some(Err(_)) => &mut command, // a list that is no text is left as it is
            };
        }
        Err(why) => {
            if debug {
                eprintln!("throughline-exec: nothing to preload: {why}");
            }
            // Only ranks of a launcher: to look into each program takes time.
            if around.is_launched() && explain::has_mpi_inside(file) {
                explain::report_mpi_inside(file, around);
            }
        }
    }
    let error = start(&mut command, name, rest, file);
    eprintln!("throughline-exec: {}", explain::cannot_run(&name.to_string_lossy(), file, &error));
    let not_found = error.kind() == std::io::ErrorKind::NotFound;
    ExitCode::from(if not_found { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// Becomes the program; returns only if that fails. What the kernel does not know is a script without a first line
/// for `sh`, as everywhere, but no program of another machine: that would be read as a script as well.
fn start(command: &mut Command, name: &OsString, rest: &[OsString], file: &Path) -> std::io::Error {
    if explain::foreign_machine(file).is_none() {
        return command.exec();
    }
    let text = |text: &std::ffi::OsStr| CString::new(text.as_bytes()).unwrap_or_default();
    let words: Vec<CString> = std::iter::once(name).chain(rest).map(|word| text(word)).collect();
    let Err(error) = nix::unistd::execv(&text(file.as_os_str()), &words);
    error.into()
}
