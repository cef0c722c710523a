//! `throughline db backup DIR | restore DIR | verify DIR`: the words of the command line, and how far the work is; the work is the store's.

use std::fmt::Write as _;
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use throughline_client::text;
use throughline_daemon::{ExitStatus, Failure, stop_signal};
use throughline_store::{
    BackupMade, BackupProgress, ClientPrograms, ClusterStatus, Database, Difference, Lifetime, Manifest,
    PrivateCluster, Restored, Verified, back_up, check_files, prepare_folder, restore, restore_cluster,
    verify,
};

use super::Place;

/// How often it is said how far the work is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Hours of a table that are listed where they differ.
const HOURS_SHOWN: usize = 5;

/// What all three take.
#[derive(clap::Args, Clone, Debug)]
pub struct BackupArguments {
    /// Use this folder, which has nothing but the backup
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What `verify` takes.
#[derive(clap::Args, Clone, Debug)]
pub struct VerifyArguments {
    #[command(flatten)]
    backup: BackupArguments,
    /// Check the files of the backup only, and no database
    #[arg(long)]
    files: bool,
}

impl Place {
    /// Makes a backup of the database, which goes on meanwhile.
    pub(super) async fn backup(&self, arguments: &BackupArguments) -> anyhow::Result<ExitCode> {
        let folder = absolute(&arguments.folder)?;
        let made = if self.operated.is_some() {
            let database = self.database()?;
            let programs = self.programs(&database).await?;
            self.dump(&database, &programs, &folder).await?
        } else {
            self.backup_cluster(&folder).await?
        };
        let manifest = &made.manifest;
        if arguments.json {
            let mut document = summary(manifest);
            document["folder"] = folder.display().to_string().into();
            document["seconds"] = made.took.as_secs_f64().into();
            writeln!(std::io::stdout(), "{document}")?;
        } else {
            writeln!(
                std::io::stdout(),
                "backup in {}: {} rows of {} tables as of {}, {} ({} in the database), {:.0} s",
                folder.display(),
                manifest.rows(),
                manifest.tables.len(),
                manifest.taken_at,
                text::bytes(manifest.dump_bytes),
                text::bytes(manifest.database_bytes),
                made.took.as_secs_f64()
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The private cluster is used as it is found, and started for as long as it takes where it does not run.
    async fn backup_cluster(&self, folder: &Path) -> anyhow::Result<BackupMade> {
        if PrivateCluster::status_of(&self.options.state_dir) == ClusterStatus::Absent {
            PrivateCluster::check_access(&self.options.state_dir).map_err(Failure::from)?;
            return Err(Failure::unavailable(format!(
                "there is no database in {}: name its folder with --state-dir, or an operated one with --database-url",
                self.options.state_dir.display()
            ))
            .into());
        }
        let cluster = PrivateCluster::find(&self.options).map_err(Failure::from)?;
        prepare_folder_readable(folder)?;
        let cluster = cluster.leave_root(&[folder]).map_err(Failure::from)?;
        let programs = ClientPrograms::of(cluster.installation()).map_err(Failure::from)?;
        let runs = matches!(cluster.status(), ClusterStatus::Running { .. });
        if !runs {
            cluster.start(Lifetime::WithCaller).await.map_err(Failure::from)?;
        }
        let made = self.dump(&cluster.database(), &programs, folder).await;
        if !runs {
            cluster.stop_own().await.map_err(Failure::from)?;
        }
        made
    }

    async fn dump(
        &self,
        database: &Database,
        programs: &ClientPrograms,
        folder: &Path,
    ) -> anyhow::Result<BackupMade> {
        let (progress, stop) = (BackupProgress::default(), stop_signal()?);
        let work = back_up(database, programs, folder, &progress, stop.cancelled());
        Ok(shown(&progress, work).await.map_err(Failure::from)?)
    }

    /// Makes the database of a backup.
    pub(super) async fn restore(&self, arguments: &BackupArguments) -> anyhow::Result<ExitCode> {
        let folder = absolute(&arguments.folder)?;
        let manifest = Manifest::read(&folder).map_err(Failure::from)?;
        let (progress, stop) = (BackupProgress::default(), stop_signal()?);
        let (place, restored) = if self.operated.is_some() {
            let database = self.database()?;
            let programs = self.programs(&database).await?;
            let work = restore(&database, &programs, &folder, &manifest, &progress, stop.cancelled());
            let restored = shown(&progress, work).await.map_err(Failure::from)?;
            (database.place().to_owned(), restored)
        } else {
            let cluster = self.cluster()?;
            let work = restore_cluster(&cluster, &folder, &manifest, &progress, stop.cancelled());
            let restored = shown(&progress, work).await.map_err(Failure::from)?;
            (cluster.folder().display().to_string(), restored)
        };
        if arguments.json {
            let mut document = summary(&manifest);
            document["place"] = place.into();
            document["owner"] = restored.owner.clone().into();
            document["roles_missing"] = restored.roles_missing.clone().into();
            document["seconds"] = restored.took.as_secs_f64().into();
            writeln!(std::io::stdout(), "{document}")?;
        } else {
            std::io::stdout().write_all(restored_text(&manifest, &restored, &place).as_bytes())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Compares a backup with its manifest, and a database with it.
    pub(super) async fn verify(&self, arguments: &VerifyArguments) -> anyhow::Result<ExitCode> {
        let folder = absolute(&arguments.backup.folder)?;
        let manifest = Manifest::read(&folder).map_err(Failure::from)?;
        let damaged = check_files(&folder, &manifest).map_err(Failure::from)?;
        let verified = if arguments.files { None } else { Some(self.compared(&manifest).await?) };
        let mut out = std::io::stdout();
        if arguments.backup.json {
            writeln!(out, "{}", verified_json(&manifest, &damaged, verified.as_ref()))?;
        } else {
            out.write_all(verified_text(&manifest, &damaged, verified.as_ref()).as_bytes())?;
        }
        let is_well = damaged.is_empty() && verified.is_none_or(|verified| verified.is_equal());
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(ExitStatus::Found as u8) })
    }

    async fn compared(&self, manifest: &Manifest) -> anyhow::Result<Verified> {
        let progress = BackupProgress::default();
        if self.operated.is_some() {
            return Ok(shown(&progress, verify(&self.database()?, manifest, &progress))
                .await
                .map_err(Failure::from)?);
        }
        let state = &self.options.state_dir;
        if PrivateCluster::status_of(state) == ClusterStatus::Absent {
            PrivateCluster::check_access(state).map_err(Failure::from)?;
            return Err(Failure::unavailable(format!(
                "there is no database in {}: restore the backup first, or check its files alone with --files",
                state.display()
            ))
            .into());
        }
        let cluster = self.cluster()?;
        let runs = matches!(cluster.status(), ClusterStatus::Running { .. });
        if !runs {
            cluster.start(Lifetime::WithCaller).await.map_err(Failure::from)?;
        }
        let verified = shown(&progress, verify(&cluster.database(), manifest, &progress)).await;
        if !runs {
            cluster.stop_own().await.map_err(Failure::from)?;
        }
        Ok(verified.map_err(Failure::from)?)
    }

    /// For an operated server, whose programs are elsewhere.
    async fn programs(&self, database: &Database) -> Result<ClientPrograms, Failure> {
        ClientPrograms::for_server(database, self.options.pg_bin.as_deref()).await.map_err(Failure::from)
    }
}

/// Before root becomes another user: the folder is empty, or not there.
fn prepare_folder_readable(folder: &Path) -> Result<(), Failure> {
    if folder.exists() { prepare_folder(folder).map_err(Failure::from) } else { Ok(()) }
}

fn absolute(folder: &Path) -> anyhow::Result<PathBuf> {
    Ok(std::path::absolute(folder)?)
}

/// Does work, and says on the way how far it is.
async fn shown<T>(progress: &BackupProgress, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(PROGRESS_INTERVAL) => eprintln!("{}", progress.text()),
        }
    }
}

fn summary(manifest: &Manifest) -> Value {
    json!({
        "taken_at": manifest.taken_at,
        "throughline": manifest.throughline,
        "postgresql": manifest.postgresql,
        "timescaledb": manifest.timescaledb,
        "edition": manifest.edition,
        "schema": manifest.schema,
        "rows": manifest.rows(),
        "tables": manifest.tables.len(),
        "dump_bytes": manifest.dump_bytes,
        "database_bytes": manifest.database_bytes,
    })
}

fn restored_text(manifest: &Manifest, restored: &Restored, place: &str) -> String {
    let mut text = format!(
        "restored in {place}: {} rows of {} tables as of {}, owned by {}, {:.0} s\n",
        manifest.rows(),
        manifest.tables.len(),
        manifest.taken_at,
        restored.owner,
        restored.took.as_secs_f64()
    );
    if !restored.roles_missing.is_empty() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "The server has no role {}: rights of roles are not restored, but for those that the next start gives.",
            restored.roles_missing.join(", ")
        );
    }
    text + "Before `throughline serve` begins: `throughline db verify` compares it with the backup.\n"
}

fn verified_json(manifest: &Manifest, damaged: &[String], verified: Option<&Verified>) -> Value {
    let table = |table: &Difference| {
        let hours: Vec<Value> = table
            .different
            .iter()
            .map(|hour| {
                json!({ "hour": hour.hour.map(time), "backup_rows": hour.backup_rows, "database_rows": hour.database_rows })
            })
            .collect();
        json!({
            "table": table.table, "backup_rows": table.backup_rows, "database_rows": table.database_rows,
            "hours": table.hours, "different": hours, "equal": table.is_equal(),
        })
    };
    json!({
        "taken_at": manifest.taken_at,
        "files": manifest.files.len(),
        "damaged_files": damaged,
        "equal": verified.map(Verified::is_equal),
        "tables": verified.map(|verified| verified.tables.iter().map(table).collect::<Vec<_>>()),
    })
}

fn verified_text(manifest: &Manifest, damaged: &[String], verified: Option<&Verified>) -> String {
    let mut text = String::new();
    for file in damaged {
        let _ = writeln!(text, "DAMAGED {file}");
    }
    if damaged.is_empty() {
        let _ = writeln!(text, "All {} files are as they were written.", manifest.files.len());
    }
    let Some(verified) = verified else { return text };
    let _ = writeln!(
        text,
        "{:<28} {:>14} {:>14} {:>7} {:>9}",
        "table", "rows (backup)", "rows (here)", "hours", "different"
    );
    for table in verified.tables.iter().filter(|table| table.backup_rows != Some(0) || !table.is_equal()) {
        let rows = |rows: Option<u64>| rows.map_or_else(|| "absent".to_owned(), |rows| rows.to_string());
        let (backup, here) = (rows(table.backup_rows), rows(table.database_rows));
        let different = table.different.len();
        let _ =
            writeln!(text, "{:<28} {backup:>14} {here:>14} {:>7} {different:>9}", table.table, table.hours);
        for hour in table.different.iter().take(HOURS_SHOWN) {
            let at = hour.hour.map_or_else(|| "all".to_owned(), time);
            let same = if hour.backup_rows == hour.database_rows { ", with other values" } else { "" };
            let _ = writeln!(text, "    {at}: {} and {} rows{same}", hour.backup_rows, hour.database_rows);
        }
        if different > HOURS_SHOWN {
            let _ = writeln!(text, "    and {} more hours", different - HOURS_SHOWN);
        }
    }
    let (rows, at) = (manifest.rows(), &manifest.taken_at);
    text + &if verified.is_equal() {
        format!("Equal: all {rows} rows of the backup of {at} are here, and no others.\n")
    } else {
        "DIFFERENT. A database that has gone on since the backup differs in the hours since, and in what upkeep has dropped, thinned or \
         packed.\n"
            .to_owned()
    }
}

/// An hour's begin.
fn time(seconds: i64) -> String {
    throughline_sample::to_rfc3339(seconds.saturating_mul(1_000_000_000))
}
