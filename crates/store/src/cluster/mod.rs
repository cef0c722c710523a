//! The private cluster: one PostgreSQL data folder in the state folder, reached through a Unix socket only.
//!
//! It is started and stopped here and by nobody else; a cluster that somebody left running is used and left
//! running. Nothing outside `<state>/db` is written.

mod folder;
mod installation;
mod process;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use throughline_prefix::Prefix;

pub use installation::Installation;

use crate::database::{READ_ROLE, WRITE_ROLE};
use crate::{Database, Error, Migrated, migrate};
use folder::ServerUser;

/// The bootstrap superuser; used only to set up and to update the extension.
pub(crate) const ADMIN_ROLE: &str = "throughline_admin";

/// The name of the database.
const DATABASE: &str = "throughline";

/// What to do when a file of the cluster cannot be handled.
pub(crate) const STATE_REMEDY: &str =
    "check the owner and the free space, or choose another folder with --state-dir";

/// Where the cluster lies and where its programs may be.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The state folder; the cluster is in `db` below it.
    pub state_dir: PathBuf,
    /// Folder of PostgreSQL's programs, `--pg-bin`; else `THROUGHLINE_PG_BIN`, the distribution's, the prefix.
    pub pg_bin: Option<PathBuf>,
}

/// How long a cluster that is started now shall run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until the caller stops it; left behind by a caller that was killed, the next caller takes it over.
    WithCaller,
    /// Until somebody stops it.
    Detached,
}

/// What [`PrivateCluster::start`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// It was not running; the caller stops it if it started it for itself.
    Now,
    /// It was left by a caller that was killed: the caller's to stop.
    TakenOver,
    /// It was running for somebody else, who stops it.
    Already,
}

/// What is known of a cluster without connecting to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterStatus {
    /// No data folder yet.
    Absent,
    /// A data folder and no server.
    Stopped,
    /// A server runs on it.
    Running {
        /// Process id of the server.
        pid: i32,
    },
}

/// A private cluster, running or not.
#[derive(Clone, Debug)]
pub struct PrivateCluster {
    folder: PathBuf,
    installation: Installation,
    user: ServerUser,
    throw_away: bool,
}

impl PrivateCluster {
    /// Finds the programs and the user to run them as; makes and starts nothing.
    ///
    /// # Errors
    /// No installation has TimescaleDB; the existing files are of another major version; the socket's path
    /// would be too long; no user to run as.
    pub fn find(options: &ClusterOptions) -> Result<Self, Error> {
        let state = std::path::absolute(&options.state_dir).unwrap_or_else(|_| options.state_dir.clone());
        let folder = state.join("db");
        folder::check_socket(&folder)?;
        let prefix = Prefix::locate().ok();
        let made_by = folder::major_of(&folder);
        let installation =
            installation::find(options.pg_bin.as_deref(), prefix.as_ref(), made_by.as_deref(), &folder)?;
        let user = ServerUser::choose(&folder)?;
        Ok(Self { folder, installation, user, throw_away: false })
    }

    /// For tests: the files need not survive anything, so nothing is synced.
    pub(crate) fn throw_away(mut self) -> Self {
        self.throw_away = true;
        self
    }

    /// The folder of all its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The programs it runs with.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// How to connect to its database.
    pub fn database(&self) -> Database {
        Database::at_socket(&folder::socket_folder(&self.folder), DATABASE)
    }

    /// How to connect to the private database of a state folder, whether it runs or not. For readers, which
    /// need no programs of PostgreSQL.
    pub fn database_in(state_dir: &Path) -> Database {
        let state = std::path::absolute(state_dir).unwrap_or_else(|_| state_dir.to_owned());
        Database::at_socket(&folder::socket_folder(&state.join("db")), DATABASE)
    }

    /// Whether it is there and runs.
    pub fn status(&self) -> ClusterStatus {
        Self::status_in(&self.folder)
    }

    /// The same for a state folder, without looking for programs.
    pub fn status_of(state_dir: &Path) -> ClusterStatus {
        Self::status_in(&state_dir.join("db"))
    }

    /// Whether this user may look into the cluster of a state folder; without that a running one looks absent.
    ///
    /// # Errors
    /// [`Error::Permission`] when it belongs to somebody else.
    pub fn check_access(state_dir: &Path) -> Result<(), Error> {
        let folder = state_dir.join("db");
        match fs::metadata(folder::data_folder(&folder).join("PG_VERSION")) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(Error::Permission {
                what: format!("looking at the database in {}", folder.display()),
                cause: error.to_string(),
            }),
            _ => Ok(()),
        }
    }

    fn status_in(folder: &Path) -> ClusterStatus {
        if folder::major_of(folder).is_none() {
            return ClusterStatus::Absent;
        }
        match process::running(folder) {
            Some(pid) => ClusterStatus::Running { pid },
            None => ClusterStatus::Stopped,
        }
    }

    /// Makes the data folder unless it is there; `true` when it was made now.
    ///
    /// # Errors
    /// The folder cannot be made or entered by the server's user, or initdb failed.
    pub async fn init(&self) -> Result<bool, Error> {
        self.blocking(|cluster| {
            let _lock = cluster.lock()?;
            cluster.make_data_folder()
        })
        .await
    }

    /// Starts it unless it runs, making the data folder first where there is none. Roles, the database and
    /// its schema are [`PrivateCluster::prepare`]'s.
    ///
    /// # Errors
    /// As [`PrivateCluster::init`]; the server did not come up (with the end of its log).
    pub async fn start(&self, lifetime: Lifetime) -> Result<Started, Error> {
        self.blocking(move |cluster| {
            let _lock = cluster.lock()?;
            let left_behind = process::is_orphaned(&cluster.folder);
            if process::running(&cluster.folder).is_some() {
                if left_behind || lifetime == Lifetime::Detached {
                    process::mark_owner(&cluster.folder, lifetime)?;
                }
                return Ok(if left_behind { Started::TakenOver } else { Started::Already });
            }
            cluster.make_data_folder()?;
            settings::write(&cluster.folder, &cluster.user, cluster.throw_away)?;
            process::start(&cluster.folder, &cluster.installation, &cluster.user)?;
            process::mark_owner(&cluster.folder, lifetime)?;
            Ok(Started::Now)
        })
        .await
    }

    /// Makes roles and the database, brings extension and schema to this build's version. The cluster runs.
    ///
    /// # Errors
    /// The database refused, or it was made by a newer build.
    pub async fn prepare(&self) -> Result<Migrated, Error> {
        let database = self.database();
        let admin = database.with("postgres", ADMIN_ROLE).connect().await?;
        for role in [WRITE_ROLE, READ_ROLE] {
            create_missing(&admin, "pg_roles", "rolname", role, &format!("CREATE ROLE {role} LOGIN")).await?;
        }
        let create = format!("CREATE DATABASE {DATABASE} OWNER {WRITE_ROLE}");
        create_missing(&admin, "pg_database", "datname", DATABASE, &create).await?;
        update_extension(&database.with(DATABASE, ADMIN_ROLE)).await?;
        migrate(&database).await
    }

    /// Starts and prepares: what `serve` and `db start` do.
    ///
    /// # Errors
    /// As [`PrivateCluster::start`] and [`PrivateCluster::prepare`].
    pub async fn run(&self, lifetime: Lifetime) -> Result<(Database, Started), Error> {
        let started = self.start(lifetime).await?;
        self.prepare().await?;
        Ok((self.database(), started))
    }

    /// Stops it, letting nobody finish (fast); `false` when it did not run.
    ///
    /// # Errors
    /// No permission to stop it, or it does not end in time.
    pub async fn stop(&self) -> Result<bool, Error> {
        let folder = self.folder.clone();
        on_blocking_thread(move || process::stop(&folder)).await
    }

    /// Stops the cluster of a state folder, without looking for programs.
    ///
    /// # Errors
    /// As [`PrivateCluster::stop`].
    pub async fn stop_in(state_dir: &Path) -> Result<bool, Error> {
        Self::check_access(state_dir)?;
        let folder = state_dir.join("db");
        on_blocking_thread(move || process::stop(&folder)).await
    }

    /// Whether the server on it runs, or ran until it died, for this process: started or taken over by it, and
    /// not stopped since by anybody.
    pub fn is_own(&self) -> bool {
        process::is_own(&self.folder)
    }

    /// Stops it if this process started it or took it over for itself.
    ///
    /// # Errors
    /// As [`PrivateCluster::stop`].
    pub async fn stop_own(&self) -> Result<bool, Error> {
        if process::is_own(&self.folder) { self.stop().await } else { Ok(false) }
    }

    fn make_data_folder(&self) -> Result<bool, Error> {
        if folder::major_of(&self.folder).is_some() {
            return Ok(false);
        }
        folder::make(&self.folder, &self.user)?;
        process::initdb(&self.folder, &self.installation, &self.user, ADMIN_ROLE, self.throw_away)?;
        Ok(true)
    }

    /// One process at a time changes the cluster's state. The lock file is beside the folder, because the
    /// folder belongs to another user.
    fn lock(&self) -> Result<Flock<fs::File>, Error> {
        let state = self.folder.parent().unwrap_or(&self.folder);
        folder::make_state(state)?;
        let path = state.join("db.lock");
        let open = fs::File::options().create(true).append(true).open(&path);
        let file = open.map_err(Error::io("open the lock file", &path, STATE_REMEDY))?;
        Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, errno)| Error::io("lock", &path, STATE_REMEDY)(std::io::Error::from(errno)))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let cluster = self.clone();
        on_blocking_thread(move || work(&cluster)).await
    }
}

/// Programs are run and waited for: not on a thread that serves others.
async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::Place("the program is stopping".to_owned())),
        },
    }
}

/// Runs `create` unless `catalogue` has a row whose `column` is `name`. The names are constants of this file.
async fn create_missing(
    admin: &tokio_postgres::Client,
    catalogue: &str,
    column: &str,
    name: &str,
    create: &str,
) -> Result<(), Error> {
    let query = format!("SELECT 1 FROM {catalogue} WHERE {column} = $1");
    let what = format!("preparing the database ({create})");
    if admin.query_opt(&query, &[&name]).await.map_err(Error::sql(&what))?.is_none() {
        admin.batch_execute(create).await.map_err(Error::sql(&what))?;
    }
    Ok(())
}

/// Creates the extension, or updates it after the packages were: the update must be a session's first command.
async fn update_extension(admin: &Database) -> Result<(), Error> {
    const WHAT: &str = "setting up TimescaleDB";
    let session = admin.connect().await?;
    let query =
        "SELECT installed_version, default_version FROM pg_available_extensions WHERE name = 'timescaledb'";
    let row = session.query_one(query, &[]).await.map_err(Error::sql(WHAT))?;
    let (installed, available): (Option<String>, String) = (row.get(0), row.get(1));
    let command = match installed {
        None => "CREATE EXTENSION timescaledb",
        Some(installed) if installed != available => "ALTER EXTENSION timescaledb UPDATE",
        Some(_) => return Ok(()),
    };
    drop(session);
    let session = admin.connect().await?;
    session.batch_execute(command).await.map_err(Error::sql(WHAT))
}
