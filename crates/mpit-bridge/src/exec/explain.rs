//! What to tell a user about a program that can't be run, or whose MPI calls can't be observed: the thing, its cause,
//! its remedy. Only says; it decides nothing.

use super::{LaunchContext, elf, interpreter};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where an agent listens if nothing else is said (deploy/systemd).
const STANDARD_SOCKET: &str = "/run/throughline/mpi.sock";

/// A program could not be started: why, and what to do.
#[must_use]
pub fn cannot_run(name: &str, file: &Path, error: &std::io::Error) -> String {
    let path = file.display();
    if file.is_dir() {
        return format!("{name}: {path} is a folder; name a program in it");
    }
    match error.kind() {
        ErrorKind::NotFound if !file.exists() => {
            format!("{name}: there is no {path}; check the name, and the folder on this node")
        }
        ErrorKind::NotFound => {
            let next = interpreter(file);
            let loader = elf::Elf::read(file).map(|elf| PathBuf::from(elf.loader));
            let missing = if next == file { loader.unwrap_or(next) } else { next };
            format!("{name}: {} runs {path}, and it is not there; install it on this node", missing.display())
        }
        ErrorKind::PermissionDenied => {
            format!("{name}: {path} may not be executed; chmod +x it, or look for noexec where it is mounted")
        }
        _ => foreign_machine(file).map_or_else(
            || format!("{name}: cannot run {path}: {error}"),
            |other| {
                let own = std::env::consts::ARCH;
                format!("{name}: {path} is a program for {other}, and this machine is {own}; build it for this one")
            },
        ),
    }
}

/// The machine that a program is for, if it is not this one.
#[must_use]
pub fn foreign_machine(file: &Path) -> Option<String> {
    elf::machine(file).filter(|machine| machine != std::env::consts::ARCH)
}

/// A name that is in no folder of PATH.
#[must_use]
pub fn not_found(name: &str) -> String {
    let here = if Path::new(name).is_file() {
        format!("; the one in this folder is ./{name}")
    } else {
        String::new()
    };
    format!("{name}: not found in any folder of PATH; give its path or load its module{here}")
}

/// Is the MPI library part of the program itself? Then nothing can be put between the two.
#[must_use]
pub fn has_mpi_inside(program: &Path) -> bool {
    elf::defines(&interpreter(program), "PMPI_Init")
}

/// Whether an agent would take what the shim reports.
#[must_use]
pub fn agent(around: &LaunchContext) -> String {
    let mut said = Vec::new();
    for path in sockets(around) {
        match connect(&path) {
            Ok(()) => return format!("agent: listens at {path}"),
            Err(why) => said.push(format!("{path}: {why}")),
        }
    }
    format!(
        "agent: none, so nothing would be recorded ({}); start throughline-agent, or set THROUGHLINE_SOCKET",
        said.join("; ")
    )
}

/// Reports to the agent, if one listens, that the program has its MPI inside. Waits for nobody.
pub fn report_mpi_inside(program: &Path, around: &LaunchContext) {
    let Some(name) = program.file_name() else { return };
    let frame = crate::bypass::frame_of_inside(name.as_encoded_bytes());
    for path in sockets(around) {
        let send = || -> std::io::Result<()> {
            let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
            socket.set_nonblocking(true)?;
            socket.connect(&SockAddr::unix(&path)?)?;
            socket.send(&frame).map(|_| ())
        };
        if send().is_ok() {
            return;
        }
    }
}

/// Where an agent may listen, the first place first.
fn sockets(around: &LaunchContext) -> Vec<String> {
    let given = around.variables.get("THROUGHLINE_SOCKET").filter(|path| !path.is_empty());
    let run = around.variables.get("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    match given {
        Some(path) => vec![path.clone()],
        None => std::iter::once(STANDARD_SOCKET.to_owned())
            .chain(run.map(|folder| format!("{folder}/throughline/mpi.sock")))
            .collect(),
    }
}

fn connect(path: &str) -> Result<(), String> {
    let attempt = || -> std::io::Result<()> {
        let address = SockAddr::unix(path)?;
        Socket::new(Domain::UNIX, Type::SEQPACKET, None)?.connect(&address)
    };
    attempt().map_err(|error| match error.kind() {
        ErrorKind::NotFound => "there is no such socket".to_owned(),
        ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
        ErrorKind::PermissionDenied => "this user may not connect".to_owned(),
        ErrorKind::InvalidInput => "longer than a socket's path may be, 107 bytes".to_owned(),
        _ => error.to_string(),
    })
}
