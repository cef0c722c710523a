//! Runs PostgreSQL's programs as the server's user, and knows whether the server runs and for whom.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::folder::{SOCKET_NUMBER, ServerUser, data_folder, socket_folder};
use super::{Installation, Lifetime, STATE_REMEDY};
use crate::error::Error;
use crate::error::NO_SPACE;

/// How long a call waits for the server to come up: after a crash it replays up to `max_wal_size` of log, which may take
/// longer; then it goes on by itself, and the caller tries again.
const START_LIMIT_SECONDS: &str = "120";

/// How long a fast stop may take: a checkpoint of the shared buffers to a slow disk.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// How long processes of a killed server may take to end; a backend in a long write looks up late.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(10);

/// How often the end is looked for.
const STOP_POLL: Duration = Duration::from_millis(20);

/// Lines of a program's output or a log that an error shows.
const SHOWN_LINES: usize = 5;

/// The first PostgreSQL with a locale provider of its own, which needs no locale files.
const BUILTIN_LOCALE_SINCE: u32 = 17;

/// Makes the data folder.
pub(super) fn initdb(
    folder: &Path,
    installation: &Installation,
    user: &ServerUser,
    superuser: &str,
    throw_away: bool,
) -> Result<(), Error> {
    let mut command = program(installation, "initdb", folder, user);
    command
        .args([
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--auth=peer",
            "--data-checksums",
            "--username",
            superuser,
        ])
        .arg("--pgdata")
        .arg(data_folder(folder));
    if installation.major >= BUILTIN_LOCALE_SINCE {
        command.arg("--locale-provider=builtin");
    }
    if throw_away {
        command.arg("--no-sync");
    }
    run(&mut command, "initdb", || STATE_REMEDY.to_owned())
}

/// Starts the server and waits until it answers. It goes on when this process ends.
pub(super) fn start(folder: &Path, installation: &Installation, user: &ServerUser) -> Result<(), Error> {
    wait_for_leftovers(folder)?;
    remove_misleading_pid(folder);
    let log = folder.join("start.log");
    // An old log would explain an old failure.
    let _ = fs::remove_file(&log);
    let mut command = program(installation, "pg_ctl", folder, user);
    command.args(["start", "--wait", "--silent", "--timeout", START_LIMIT_SECONDS]).arg("--log").arg(&log);
    command.arg("--pgdata").arg(data_folder(folder));
    let started = run(&mut command, STARTING, || {
        let log = newest_log(folder).unwrap_or(log.clone());
        format!("its log {} ends: {}", log.display(), tail(&fs::read_to_string(&log).unwrap_or_default()))
    });
    started.map_err(|error| temporary_where_so(error, running(folder).is_some()))
}

/// Whether this PostgreSQL was built with LZ4: it prints the setting, or refuses it.
pub(super) fn takes_lz4(folder: &Path, installation: &Installation, user: &ServerUser) -> bool {
    let mut command = program(installation, "postgres", folder, user);
    command.args(["-C", "wal_compression", "-c", "wal_compression=lz4", "-D"]).arg(data_folder(folder));
    run(&mut command, "looking for LZ4", String::new).is_ok()
}

/// Lets a running server read its configuration again.
pub(super) fn reload(folder: &Path) {
    if let Some(pid) = running(folder) {
        // One that ends meanwhile reads it at its next start.
        let _ = kill(Pid::from_raw(pid), Signal::SIGHUP);
    }
}

/// The operation in messages.
const STARTING: &str = "starting the database server";

/// Parts of PostgreSQL's messages when what is left of the server before it still ends, or its log is replayed.
const NOT_YET: [&str; 7] = [
    ".lock\" already exists",
    "pre-existing shared memory block",
    "lock file \"postmaster.pid\" already exists",
    "lock file \"postmaster.pid\" is empty",
    "the database system is starting up",
    "the database system is shutting down",
    "server did not start in time",
];

/// Distinguishes a start that failed for good from one that will succeed by itself, and from a full disk.
fn temporary_where_so(error: Error, runs: bool) -> Error {
    let text = error.to_string();
    let what = STARTING.to_owned();
    if text.contains(NO_SPACE) {
        return Error::Full { what, place: String::new(), cause: NO_SPACE.to_owned() };
    }
    if runs || NOT_YET.iter().any(|part| text.contains(part)) {
        return Error::Unavailable { what, cause: text, remedy: NOT_YET_REMEDY };
    }
    error
}

/// What to do meanwhile: nothing.
const NOT_YET_REMEDY: &str =
    "the server before it still ends, or this one still recovers: it goes on by itself";

/// The file that the server's log collector wrote last, if it came so far.
fn newest_log(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(data_folder(folder).join("log")).ok()?.filter_map(Result::ok);
    files.max_by_key(|file| file.metadata().and_then(|data| data.modified()).ok()).map(|file| file.path())
}

/// Stops the server: running statements are cut off, data is complete. `false` when none runs.
pub(super) fn stop(folder: &Path) -> Result<bool, Error> {
    let Some(pid) = running(folder) else { return Ok(false) };
    kill(Pid::from_raw(pid), Signal::SIGINT).map_err(|errno| {
        Error::io("stop the server of", folder, "run as its user or as root")(errno.into())
    })?;
    // At once, so that who looks after it knows that this end is wanted.
    let _ = fs::remove_file(owner_file(folder));
    let deadline = Instant::now() + STOP_LIMIT;
    while running(folder) == Some(pid) {
        if Instant::now() > deadline {
            return Err(Error::Program {
                program: format!("stopping the database server {pid}"),
                output: format!("it still runs after {} s", STOP_LIMIT.as_secs()),
                remedy: format!("see its log in {}", data_folder(folder).join("log").display()),
            });
        }
        std::thread::sleep(STOP_POLL);
    }
    // Its file is gone before it is, and its log collector ends last. A unit's other processes are killed when `serve` ends.
    let _ = wait_for_leftovers(folder);
    Ok(true)
}

/// The process id of the server that runs on the folder.
pub(super) fn running(folder: &Path) -> Option<i32> {
    let text = fs::read_to_string(pid_file(folder)).ok()?;
    let pid: i32 = text.lines().next()?.trim().parse().ok().filter(|pid| *pid > 1)?;
    serves(pid, folder).then_some(pid)
}

/// Whether a process is a server on the folder: its command line names it. The number alone may belong to
/// anybody after a reboot.
fn serves(pid: i32, folder: &Path) -> bool {
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let data = data_folder(folder);
    line.split(|byte| *byte == 0).any(|word| word == data.as_os_str().as_encoded_bytes())
}

/// A lock file whose number now belongs to another living program, or to a killed server that nobody has reaped yet,
/// keeps PostgreSQL from starting. Otherwise the files stay: by them PostgreSQL finds out that processes of a
/// killed server still use the data.
fn remove_misleading_pid(folder: &Path) {
    for file in [pid_file(folder), socket_lock(folder)] {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let Some(pid) = text.lines().next().and_then(|line| line.trim().parse::<i32>().ok()) else {
            continue;
        };
        if Path::new(&format!("/proc/{pid}")).exists() && !serves(pid, folder) {
            let _ = fs::remove_file(file);
        }
    }
}

/// The lock beside the server's socket, by which it finds another server on the same socket.
fn socket_lock(folder: &Path) -> PathBuf {
    socket_folder(folder).join(format!(".s.PGSQL.{SOCKET_NUMBER}.lock"))
}

/// Waits until the processes of a server that was killed are gone: they see its end within moments. Longer than
/// that the caller may try again; two servers must never use the same files.
fn wait_for_leftovers(folder: &Path) -> Result<(), Error> {
    let deadline = Instant::now() + LEFTOVER_LIMIT;
    while uses_as_working_folder(&data_folder(folder)) {
        if Instant::now() > deadline {
            return Err(Error::Unavailable {
                what: STARTING.to_owned(),
                cause: format!(
                    "processes of the one before still use {} after {} s",
                    data_folder(folder).display(),
                    LEFTOVER_LIMIT.as_secs()
                ),
                remedy: NOT_YET_REMEDY,
            });
        }
        std::thread::sleep(STOP_POLL);
    }
    Ok(())
}

/// Whether any process works in the folder, as all of a server's processes do. Those of others, whose
/// folders cannot be seen, are not the server's.
fn uses_as_working_folder(data: &Path) -> bool {
    let Ok(data) = fs::canonicalize(data) else { return false };
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    processes
        .filter_map(|process| fs::read_link(process.path().join("cwd")).ok())
        .any(|folder| folder == data)
}

fn pid_file(folder: &Path) -> PathBuf {
    data_folder(folder).join("postmaster.pid")
}

fn owner_file(folder: &Path) -> PathBuf {
    folder.join("started-by")
}

/// Notes for whom the server runs: a process id and its start, or `-` for nobody.
pub(super) fn mark_owner(folder: &Path, lifetime: Lifetime) -> Result<(), Error> {
    let path = owner_file(folder);
    let text = match lifetime {
        Lifetime::Detached => "-\n".to_owned(),
        Lifetime::WithCaller => own_mark(),
    };
    super::folder::replace(&path, &text)
}

/// Whether this process is the one for whom the server runs.
pub(super) fn is_own(folder: &Path) -> bool {
    fs::read_to_string(owner_file(folder)).is_ok_and(|text| text == own_mark())
}

/// Whether the process for whom the server runs is gone.
pub(super) fn is_orphaned(folder: &Path) -> bool {
    let Ok(text) = fs::read_to_string(owner_file(folder)) else { return false };
    let Some((pid, start)) = text.trim().split_once(' ') else { return false };
    start_of(pid).as_deref() != Some(start)
}

fn own_mark() -> String {
    let pid = std::process::id().to_string();
    let start = start_of(&pid).unwrap_or_default();
    format!("{pid} {start}\n")
}

/// When a process began, in ticks since boot (proc(5), field 22): with the id it names a process for ever.
fn start_of(pid: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; field 3 follows the last one.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_owned)
}

/// A program of the installation, to be run in the cluster's folder as the server's user.
fn program(installation: &Installation, name: &str, folder: &Path, user: &ServerUser) -> Command {
    let mut command = Command::new(installation.bin.join(name));
    // An inherited environment may name another server, and a locale that the prefix lacks.
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        if text.starts_with("PG") || text.starts_with("LC_") || text.starts_with("LD_") || text == "LANG" {
            command.env_remove(&variable);
        }
    }
    command.current_dir(folder).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    if user.differs {
        // The standard library also drops root's other groups.
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

/// Runs a program to its end; its output is in files, for a server that goes on holds a pipe open for ever.
fn run(command: &mut Command, what: &str, remedy: impl FnOnce() -> String) -> Result<(), Error> {
    let failed = |output: String, remedy: String| Error::Program { program: what.to_owned(), output, remedy };
    let file = match tempfile_for_output() {
        Ok(file) => file,
        Err(error) => return Err(failed(error.to_string(), "check the free space of /tmp".to_owned())),
    };
    let clones = (file.try_clone(), file.try_clone());
    if let (Ok(out), Ok(err)) = clones {
        command.stdout(out).stderr(err);
    }
    let status = match command.status() {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    let said = read_back(file);
    Err(failed(if said.is_empty() { status } else { said }, remedy()))
}

/// A file without a name.
fn tempfile_for_output() -> std::io::Result<fs::File> {
    let name = c"throughline-output";
    let descriptor = nix::sys::memfd::memfd_create(name, nix::sys::memfd::MFdFlags::MFD_CLOEXEC)?;
    Ok(fs::File::from(descriptor))
}

fn read_back(mut file: fs::File) -> String {
    use std::io::{Read, Seek};
    let mut text = Vec::new();
    if file.rewind().is_err() || file.read_to_end(&mut text).is_err() {
        return String::new();
    }
    tail(&String::from_utf8_lossy(&text))
}

/// The last lines of a text, on one line.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_of_another_program_is_stale() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(pid_file(folder.path()), format!("{}\n/elsewhere\n", std::process::id())).unwrap();
        assert_eq!(running(folder.path()), None);
        remove_misleading_pid(folder.path());
        assert!(!pid_file(folder.path()).exists());
        // The number of nobody (the largest possible is lower): PostgreSQL's own affair.
        fs::write(pid_file(folder.path()), "4194305\n").unwrap();
        remove_misleading_pid(folder.path());
        assert!(pid_file(folder.path()).exists());
    }

    #[test]
    fn a_server_belongs_to_its_starter_until_that_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_own(folder.path()) && !is_orphaned(folder.path()));
        mark_owner(folder.path(), Lifetime::WithCaller).unwrap();
        assert!(is_own(folder.path()) && !is_orphaned(folder.path()));
        // The same number with another start time is another process.
        fs::write(owner_file(folder.path()), format!("{} 1\n", std::process::id())).unwrap();
        assert!(!is_own(folder.path()) && is_orphaned(folder.path()));
        mark_owner(folder.path(), Lifetime::Detached).unwrap();
        assert!(!is_own(folder.path()) && !is_orphaned(folder.path()));
    }

    #[test]
    fn a_start_that_failed_for_now_is_told_from_one_that_failed_for_good() {
        let failed = |output: &str| Error::Program {
            program: STARTING.to_owned(),
            output: output.to_owned(),
            remedy: "see its log".to_owned(),
        };
        let block = "FATAL:  pre-existing shared memory block (key 5, ID 3) is still in use";
        assert!(temporary_where_so(failed(block), false).is_temporary());
        let other = "pg_ctl: another server might be running; trying to start server anyway";
        assert!(temporary_where_so(failed(other), true).is_temporary());
        let wrong = format!("{other} | FATAL:  configuration file contains errors");
        assert!(!temporary_where_so(failed(&wrong), false).is_temporary());
        let full = temporary_where_so(failed(&format!("could not write lock file: {NO_SPACE}")), false);
        assert!(full.is_temporary() && full.to_string().contains("disk is full"), "{full}");
    }

    #[test]
    fn a_failing_program_shows_its_last_words() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo first; echo cannot >&2; exit 3"]);
        let error = run(&mut command, "trying", || "do this".to_owned()).unwrap_err().to_string();
        assert_eq!(error, "trying failed: first | cannot; do this");
    }
}
