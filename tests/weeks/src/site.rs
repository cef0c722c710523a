//! The site: PostgreSQL, `throughline serve` and two agents, all with the same clock. What the clock needs is in the environment of this
//! program. `serve` takes it from programs of a private database, so PostgreSQL is started here, on the folder that `db init` made.

use crate::clock::{FakedClock, environment, pause};
use crate::jobs::NODES;
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::NoTls;

/// Longest wait for a program to get ready, by true time.
const READY: Duration = Duration::from_secs(120);
/// Longest wait for upkeep after days of readings in a few minutes: it makes up for them.
const SETTLED: Duration = Duration::from_secs(3600);

/// A program with its log.
struct Program {
    name: String,
    child: Child,
    out: PathBuf,
}

impl Program {
    fn start(name: &str, folder: &Path, mut command: Command) -> anyhow::Result<Self> {
        let out = folder.join(format!("{name}.out"));
        let log = File::options().create(true).append(true).open(folder.join(format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(log);
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        Ok(Self { name: name.to_owned(), child, out })
    }

    /// What follows this in its output.
    fn announced(&mut self, what: &str) -> anyhow::Result<String> {
        let end = Instant::now() + READY;
        loop {
            let text = std::fs::read_to_string(&self.out)?;
            let found =
                text.split_inclusive('\n').find_map(|line| line.strip_suffix('\n')?.strip_prefix(what));
            if let Some(found) = found {
                return Ok(found.to_owned());
            }
            ensure!(Instant::now() < end, "{} did not get ready", self.name);
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}", self.name);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn stop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}

/// All of it; ended when dropped.
pub struct Site {
    pub folder: PathBuf,
    programs: PathBuf,
    postgres: PathBuf,
    owner: String,
    serve: Option<Program>,
    agents: Vec<Program>,
    /// Where serve takes batches, and where it answers: the same after each start.
    pub collect: String,
    pub query: String,
}

impl Site {
    /// Makes and starts the database; `programs` is the folder of Throughline's.
    pub fn start(folder: &Path, programs: &Path) -> anyhow::Result<Self> {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
        let throughline = programs.join("throughline");
        let state = folder.join("state");
        let init = Command::new(&throughline).args(["db", "init", "--state-dir"]).arg(&state).output()?;
        ensure!(init.status.success(), "db init: {}", String::from_utf8_lossy(&init.stderr));
        let status = Command::new(&throughline)
            .args(["db", "status", "--json", "--state-dir"])
            .arg(&state)
            .output()?;
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).context("db status --json")?;
        let postgres = status["programs"].as_str().context("programs")?.into();
        let uid = std::fs::metadata(state.join("db"))?.uid();
        let owner = nix::unistd::User::from_uid(uid.into())?.context("the database's user")?.name;
        let site = Self {
            folder: folder.to_owned(),
            programs: programs.to_owned(),
            postgres,
            owner,
            serve: None,
            agents: Vec::new(),
            collect: "127.0.0.1:0".into(),
            query: "127.0.0.1:0".into(),
        };
        site.start_database()?;
        Ok(site)
    }

    /// A program of PostgreSQL's as the user of the database.
    fn postgres(&self, name: &str) -> Command {
        let program = self.postgres.join(name);
        let mut command = if nix::unistd::geteuid().is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", &self.owner, "--", "env"]).args(environment()).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    pub fn start_database(&self) -> anyhow::Result<()> {
        let mut command = self.postgres("pg_ctl");
        command.args(["start", "-s", "-w", "-t", "300", "-D"]).arg(self.folder.join("state/db/data"));
        command.arg("-l").arg(self.folder.join("state/db/postgres.log"));
        ensure!(command.status()?.success(), "PostgreSQL did not start");
        Ok(())
    }

    pub fn stop_database(&self) {
        let mut command = self.postgres("pg_ctl");
        command.args(["stop", "-s", "-m", "fast", "-D"]).arg(self.folder.join("state/db/data"));
        let _ = command.stderr(Stdio::null()).status();
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("state/db/socket")
    }

    /// A session of the database's owner.
    pub async fn database(&self) -> anyhow::Result<tokio_postgres::Client> {
        let url = format!("host={} user=throughline dbname=throughline", self.socket().display());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("SET search_path = ''; SET TimeZone = 'UTC'").await?;
        Ok(client)
    }

    /// Starts `serve`, on the addresses that it had before.
    pub fn start_serve(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(self.programs.join("throughline"));
        command.arg("serve").arg("--state-dir").arg(self.folder.join("serve"));
        let url = format!("host={} user=throughline dbname=throughline", self.socket().display());
        command.args(["--database-url", &url]);
        command.env("THROUGHLINE__QUERY__LISTEN", &self.query);
        // The Prometheus that reads scrapes nothing.
        command.env("THROUGHLINE__QUERY__PROMETHEUS_URLS", "[]");
        command.env("THROUGHLINE__COLLECT__LISTEN", &self.collect);
        command.env("THROUGHLINE__UPKEEP__INTERVAL_SECONDS", "10");
        let mut serve = Program::start("serve", &self.folder, command)?;
        let found = serve
            .announced("listening query=")
            .and_then(|query| Ok((query, serve.announced("listening collect=")?)));
        self.serve = Some(serve);
        (self.query, self.collect) = found.with_context(|| self.log("serve"))?;
        Ok(())
    }

    pub fn stop_serve(&mut self) {
        if let Some(mut serve) = self.serve.take() {
            serve.stop();
        }
    }

    pub fn start_agents(&mut self) -> anyhow::Result<()> {
        for node in NODES {
            let folder = self.folder.join(node);
            std::fs::create_dir_all(&folder)?;
            let mut command = Command::new(self.programs.join("throughline-agent"));
            command.arg("run").arg("--state-dir").arg(&folder);
            for (key, value) in [
                ("NODE", node.to_owned()),
                ("HTTP__LISTEN", "127.0.0.1:0".to_owned()),
                ("DELIVERY__COLLECTOR", format!("http://{}", self.collect)),
                ("NVML__ENABLED", "false".to_owned()),
                ("SYSFS__ROOT", folder.join("nowhere").display().to_string()),
            ] {
                command.env(format!("THROUGHLINE__{key}"), value);
            }
            let mut agent = Program::start(node, &self.folder, command)?;
            let ready = agent.announced("listening agent=");
            self.agents.push(agent);
            ready.with_context(|| self.log(node))?;
        }
        Ok(())
    }

    /// Where ranks on the agents' nodes connect.
    pub fn rank_sockets(&self) -> [PathBuf; 2] {
        NODES.map(|node| self.folder.join(node).join("run/mpi.sock"))
    }

    /// The end of a program's log.
    pub fn log(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// What a command of `throughline` prints, and whether it went well.
    pub fn throughline(&self, arguments: &[&str]) -> anyhow::Result<(String, bool)> {
        let mut command = Command::new(self.programs.join("throughline"));
        let output =
            command.args(arguments).args(["--server", &format!("http://{}", self.query)]).output()?;
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        Ok((text, output.status.success()))
    }

    /// What `throughline db status` has of tables.
    pub fn database_status(&self) -> anyhow::Result<serde_json::Value> {
        let url = format!("host={} user=throughline dbname=throughline", self.socket().display());
        let mut command = Command::new(self.programs.join("throughline"));
        let output = command.args(["db", "status", "--json", "--database-url", &url]).output()?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Waits until old chunks are thinned: it is not done while the clock jumps, as upkeep takes a jump for its own time.
    pub async fn thinned(&self, client: &tokio_postgres::Client) -> anyhow::Result<()> {
        let end = Instant::now() + SETTLED;
        loop {
            let left: i64 = client.query_one(UNTHINNED, &[]).await?.get(0);
            if left == 0 {
                return Ok(());
            }
            ensure!(Instant::now() < end, "{left} chunks are not thinned\n{}", self.log("serve"));
            pause(Duration::from_secs(1)).await;
        }
    }

    /// Waits until upkeep has done what is due after a jump: minutes, packed hours and retention, by the faked clock.
    pub async fn settle(&self, client: &tokio_postgres::Client) -> anyhow::Result<()> {
        let end = Instant::now() + SETTLED;
        // On the full edition a job of the database, which starts by true time.
        let jobs = "SELECT format('CALL public.run_job(%s)', job_id) FROM timescaledb_information.jobs WHERE proc_name = 'expire'";
        let jobs: Vec<String> = client.query(jobs, &[]).await?.iter().map(|row| row.get(0)).collect();
        loop {
            for job in &jobs {
                client.batch_execute(job).await?;
            }
            let row = client.query_one(DUE, &[]).await?;
            let due: Vec<String> = row.get(0);
            if due.is_empty() {
                return Ok(());
            }
            ensure!(
                Instant::now() < end,
                "upkeep is not done at {}: {}\n{}",
                FakedClock::now(),
                due.join("; "),
                self.log("serve")
            );
            pause(Duration::from_millis(200)).await;
        }
    }
}

/// Chunks older than a day that still have all rows, of tables that are thinned.
const UNTHINNED: &str = "
    SELECT count(*) FROM timescaledb_information.chunks c
    WHERE c.hypertable_schema = 'internal' AND NOT c.is_compressed AND c.range_end < now() - INTERVAL '25 hours'
      AND c.hypertable_name IN ('coverage', 'mpi_rank_rows', 'mpi_node_rows', 'mpi_node_traffic', 'mpi_rank_peers', 'self_stat_rows')
      AND NOT EXISTS (SELECT FROM internal.thinned_chunk t WHERE t.chunk = format('%I.%I', c.chunk_schema, c.chunk_name))";

/// What upkeep has not done yet.
const DUE: &str = "
    SELECT array_remove(ARRAY[
        (SELECT 'clock ' || state FROM internal.clock_check WHERE state <> 'trusted' OR now() > permitted_until),
        (SELECT 'minutes until ' || min(made_until) FROM internal.minute_state HAVING min(made_until) < now() - INTERVAL '5 minutes'),
        (SELECT 'late minutes ' || count(*) FROM internal.minute_late HAVING count(*) > 0),
        (SELECT 'packed until ' || min(blocks_until) FROM internal.minute_state HAVING min(blocks_until) < now() - INTERVAL '2 hours'),
        (SELECT 'hours to pack ' || count(*) FROM internal.block_wanted WHERE time < now() - INTERVAL '3 hours' HAVING count(*) > 0),
        (SELECT 'rows of ' || string_agg(c.hypertable_name || ' ' || c.range_end, ', ')
         FROM timescaledb_information.chunks c JOIN internal.retention_policy p ON p.hypertable = c.hypertable_name
         WHERE c.hypertable_schema = 'internal' AND c.range_end < now() - p.keep - INTERVAL '10 minutes')
    ], NULL)";

impl Drop for Site {
    fn drop(&mut self) {
        self.agents.iter_mut().for_each(Program::stop);
        self.stop_serve();
        self.stop_database();
    }
}
