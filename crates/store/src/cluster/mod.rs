//! The private cluster: one PostgreSQL data folder in the state folder, reached through a Unix socket only.
//!
//! It is started and stopped here and by nobody else; a cluster that somebody left running is used and left
//! running. Nothing outside `<state>/db` is written.

mod folder;
mod installation;
mod process;
mod root;
mod settings;
mod tuning;

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use throughline_prefix::Prefix;

pub use installation::Installation;
pub(crate) use installation::find_client_programs;
pub(crate) use tuning::WAL_MEGABYTES;
pub use tuning::{SettingRemark, review_settings};

use crate::database::{ADMIN_ROLE, Database, WRITE_ROLE};
use crate::error::Error;
use crate::migrate::{Migrated, migrate};
use folder::ServerUser;
use tuning::Machine;

/// The name of the database.
const DATABASE: &str = "throughline";

/// What to do when a file of the cluster cannot be handled.
pub(crate) const STATE_REMEDY: &str =
    "check the owner and the free space, or choose another folder with --state-dir";

/// The cluster's folder is its user's alone.
const FOLDER_MODE: u32 = 0o700;

/// The run-time folder is entered by everybody who has a socket to reach in it.
const RUN_MODE: u32 = 0o755;

/// How long a start waits for what is left of the server before to end, or for this one to recover: both take
/// seconds after a kill. `serve` tries again for as long as it takes.
const RUN_PATIENCE: Duration = Duration::from_secs(30);

/// How often it tries again.
const RUN_POLL: Duration = Duration::from_millis(500);

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
pub enum ClusterStart {
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
        let user = ServerUser::choose(&folder)?;
        let (explicit, prefix) = (options.pg_bin.as_deref(), prefix.as_ref());
        let installation = installation::find(explicit, prefix, made_by.as_deref(), &folder, Some(&user))?;
        Ok(Self { folder, installation, user, throw_away: false })
    }

    /// Where the caller is root: makes the cluster's folder and `also` (unless they are there) for the server's
    /// user, and becomes that user for good, in all threads. A process of that user may put links into the
    /// folder; they lead nowhere that the user may not go itself. Everything that needs root is done before.
    ///
    /// # Errors
    /// A folder cannot be made, or the server's user cannot enter it.
    pub fn leave_root(mut self, also: &[&Path]) -> Result<Self, Error> {
        if self.user.differs {
            self.make_place()?;
            for path in also {
                root::make_folder(path, &self.user, RUN_MODE)?;
            }
            root::leave(&self.user)?;
            self.user.differs = false;
        }
        Ok(self)
    }

    /// The same for a cluster that is there already, without looking for programs and making nothing. `false`:
    /// there is none, and the caller is what it was.
    ///
    /// # Errors
    /// No user to run as.
    pub fn leave_root_in(state_dir: &Path) -> Result<bool, Error> {
        let folder = state_dir.join("db");
        if !nix::unistd::geteuid().is_root() || fs::symlink_metadata(&folder).is_err() {
            return Ok(false);
        }
        root::leave(&ServerUser::choose(&folder)?)?;
        Ok(true)
    }

    /// Before programs are put into a prefix: becomes the server's user, unless only root may write there.
    ///
    /// # Errors
    /// No user to run as.
    pub fn leave_root_for_prefix(state_dir: &Path, prefix: &Path) -> Result<(), Error> {
        if !nix::unistd::geteuid().is_root() {
            return Ok(());
        }
        let user = ServerUser::choose(&state_dir.join("db"))?;
        if root::is_roots_alone(prefix) { Ok(()) } else { root::leave(&user) }
    }

    /// For tests: the files need not survive anything, so nothing is synced.
    pub(crate) fn throw_away(mut self) -> Self {
        self.throw_away = true;
        self
    }

    /// For tests: whose its files and processes are.
    pub(crate) fn server_user(&self) -> (u32, u32) {
        (self.user.uid.as_raw(), self.user.gid.as_raw())
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
    pub async fn start(&self, lifetime: Lifetime) -> Result<ClusterStart, Error> {
        self.blocking(move |cluster| {
            let _lock = cluster.lock()?;
            let left_behind = process::is_orphaned(&cluster.folder);
            if process::running(&cluster.folder).is_some() {
                if left_behind || lifetime == Lifetime::Detached {
                    process::mark_owner(&cluster.folder, lifetime)?;
                }
                // The program that started it may have had other settings; most of them take effect without a new start.
                if cluster.write_settings()? {
                    process::reload(&cluster.folder);
                }
                return Ok(if left_behind { ClusterStart::TakenOver } else { ClusterStart::Already });
            }
            cluster.make_data_folder()?;
            cluster.write_settings()?;
            process::start(&cluster.folder, &cluster.installation, &cluster.user)?;
            process::mark_owner(&cluster.folder, lifetime)?;
            Ok(ClusterStart::Now)
        })
        .await
    }

    /// Makes roles and the database, brings extension and schema to this build's version. The cluster runs.
    ///
    /// # Errors
    /// The database refused, or it was made by a newer build.
    pub async fn prepare(&self) -> Result<Migrated, Error> {
        let database = self.make_database().await?;
        let admin = database.with(DATABASE, ADMIN_ROLE);
        update_extension(&admin).await?;
        let admin = admin.connect().await?;
        let found = crate::reading::check(&database, &admin).await?;
        let migrated = migrate(&database).await?;
        crate::reading::note(&admin, &found).await?;
        Ok(migrated)
    }

    /// Makes roles and the database, where they are missing.
    pub(crate) async fn make_database(&self) -> Result<Database, Error> {
        let database = self.database();
        let admin = database.with("postgres", ADMIN_ROLE).connect().await?;
        let create = format!("CREATE ROLE {WRITE_ROLE} LOGIN");
        create_missing(&admin, "pg_roles", "rolname", WRITE_ROLE, &create).await?;
        crate::reading::create_roles(&admin).await?;
        let create = format!("CREATE DATABASE {DATABASE} OWNER {WRITE_ROLE}");
        create_missing(&admin, "pg_database", "datname", DATABASE, &create).await?;
        Ok(database)
    }

    /// Removes the data folder of a cluster that does not run: it is of a restore that failed.
    pub(crate) fn remove_data(&self) -> Result<(), Error> {
        let data = folder::data_folder(&self.folder);
        root::with_files_of(&self.user, || fs::remove_dir_all(&data)).map_err(Error::io(
            "remove",
            &data,
            STATE_REMEDY,
        ))
    }

    /// Starts and prepares: what `serve` and `db start` do.
    ///
    /// # Errors
    /// As [`PrivateCluster::start`] and [`PrivateCluster::prepare`].
    pub async fn run(&self, lifetime: Lifetime) -> Result<(Database, ClusterStart), Error> {
        let deadline = Instant::now() + RUN_PATIENCE;
        let mut found = None;
        loop {
            let tried = self.start_and_prepare(lifetime, &mut found).await;
            let error = match tried.map_err(|error| error.at(&self.database())) {
                Err(error @ Error::Unavailable { .. }) if Instant::now() < deadline => error,
                other => return other,
            };
            tracing::debug!(%error, "the database server is not ready");
            tokio::time::sleep(RUN_POLL).await;
        }
    }

    /// `found` is what the first start found: what a later try finds running was started by this one.
    async fn start_and_prepare(
        &self,
        lifetime: Lifetime,
        found: &mut Option<ClusterStart>,
    ) -> Result<(Database, ClusterStart), Error> {
        let started = self.start(lifetime).await?;
        let first = *found.get_or_insert(started);
        self.prepare().await?;
        Ok((self.database(), if started == ClusterStart::Already { first } else { started }))
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

    /// Whether its server died: one that was stopped takes its `postmaster.pid` away.
    pub fn has_crashed(&self) -> bool {
        let left = folder::data_folder(&self.folder).join("postmaster.pid").exists();
        left && self.status() == ClusterStatus::Stopped
    }

    /// Stops it if this process started it or took it over for itself.
    ///
    /// # Errors
    /// As [`PrivateCluster::stop`].
    pub async fn stop_own(&self) -> Result<bool, Error> {
        if process::is_own(&self.folder) { self.stop().await } else { Ok(false) }
    }

    /// Writes the configuration files; whether one of them changed.
    fn write_settings(&self) -> Result<bool, Error> {
        // A test's files are not worth the question.
        let has_lz4 = !self.throw_away && process::takes_lz4(&self.folder, &self.installation, &self.user);
        let machine = Machine::measure(&folder::data_folder(&self.folder), has_lz4);
        settings::write(&self.folder, &self.user, &machine, self.throw_away)
    }

    fn make_data_folder(&self) -> Result<bool, Error> {
        if folder::major_of(&self.folder).is_some() {
            return Ok(false);
        }
        folder::make(&self.folder)?;
        process::initdb(&self.folder, &self.installation, &self.user, ADMIN_ROLE, self.throw_away)?;
        Ok(true)
    }

    /// The state folder, enterable by all, and the cluster's folder in it, its user's own.
    fn make_place(&self) -> Result<(), Error> {
        root::make_folder(&self.folder, &self.user, FOLDER_MODE)?;
        folder::check_way(&self.folder, &self.user)
    }

    /// One process at a time changes the cluster's state.
    fn lock(&self) -> Result<Flock<fs::File>, Error> {
        let path = self.folder.join("lock");
        let open = fs::File::options()
            .create(true)
            .append(true)
            .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(&path);
        let file = open.map_err(Error::io("open the lock file", &path, STATE_REMEDY))?;
        Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, errno)| Error::io("lock", &path, STATE_REMEDY)(std::io::Error::from(errno)))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let cluster = self.clone();
        on_blocking_thread(move || {
            cluster.make_place()?;
            root::with_files_of(&cluster.user, || work(&cluster))
        })
        .await
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
        None => "CREATE EXTENSION timescaledb SCHEMA public",
        Some(installed) if installed != available => "ALTER EXTENSION timescaledb UPDATE",
        Some(_) => return Ok(()),
    };
    drop(session);
    let session = admin.connect().await?;
    session.batch_execute(command).await.map_err(Error::sql(WHAT))
}
