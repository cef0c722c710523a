//! One build with a database of its own, under a wall clock that the bench sets.

use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Folders in which a checkout's programs are looked for, in this order: answers are those of each profile.
pub const DEMO: &[&str] = &["target/demo", "target/release"];
/// Profiles differ in what they optimise.
pub const RELEASE: &[&str] = &["target/release"];
/// The variable by which `clock.c` finds its file.
const CLOCK_VARIABLE: &str = "THROUGHLINE_ANSWERS_CLOCK";
/// Programs of PostgreSQL that are called under the clock.
const PROGRAMS: [&str; 5] = ["postgres", "initdb", "pg_ctl", "pg_config", "psql"];
/// How long a server may take to listen: a first database on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long one step of upkeep may take.
const UPKEEP_LIMIT: Duration = Duration::from_secs(180);
/// By then each part of upkeep had its first round, shares of links, which other parts read, their second, and the server wrote its own
/// metrics, which it does each 10 s.
const UPKEEP_BEGUN: Duration = Duration::from_secs(11);
/// Upkeep is finished when nothing was written, and no statement ran, for so long.
const QUIET: Duration = Duration::from_secs(2);
/// What a database without work writes in that time, at most.
const QUIET_BYTES: i64 = 100_000;
const POLL: Duration = Duration::from_millis(100);

/// A checkout and its programs.
#[derive(Clone, Debug)]
pub struct Build {
    /// `old` or `new`.
    pub name: &'static str,
    /// Its source.
    pub checkout: PathBuf,
    /// Folder of its programs.
    pub programs: PathBuf,
}

impl Build {
    /// Finds the programs of a checkout.
    ///
    /// # Errors
    /// It is not built.
    pub fn of(name: &'static str, checkout: &Path, folders: &[&str]) -> anyhow::Result<Self> {
        let checkout = checkout.canonicalize().with_context(|| format!("{}", checkout.display()))?;
        let programs = folders
            .iter()
            .map(|folder| checkout.join(folder))
            .find(|folder| folder.join("throughline").is_file());
        let programs = programs.with_context(|| {
            let profile = folders[0].trim_start_matches("target/");
            format!("{} is not built: cargo build --profile {profile} -p throughline-cli", checkout.display())
        })?;
        Ok(Self { name, checkout, programs })
    }

    /// Its program `throughline`.
    pub fn throughline(&self) -> PathBuf {
        self.programs.join("throughline")
    }
}

/// A running server of a build; stopped and removed when dropped.
pub struct Site {
    /// Whose it is.
    pub build: Build,
    /// Where it takes batches.
    pub collect: String,
    /// Where it answers.
    pub query: String,
    folder: TempDir,
    clock: File,
    preload: PathBuf,
    psql: Vec<String>,
    serve: Option<Child>,
}

impl Site {
    /// Makes a database at this time (nanoseconds since 1970), and starts a server without upkeep on it.
    ///
    /// # Errors
    /// A program is not there, or does not start.
    pub fn start(build: &Build, preload: &Path, postgres: &Path, now: i64) -> anyhow::Result<Self> {
        let folder = TempDir::new()?;
        // The database's user must reach its folder, and the clock.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755))?;
        std::fs::create_dir(folder.path().join("state"))?;
        let clock = File::create(folder.path().join("clock"))?;
        let mut site = Self {
            build: build.clone(),
            collect: String::new(),
            query: String::new(),
            folder,
            clock,
            preload: preload.canonicalize().with_context(|| format!("{}", preload.display()))?,
            psql: Vec::new(),
            serve: None,
        };
        site.set_clock(now)?;
        site.wrap(postgres)?;
        site.throughline(&["db", "start", "--state-dir", &site.state()])?;
        let status = site.throughline(&["db", "status", "--json", "--state-dir", &site.state()])?;
        let status: serde_json::Value = serde_json::from_slice(&status.stdout)?;
        let psql = status["psql"].as_str().context("the command for psql")?;
        site.psql =
            psql.replace("-U throughline_read", "-U throughline").split(' ').map(str::to_owned).collect();
        site.serve = Some(site.spawn("serve", &[("UPKEEP__ENABLED", "false")])?);
        site.collect = site.listening("serve", "listening collect=127")?;
        site.query = site.listening("serve", "listening query=127")?;
        Ok(site)
    }

    /// Programs of PostgreSQL start with a clean environment: scripts in their places put the clock back.
    fn wrap(&self, postgres: &Path) -> anyhow::Result<()> {
        let folder = self.folder.path().join("bin");
        std::fs::create_dir(&folder)?;
        for name in PROGRAMS {
            let program = postgres.join(name);
            ensure!(program.is_file(), "{} is not there: run throughline db install", program.display());
            let (preload, program) = (self.preload.display(), program.display());
            let script = folder.join(name);
            let text = folder.join("text");
            std::fs::write(&text, format!("#!/bin/sh\nLD_PRELOAD='{preload}' exec '{program}' \"$@\"\n"))?;
            // Not written here: a child of the other build's site could have it open, and then it does not start (ETXTBSY).
            let mut install = Command::new("install");
            install.args(["-m", "755"]).arg(&text).arg(&script);
            ensure!(install.status()?.success(), "install {}", script.display());
        }
        Ok(())
    }

    fn state(&self) -> String {
        self.folder.path().join("state").display().to_string()
    }

    /// Folder for files of a command.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A text without the addresses and folders of this run.
    pub fn without_places(&self, text: &str) -> String {
        text.replace(&self.query, "SERVER").replace(&self.folder.path().display().to_string(), "FOLDER")
    }

    /// From now on it is so late.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn set_clock(&self, now: i64) -> anyhow::Result<()> {
        Ok(self.clock.write_all_at(&now.to_ne_bytes(), 0)?)
    }

    /// A program of the build under this clock.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", &self.preload).env(CLOCK_VARIABLE, self.folder.path().join("clock"));
        command.env("THROUGHLINE_PG_BIN", self.folder.path().join("bin"));
        command.env("XDG_CONFIG_HOME", self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs the build's `throughline` as somebody who queries the server.
    ///
    /// # Errors
    /// It can't be started.
    pub fn client(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = self.command(&self.build.throughline());
        command.args(arguments).current_dir(self.folder.path());
        command.env("THROUGHLINE_SERVER", format!("http://{}", self.query)).env("COLUMNS", "120");
        Ok(command.output()?)
    }

    fn throughline(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let output = self.command(&self.build.throughline()).args(arguments).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "throughline {}: {errors}", arguments.join(" "));
        Ok(output)
    }

    /// Ends the server and starts it again, at the same address.
    ///
    /// # Errors
    /// It does not start.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        end(self.serve.take())?;
        self.serve =
            Some(self.spawn("serve", &[("UPKEEP__ENABLED", "false"), ("QUERY__LISTEN", &self.query)])?);
        self.collect = self.listening("serve", "listening collect=127")?;
        self.listening("serve", "listening query=127").map(drop)
    }

    /// Nanoseconds of processor time that the server's threads and the database's processes of now have had.
    ///
    /// # Errors
    /// `/proc` can't be read.
    pub fn processor(&self) -> anyhow::Result<u64> {
        let serve = self.serve.as_ref().map(Child::id);
        let mut all = 0;
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            // PostgreSQL's processes work in their data folder.
            let is_ours = Some(pid) == serve
                || std::fs::read_link(entry.path().join("cwd"))
                    .is_ok_and(|at| at.starts_with(self.folder.path()));
            let tasks = is_ours.then(|| std::fs::read_dir(entry.path().join("task")).ok()).flatten();
            for task in tasks.into_iter().flatten().flatten() {
                let times = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
                all += times.split(' ').next().and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(all)
    }

    fn spawn(&self, name: &str, settings: &[(&str, &str)]) -> anyhow::Result<Child> {
        let mut command = self.command(&self.build.throughline());
        for (key, value) in
            [("QUERY__LISTEN", "127.0.0.1:0"), ("COLLECT__LISTEN", "127.0.0.1:0")].iter().chain(settings)
        {
            command.env(format!("THROUGHLINE__{key}"), value);
        }
        // The Prometheus that reads scrapes nothing. Older builds leave nothing out and don't know the key.
        let key = ("THROUGHLINE__QUERY__PROMETHEUS_URLS", "[]");
        let known = self.command(&self.build.throughline()).arg("check-config").env(key.0, key.1).output()?;
        if known.status.success() {
            command.env(key.0, key.1);
        }
        command.args(["serve", "--state-dir", &self.state()]);
        command.stdout(File::create(self.folder.path().join(format!("{name}.out")))?);
        command.stderr(File::create(self.folder.path().join(format!("{name}.log")))?);
        let child = command.spawn()?;
        // For answers.sh, where this process is killed.
        std::fs::write(self.folder.path().join(format!("{name}.pid")), child.id().to_string())?;
        Ok(child)
    }

    /// Waits for a line of a server's output; what follows the first `=`.
    fn listening(&self, name: &str, line: &str) -> anyhow::Result<String> {
        let begun = Instant::now();
        while begun.elapsed() < START_LIMIT {
            let text = std::fs::read_to_string(self.folder.path().join(format!("{name}.out")))?;
            if let Some(line) = text.lines().find(|one| one.starts_with(line)) {
                return Ok(line.split('=').nth(1).unwrap_or_default().to_owned());
            }
            std::thread::sleep(POLL);
        }
        bail!("{name} does not listen: {}", self.log(name))
    }

    /// The log of a server.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default()
    }

    /// Lets a server of its own do all upkeep that is due at this time, and stops it.
    ///
    /// # Errors
    /// It does not come to an end.
    pub fn upkeep(&self) -> anyhow::Result<()> {
        let child = self.spawn("upkeep", &[("QUERY__ENABLED", "false"), ("COLLECT__ENABLED", "false")])?;
        let (begun, mut changed, mut written, mut was_busy) = (Instant::now(), Instant::now(), 0, false);
        while begun.elapsed() < UPKEEP_BEGUN || changed.elapsed() < QUIET {
            ensure!(begun.elapsed() < UPKEEP_LIMIT, "upkeep does not end: {}", self.log("upkeep"));
            std::thread::sleep(POLL);
            // One session is this one. Checks of the clock are short, and write a row.
            let now = self.sql(
                "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, count(*) > 1 FROM pg_stat_activity \
                 WHERE state <> 'idle' AND backend_type = 'client backend'",
            )?;
            let (bytes, is_busy) = now.trim().split_once('|').context("two columns")?;
            let (bytes, is_busy) = (bytes.parse::<i64>()?, is_busy == "t");
            if bytes - written > QUIET_BYTES || (is_busy && was_busy) {
                (written, changed) = (bytes, Instant::now());
            }
            was_busy = is_busy;
        }
        end(Some(child))?;
        std::fs::remove_file(self.folder.path().join("upkeep.pid"))?;
        let log = self.log("upkeep");
        let failure = log.lines().find(|line| line.contains("WARN") || line.contains("ERROR"));
        failure.map_or(Ok(()), |line| bail!("upkeep of the {} build: {line}", self.build.name))
    }

    /// Runs SQL; its rows as text.
    ///
    /// # Errors
    /// The database refuses it.
    pub fn sql(&self, text: &str) -> anyhow::Result<String> {
        let output = self.psql(&["-c", text]).output()?;
        ensure!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs a script of psql; what it prints.
    ///
    /// # Errors
    /// The database refuses it.
    pub fn script(&self, text: &str) -> anyhow::Result<String> {
        let path = self.folder.path().join("script.sql");
        std::fs::write(&path, text)?;
        let output = self.psql(&["-f", &path.display().to_string()]).output()?;
        ensure!(output.status.success(), "{text:.300}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn psql(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.psql[0]);
        command.args(&self.psql[1..]).args(["-qAtX", "-v", "ON_ERROR_STOP=1"]).args(arguments);
        // Builds have their tables in one schema or in two: the lists of requests name none.
        command.env("PGOPTIONS", "-c search_path=public,internal").stdin(Stdio::null());
        command
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = end(self.serve.take());
        let _ = self.throughline(&["db", "stop", "--state-dir", &self.state()]);
    }
}

/// Ends a process as an operator would.
pub fn end(child: Option<Child>) -> anyhow::Result<()> {
    let Some(mut child) = child else { return Ok(()) };
    let _ = kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM);
    child.wait()?;
    Ok(())
}
