//! `throughline db install|init|start|stop|status|size|clock|backup|restore|verify`: the private database by hand, how large it becomes,
//! whether its clock is believed, and its backups.
//!
//! Only the words of the command line; all of it is done by `throughline_store`. `serve` needs none of this.

mod backup;
mod clock;
mod size;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use throughline_daemon::{ExitStatus, Failure, paths};
use throughline_prefix::{Prefix, Set};
use throughline_store::{
    ClusterOptions, ClusterStart, ClusterStatus, Database, Error, Lifetime, PrivateCluster, Retention,
    RetentionWay, migrate, observed_retention_way, observed_site, observed_tables, predict_size,
    review_settings, schema_version,
};

use crate::Site;
use crate::serve::config::ServerConfig;

/// Shown below the options.
const HELP: &str = "\
`throughline serve` needs only `install`, once: it makes, starts and stops the database by
itself. Started as root it becomes the user that STATE/db belongs to before it touches that folder.

Examples:
  throughline db install                  110 MB in the state folder, no root needed
  throughline db status                   whether it runs, the command for psql, how large its tables are
                                          beside what is predicted, settings that cost
  throughline db size --nodes 1428 --ranks 32 --ports 4830 --gpus 640 --links 6
                                          rows a second, bytes a day and disk of a busy site by table
  throughline db clock                    whether the database's clock is believed, and why not
  throughline db clock accept             take it as right: rows are dropped by it again
  throughline db backup /backup/monday    a dump of the database while everything runs
  throughline db restore /backup/monday --state-dir /srv/throughline
                                          a new private database of it; `db verify` with the same compares
  $(throughline db status --json | jq -r .psql) -c 'SELECT * FROM public.mpi_op_totals LIMIT 5'

What the tables mean: docs/DATABASE.md. Backups: docs/BACKUP.md.";

/// Options of `db`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Use this operated database [default: the private one in the state folder]
    #[arg(long, global = true, value_name = "URL")]
    pub database_url: Option<String>,
    /// Find PostgreSQL's programs in FOLDER: for the private database, and for backups of an operated one
    #[arg(long, global = true, value_name = "FOLDER")]
    pub pg_bin: Option<PathBuf>,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Action {
    /// Put PostgreSQL with TimescaleDB into the prefix unless the machine has it; no root needed
    Install,
    /// Make the database and its schema; harmless to repeat
    Init,
    /// Start the private database and leave it running
    Start,
    /// Stop the private database, also one that another process started
    Stop,
    /// Report whether the database runs and what is in it; ends with 69 when it does not run
    Status {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Predict rows a second, bytes a day and disk of a site with the configured retention
    Size(size::SizeArguments),
    /// Report whether the database's clock is believed; ends with 2 where it is not
    Clock(clock::ClockArguments),
    /// Make a backup of the database in DIR, while everything runs
    Backup(backup::BackupArguments),
    /// Make the database of a backup: a new private one, or in an empty operated one
    Restore(backup::BackupArguments),
    /// Compare a database with a backup by table and hour; ends with 2 where they differ
    Verify(backup::VerifyArguments),
}

/// Runs the subcommand.
///
/// # Errors
/// 64 for a wrong configuration, 69 when programs or the server are not there, 77 without permission.
pub async fn run(arguments: Arguments, site: &Site) -> anyhow::Result<ExitCode> {
    let config: ServerConfig = throughline_daemon::config::load("server", site.config.as_deref())?;
    let retention = config.retention.times()?;
    // Before this process becomes the database's user.
    let by = crate::user::user();
    let url = arguments.database_url.or_else(|| config.database.session_url().map(str::to_owned));
    let place = Place {
        options: ClusterOptions {
            state_dir: paths::state_dir(site.state_dir.as_deref())?,
            pg_bin: arguments.pg_bin.or(config.database.pg_bin),
        },
        operated: url.as_deref().map(Database::from_url).transpose().map_err(Failure::from)?,
        retention,
    };
    match arguments.action {
        Action::Install => place.install(),
        Action::Init => place.init().await,
        Action::Start => place.start().await,
        Action::Stop => place.stop().await,
        Action::Status { json } => place.status(json).await,
        Action::Size(arguments) => place.size(&arguments).await,
        Action::Clock(arguments) => clock::run(&place.database()?, &arguments, &by).await,
        Action::Backup(arguments) => place.backup(&arguments).await,
        Action::Restore(arguments) => place.restore(&arguments).await,
        Action::Verify(arguments) => place.verify(&arguments).await,
    }
}

/// The operated database, or the private one of this state folder, which runs as its user.
///
/// # Errors
/// This user may not use the folder (77).
pub fn open(operated: Option<Database>, state_dir: &Path) -> Result<Database, Failure> {
    if let Some(database) = operated {
        return Ok(database);
    }
    PrivateCluster::leave_root_in(state_dir).map_err(Failure::from)?;
    PrivateCluster::check_access(state_dir).map_err(Failure::from)?;
    Ok(PrivateCluster::database_in(state_dir))
}

/// Which database this is about.
struct Place {
    options: ClusterOptions,
    operated: Option<Database>,
    retention: Retention,
}

impl Place {
    /// The private cluster, for what only it can do.
    fn cluster(&self) -> Result<PrivateCluster, Failure> {
        self.refuse_operated()?;
        let cluster = PrivateCluster::find(&self.options).map_err(Failure::from)?;
        cluster.leave_root(&[]).map_err(Failure::from)
    }

    fn refuse_operated(&self) -> Result<(), Failure> {
        match &self.operated {
            Some(database) => Err(Failure::usage(format!(
                "the configured database {} is operated by somebody else: this is for the private one; leave out \
                 --database-url and database.url",
                database.place()
            ))),
            None => Ok(()),
        }
    }

    fn install(&self) -> anyhow::Result<ExitCode> {
        let found = match PrivateCluster::find(&self.options) {
            Err(Error::NoPostgres { .. }) if self.options.pg_bin.is_none() => {
                let prefix = Prefix::locate().map_err(unavailable)?;
                // The prefix lies in the state folder, which may belong to the database's user.
                PrivateCluster::leave_root_for_prefix(&self.options.state_dir, prefix.root())
                    .map_err(Failure::from)?;
                prefix.ensure(Set::Postgres, &mut |line| eprintln!("{line}")).map_err(unavailable)?;
                PrivateCluster::find(&self.options)
            }
            other => other,
        };
        let cluster = found.map_err(Failure::from)?;
        let installation = cluster.installation();
        writeln!(
            std::io::stdout(),
            "PostgreSQL {} with TimescaleDB in {} ({})",
            installation.major,
            installation.bin.display(),
            installation.origin
        )?;
        Ok(ExitCode::SUCCESS)
    }

    async fn init(&self) -> anyhow::Result<ExitCode> {
        if let Some(database) = &self.operated {
            let migrated = migrate(database).await.map_err(Failure::from)?;
            writeln!(std::io::stdout(), "{}: schema version {}", database.place(), migrated.version)?;
            return Ok(ExitCode::SUCCESS);
        }
        let cluster = self.cluster()?;
        let (_, started) = cluster.run(Lifetime::WithCaller).await.map_err(Failure::from)?;
        if started != ClusterStart::Already {
            cluster.stop_own().await.map_err(Failure::from)?;
        }
        writeln!(std::io::stdout(), "{}: schema version {}", cluster.folder().display(), schema_version())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn start(&self) -> anyhow::Result<ExitCode> {
        let cluster = self.cluster()?;
        let (database, started) = cluster.run(Lifetime::Detached).await.map_err(Failure::from)?;
        let state = if started == ClusterStart::Now { "started" } else { "was running already" };
        writeln!(std::io::stdout(), "database {state}; to look into it:")?;
        writeln!(std::io::stdout(), "  {}", psql(&cluster, &database))?;
        Ok(ExitCode::SUCCESS)
    }

    async fn stop(&self) -> anyhow::Result<ExitCode> {
        self.refuse_operated()?;
        PrivateCluster::leave_root_in(&self.options.state_dir).map_err(Failure::from)?;
        let stopped = PrivateCluster::stop_in(&self.options.state_dir).await.map_err(Failure::from)?;
        writeln!(
            std::io::stdout(),
            "{}",
            if stopped { "database stopped" } else { "the database did not run" }
        )?;
        Ok(ExitCode::SUCCESS)
    }

    async fn size(&self, arguments: &size::SizeArguments) -> anyhow::Result<ExitCode> {
        let mut known = None;
        let mut way = arguments.edition.map(size::Edition::way);
        if arguments.is_open() {
            let client = self.database()?.connect_reader().await.map_err(Failure::from)?;
            known = Some(observed_site(&client).await.map_err(Failure::from)?);
            if way.is_none() {
                way = Some(observed_retention_way(&client).await.map_err(Failure::from)?);
            }
        }
        let site = arguments.site(known)?;
        let prediction = predict_size(&site, &self.retention, way.unwrap_or(RetentionWay::Upkeep));
        let mut out = std::io::stdout();
        if arguments.json {
            writeln!(out, "{}", size::json(&prediction))?;
        } else {
            out.write_all(size::table(&prediction).as_bytes())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The database.
    fn database(&self) -> Result<Database, Failure> {
        open(self.operated.clone(), &self.options.state_dir)
    }

    async fn status(&self, json: bool) -> anyhow::Result<ExitCode> {
        let (mut report, database) = self.report().await?;
        let mut tables = String::new();
        // Without our schema there are no tables.
        if let Some(database) = database.filter(|_| report.get("schema").is_some()) {
            tables = self.compare(&database, &mut report).await?;
        }
        let mut out = std::io::stdout();
        if json {
            writeln!(out, "{report}")?;
        } else if let Some(fields) = report.as_object() {
            writeln!(out, "{}\n", size::headline(&report))?;
            for (name, value) in fields {
                match value {
                    serde_json::Value::Null => {}
                    serde_json::Value::Number(number) if name.contains("bytes") => {
                        let bytes = number.as_u64().unwrap_or_default();
                        writeln!(out, "{name:<25}{}", throughline_client::text::bytes(bytes))?;
                    }
                    serde_json::Value::String(text) => writeln!(out, "{name:<25}{text}")?,
                    serde_json::Value::Array(settings) if name == "settings" => {
                        for remark in settings {
                            let text = |key: &str| remark[key].as_str().unwrap_or_default().to_owned();
                            let (present, recommended) = (text("present"), text("recommended"));
                            let (setting, why) = (text("name"), text("reason"));
                            writeln!(out, "{name:<25}{setting} = {present}, better {recommended}: {why}")?;
                        }
                    }
                    serde_json::Value::Array(_) | serde_json::Value::Object(_) => {}
                    other => writeln!(out, "{name:<25}{other}")?,
                }
            }
            out.write_all(tables.as_bytes())?;
        }
        let running = report["state"] == "running";
        Ok(if running { ExitCode::SUCCESS } else { ExitCode::from(ExitStatus::Unavailable as u8) })
    }

    /// Adds what is there beside what was predicted to a report; returns it for people.
    async fn compare(&self, database: &Database, report: &mut serde_json::Value) -> anyhow::Result<String> {
        let client = database.connect_reader().await.map_err(Failure::from)?;
        let site = observed_site(&client).await.map_err(Failure::from)?;
        let way = observed_retention_way(&client).await.map_err(Failure::from)?;
        let prediction = predict_size(&site, &self.retention, way);
        let observed = observed_tables(&client).await.map_err(Failure::from)?;
        let compared = size::compare(&prediction, &observed, SystemTime::now());
        let remarks = review_settings(&client).await.map_err(Failure::from)?;
        let remark = |one: &throughline_store::SettingRemark| {
            serde_json::json!({
                "name": one.name, "present": one.present, "recommended": one.recommended, "reason": one.reason,
            })
        };
        let clock = throughline_store::clock_standing(&client).await.map_err(Failure::from)?;
        let why =
            clock.warning().map_or_else(String::new, |(reason, remedy)| format!(": {reason}; {remedy}"));
        if throughline_store::is_backup_running(&client).await.map_err(Failure::from)? {
            report["backup"] = "in progress: nothing is dropped, thinned or packed meanwhile".into();
        }
        report["clock"] = format!("{}{why}", clock.state.name()).into();
        let predicted = size::json(&prediction);
        report["predicted_bytes_per_day"] = predicted["bytes_per_day"].clone();
        report["predicted_bytes"] = predicted["bytes"].clone();
        report["settings"] = remarks.iter().map(remark).collect();
        report["tables"] = size::compared_json(&compared);
        Ok(size::compared_text(&compared))
    }

    /// What is known of the database, and the database if it runs.
    async fn report(&self) -> anyhow::Result<(serde_json::Value, Option<Database>)> {
        let (database, mut report) = match &self.operated {
            Some(database) => {
                (database.clone(), serde_json::json!({ "kind": "operated", "state": "running" }))
            }
            None => {
                let database = self.database()?;
                let status = PrivateCluster::status_of(&self.options.state_dir);
                let (state, pid) = match status {
                    ClusterStatus::Absent => ("absent", None),
                    ClusterStatus::Stopped => ("stopped", None),
                    ClusterStatus::Running { pid } => ("running", Some(pid)),
                };
                let cluster = PrivateCluster::find(&self.options).ok();
                let report = serde_json::json!({
                    "kind": "private", "state": state, "pid": pid,
                    "folder": self.options.state_dir.join("db"),
                    "free_bytes": database.disk_space().map(|space| space.free_bytes),
                    "programs": cluster.as_ref().map(|cluster| &cluster.installation().bin),
                    "psql": cluster.as_ref().filter(|_| pid.is_some()).map(|cluster| psql(cluster, &database)),
                });
                (database, report)
            }
        };
        if report["state"] == "running" {
            let client = database.connect_reader().await.map_err(Failure::from)?;
            let versions = throughline_store::database_versions(&client).await.map_err(Failure::from)?;
            report["database"] = database.place().into();
            report["postgresql"] = versions.postgresql.into();
            report["timescaledb"] = versions.timescaledb.into();
            report["bytes"] = versions.bytes.into();
            if versions.schema.is_some() {
                report["schema"] = versions.schema.into();
            }
            return Ok((report, Some(database)));
        }
        Ok((report, None))
    }
}

/// The command that opens the private database for reading.
fn psql(cluster: &PrivateCluster, database: &Database) -> String {
    let folder = database.socket_folder().unwrap_or_default();
    let program = cluster.installation().bin.join("psql");
    format!("{} -h {} -U throughline_read {}", program.display(), folder.display(), database.name())
}

fn unavailable(error: throughline_prefix::Error) -> Failure {
    Failure::unavailable(error.to_string())
}
