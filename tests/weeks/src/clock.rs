//! The clock of all processes: libfaketime with one file, which has how far it is ahead. Wall, monotonic and boot clocks jump together.

use anyhow::{Context, ensure};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_prefix::{Prefix, Set};

/// The library that a process of this program has.
const LIBRARY: &str = "FAKETIME_LIBRARY";
/// The file that a process of this program reads its clock in.
const FILE: &str = "FAKETIME_TIMESTAMP_FILE";
/// Where libfaketime has shared memory of each process that it is in, by its number.
const SHARED_MEMORY: &str = "/dev/shm";

/// libfaketime's library: `FAKETIME_LIBRARY`, else that of the prefix.
fn library() -> anyhow::Result<PathBuf> {
    if let Some(library) = std::env::var_os(LIBRARY) {
        return Ok(library.into());
    }
    let prefix = Prefix::locate()?;
    prefix.ensure(Set::Faketime, &mut |line| eprintln!("{line}"))?;
    let libraries = prefix.root().join("faketime/usr/lib");
    for folder in std::fs::read_dir(&libraries).with_context(|| libraries.display().to_string())? {
        let library = folder?.path().join("faketime/libfaketimeMT.so.1");
        if library.exists() {
            return Ok(library);
        }
    }
    anyhow::bail!(
        "no libfaketimeMT.so.1 below {}: apt-get install libfaketime, FAKETIME_LIBRARY=FILE",
        libraries.display()
    )
}

/// Whether this process has the clock.
pub fn is_faked() -> bool {
    std::env::var_os(FILE).is_some()
}

/// Removes what processes left that were killed: a later one of that number and another user does not start. What is another user's stays.
fn remove_left_over() {
    for entry in std::fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let of = name.strip_prefix("sem.faketime_sem_").or_else(|| name.strip_prefix("faketime_shm_"));
        if of.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Starts this program again with the clock; returns where that fails only.
pub fn become_faked(folder: &Path) -> anyhow::Result<()> {
    remove_left_over();
    let file = folder.join("clock");
    std::fs::write(&file, "+0\n")?;
    let library = library()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1));
    command.env(LIBRARY, &library).env("LD_PRELOAD", &library).env(FILE, &file).env("FAKETIME_NO_CACHE", "1");
    Err(command.exec()).context("starting this program with the clock")
}

/// The folder of this program's files, which the clock's is among.
pub fn folder() -> anyhow::Result<PathBuf> {
    let file = PathBuf::from(std::env::var_os(FILE).context("no clock")?);
    file.parent().map(Path::to_owned).context("the clock's folder")
}

/// What a command needs that is started through another user's shell.
pub fn environment() -> Vec<String> {
    let names = ["LD_PRELOAD", FILE, "FAKETIME_NO_CACHE"];
    names.into_iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?))).collect()
}

/// How far the clock is ahead, and its file.
pub struct FakedClock {
    file: PathBuf,
    ahead_seconds: i64,
}

impl FakedClock {
    pub fn open() -> anyhow::Result<Self> {
        let file = std::env::var_os(FILE).context("no clock")?.into();
        Ok(Self { file, ahead_seconds: 0 })
    }

    /// Whole seconds since 1970.
    pub fn now() -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(0)
    }

    /// Jumps ahead by so many seconds.
    pub fn jump(&mut self, seconds: i64) -> anyhow::Result<()> {
        let before = Self::now();
        self.ahead_seconds += seconds;
        // Readers open the file for each reading, so it is replaced and never half there.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{:+}\n", self.ahead_seconds))?;
        std::fs::rename(&new, &self.file)?;
        let moved = Self::now() - before;
        ensure!((moved - seconds).abs() <= 2, "the clock moved by {moved} s and not by {seconds}");
        Ok(())
    }

    /// Jumps to this second, if it is not there yet. True time goes on, too.
    pub fn jump_to(&mut self, second: i64) -> anyhow::Result<()> {
        let left = second - Self::now();
        if left > 0 { self.jump(left) } else { Ok(()) }
    }
}

/// Waits by true time, which the faked clock does not lengthen.
pub async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// True seconds since the machine's boot, which the faked clock does not change.
pub fn true_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or_default()
}
