//! Where the demo's files lie, and the lock that keeps a second demo out.
//!
//! Everything is below `<state>/demo`: what survives (database, spools, logs, compiled MPI program) and what
//! one run needs (`run`: sockets, configuration, working folders), which the run removes at its end.

use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use throughline_daemon::{Failure, paths};

/// Names of the simulator's processes.
const SIMULATOR: [&str; 2] = ["ibsim", "opensm"];

/// The folders of one demo, and the lock on them.
pub struct Layout {
    root: PathBuf,
    _lock: Flock<File>,
}

impl Layout {
    /// Takes `<state>/demo` for this process and makes its folders.
    ///
    /// # Errors
    /// Another demo has it (69), a folder can't be made (77, 69), or its socket paths would be too long (64).
    pub fn take(state: &Path) -> Result<Self, Failure> {
        let root = state.join("demo");
        public_folder(&root)?;
        let lock = lock(&root)?;
        let layout = Self { root, _lock: lock };
        stop_leftovers(&layout.run());
        remove(&layout.run())?;
        for folder in [layout.run(), layout.logs(), layout.programs()] {
            public_folder(&folder)?;
        }
        Ok(layout)
    }

    /// State of `throughline serve`: the database.
    pub fn server(&self) -> PathBuf {
        self.root.join("server")
    }

    /// State of one daemon: its spool.
    pub fn daemon(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Log files, one a child.
    pub fn logs(&self) -> PathBuf {
        self.root.join("log")
    }

    /// The compiled MPI program.
    pub fn programs(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// What only this run needs.
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Makes a folder below [`Layout::run`].
    ///
    /// # Errors
    /// It can't be made.
    pub fn run_folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = self.run().join(name);
        public_folder(&folder)?;
        Ok(folder)
    }

    /// Removes what only this run needed.
    ///
    /// # Errors
    /// Something in it can't be removed.
    pub fn clean(&self) -> Result<(), Failure> {
        remove(&self.run())
    }
}

/// Makes a folder that every user can enter: as root, the database runs as another user.
pub fn public_folder(folder: &Path) -> Result<(), Failure> {
    let missing: Vec<PathBuf> =
        folder.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect();
    paths::create_dir(folder)?;
    for path in missing {
        fs::set_permissions(&path, Permissions::from_mode(0o755)).map_err(|error| {
            Failure::from_io(format!("mode of {}", path.display()), &error, "choose another --state-dir")
        })?;
    }
    Ok(())
}

/// Stops a simulator that a demo left behind when it was killed: nobody else runs one in this folder, which is
/// locked by now. Daemons and the database end with their demo or are taken over.
fn stop_leftovers(run: &Path) {
    let is_ours = |pid: &i32| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        SIMULATOR.contains(&name.trim())
            && fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(run))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for pid in pids.filter(is_ours) {
        tracing::warn!(pid, "stopping a simulator that an earlier demo left behind");
        // It has no state to save.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
}

fn lock(root: &Path) -> Result<Flock<File>, Failure> {
    let path = root.join("lock");
    let remedy = "choose another place with --state-dir";
    let name = format!("lock file {}", path.display());
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| Failure::from_io(&name, &error, remedy))?;
    let mut lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(mut file, errno)| {
        if errno != nix::errno::Errno::EWOULDBLOCK {
            return Failure::from_io(&name, &errno.into(), remedy);
        }
        let mut holder = String::new();
        drop(file.read_to_string(&mut holder));
        Failure::unavailable(format!(
            "a demo is already running in {} (process {}); stop it with Ctrl-C, or {remedy}",
            root.display(),
            holder.trim()
        ))
    })?;
    let written = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
    written.map_err(|error| Failure::from_io(&name, &error, remedy))?;
    Ok(lock)
}

fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::from_io(format!("removing {}", folder.display()), &error, "remove it by hand"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_demo_is_refused_and_told_who_has_it() {
        let state = tempfile::tempdir().unwrap();
        let first = Layout::take(state.path()).unwrap();
        let refusal = Layout::take(state.path()).map(|_| ()).unwrap_err();
        assert_eq!(refusal.status as u8, 69);
        assert!(refusal.to_string().contains(&std::process::id().to_string()), "{refusal}");
        drop(first);
        Layout::take(state.path()).unwrap();
    }

    #[test]
    fn what_a_run_needs_goes_and_what_survives_stays() {
        let state = tempfile::tempdir().unwrap();
        let layout = Layout::take(state.path()).unwrap();
        let agent = layout.run_folder("agent-0").unwrap();
        fs::write(agent.join("agent.toml"), "").unwrap();
        fs::write(layout.logs().join("serve.log"), "").unwrap();
        layout.clean().unwrap();
        assert!(!layout.run().exists());
        assert!(layout.logs().join("serve.log").exists());
    }
}
