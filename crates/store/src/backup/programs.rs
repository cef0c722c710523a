//! PostgreSQL's programs for dumps: found, and run with their progress. Hosts, logins and passwords go by the environment, which
//! other users don't see, never by arguments.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::BackupProgress;
use crate::cluster::{Installation, find_client_programs};
use crate::database::Database;
use crate::error::{Error, NO_SPACE};

/// Lines of a program that failed that are shown.
const SHOWN_LINES: usize = 5;

/// `pg_dump` and `pg_restore` of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientPrograms {
    /// The folder.
    pub bin: PathBuf,
    /// Their major version.
    pub major: u32,
}

impl ClientPrograms {
    /// Those of the private cluster's own PostgreSQL.
    ///
    /// # Errors
    /// It was installed without them.
    pub fn of(installation: &Installation) -> Result<Self, Error> {
        let programs = Self { bin: installation.bin.clone(), major: installation.major };
        if programs.bin.join("pg_dump").is_file() && programs.bin.join("pg_restore").is_file() {
            return Ok(programs);
        }
        Err(Error::NoPostgres { searched: format!("{}: no pg_dump and pg_restore", programs.bin.display()) })
    }

    /// Those for an operated server: of its major version or a newer one.
    ///
    /// # Errors
    /// There are none on this machine.
    pub async fn for_server(database: &Database, explicit: Option<&Path>) -> Result<Self, Error> {
        const WHAT: &str = "reading the server's version";
        let client = database.connect_admin().await?;
        let row = client.query_one("SELECT current_setting('server_version_num')::int / 10000", &[]).await;
        let major = row.map_err(Error::sql(WHAT))?.get::<_, i32>(0).unsigned_abs();
        let (bin, major) = find_client_programs(explicit, major)?;
        Ok(Self { bin, major })
    }

    /// Runs one of them as the login that may do everything; counts the lines that have `counted` in them as tables.
    pub(super) async fn run(
        &self,
        name: &str,
        arguments: &[String],
        database: &Database,
        counted: &str,
        progress: &BackupProgress,
    ) -> Result<(), Error> {
        let program = self.bin.join(name);
        let failed = |output: String| Error::Program {
            program: name.to_owned(),
            output,
            remedy: format!("it was run as {} on {}", program.display(), database.place()),
        };
        let mut command = Command::new(&program);
        for (variable, _) in std::env::vars_os() {
            let text = variable.to_string_lossy();
            if text.starts_with("PG") || text.starts_with("LC_") || text.starts_with("LD_") || text == "LANG"
            {
                command.env_remove(&variable);
            }
        }
        command.args(arguments).envs(database.libpq_environment()?).env("LC_ALL", "C.UTF-8");
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Where the caller is stopped, so is the program.
        let mut child = command.kill_on_drop(true).spawn().map_err(|error| failed(error.to_string()))?;
        let mut last: Vec<String> = Vec::new();
        if let Some(said) = child.stderr.take() {
            let mut lines = BufReader::new(said).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains(counted) {
                    progress.table_done();
                }
                if !is_progress(&line) {
                    last.push(line);
                    if last.len() > SHOWN_LINES {
                        last.remove(0);
                    }
                }
            }
        }
        let status = child.wait().await.map_err(|error| failed(error.to_string()))?;
        if status.success() {
            return Ok(());
        }
        let said = last.join(" | ");
        if said.contains(NO_SPACE) {
            return Err(Error::Full { what: name.to_owned(), place: String::new(), cause: said });
        }
        Err(failed(if said.is_empty() { status.to_string() } else { said }))
    }
}

/// Whether a line only reports what is done now: errors, their details and hints do not begin so.
fn is_progress(line: &str) -> bool {
    const QUIET: [&str; 3] = ["error:", "fatal:", "detail:"];
    let is_of_program = line.starts_with("pg_dump: ") || line.starts_with("pg_restore: ");
    is_of_program && !QUIET.iter().any(|word| line.contains(word)) && !line.contains("hint:")
}
