//! How to connect: to the private cluster's socket or to a server that somebody operates. No SQL here beyond
//! the session's settings.

mod libpq;
mod login;
mod password;
mod tls;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::{CancelToken, Client, Config};

use crate::error::Error;
use login::Login;
use tls::{DatabaseTls, TlsSettings};

/// The bootstrap superuser of a private cluster: sets up, updates the extension, and bounds the roles that read.
pub(crate) const ADMIN_ROLE: &str = "throughline_admin";

/// The role that owns the schema and writes.
pub const WRITE_ROLE: &str = "throughline";

/// The role by which `serve` and commands of ours read, where it is not the owner's login. It is given to nobody, so that nobody
/// can alter it or use up its connections.
pub const QUERY_ROLE: &str = "throughline_query";

/// The role that only reads, for people and dashboards: it can harm itself alone.
pub const READ_ROLE: &str = "throughline_read";

/// How long a connection may take; a local socket answers in milliseconds, a server far away in a second.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// After this long without an acknowledgement of the server's host the connection is given up, so that a
/// lost machine is noticed and the batch tried again elsewhere.
const LOST_PEER_LIMIT: Duration = Duration::from_secs(30);

/// Below this a private cluster's disk counts as full: PostgreSQL needs a new segment of its log (16 MB) to do
/// anything, and one more to end cleanly.
const FULL_BYTES: u64 = 32 << 20;

/// Settings of a session at its beginning: PgBouncer from 1.20 on takes the first and gives it to whichever session serves.
const TIME_ZONE: &str = "-c timezone=UTC";
const READS_ONLY: &str = "-c timezone=UTC -c search_path= -c default_transaction_read_only=on";

/// Late rows and minutes that are made again may meet a chunk of the columnstore: what they touch of it becomes rows, however much that
/// is. The limit of TimescaleDB (100,000 rows in a transaction) is for statements that touch more than they are meant to.
/// A statement and no setting at the beginning: PgBouncer refuses those that it does not know, before anybody can say why.
pub(crate) const NO_DECOMPRESSION_LIMIT: &str = "timescaledb.max_tuples_decompressed_per_dml_transaction = 0";

/// All SQL of ours names its schema: what a role's own `search_path` finds first is never taken for it.
const OWN_SEARCH_PATH: &str = "SET search_path = ''";

/// The disk of a private cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// The cluster's folder.
    pub folder: PathBuf,
    /// What an ordinary user may still write.
    pub free_bytes: u64,
}

impl DiskSpace {
    /// Whether PostgreSQL cannot go on with this.
    pub fn is_full(&self) -> bool {
        self.free_bytes < FULL_BYTES
    }
}

/// A database and the ways to log in to it. Cheap to clone; holds no connection.
#[derive(Clone, Debug)]
pub struct Database {
    writer: Config,
    reader: Config,
    /// The superuser of a private cluster.
    admin: Option<Config>,
    place: String,
    tls: Option<TlsSettings>,
    /// Where a password may be looked for; `None` for the private cluster, whose logins have none.
    passwords: Option<Passwords>,
    /// A pooler may give each transaction of a connection to another session of the server.
    is_pooled: bool,
}

/// The password file that a connection string names.
#[derive(Clone, Debug)]
struct Passwords {
    file: Option<PathBuf>,
}

impl Database {
    /// A server that somebody operates. The URL's user does everything; reading sessions are read-only. TLS as `sslmode`
    /// says; a server on another machine needs it, or `sslmode=disable`.
    ///
    /// # Errors
    /// [`Error::Url`] when the text is no connection string, [`Error::UrlTls`] when it says nothing about TLS to another
    /// machine, or something that can't be.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        Self::operated(url, false)
    }

    /// The same behind a pooler that may give each transaction of a connection to another session (PgBouncer with
    /// `pool_mode = transaction`), or not. Nothing may rely on a session then: limits are set in each transaction, and reading
    /// is done in transactions that are read-only. Nothing is lost where there is no pooler.
    ///
    /// # Errors
    /// As [`Database::from_url`].
    pub fn behind_pooler(url: &str) -> Result<Self, Error> {
        Self::operated(url, true)
    }

    fn operated(url: &str, is_pooled: bool) -> Result<Self, Error> {
        let Login { config: writer, tls, password_file } = Login::parse(url)?;
        let place = format!(
            "{}/{}",
            writer.get_hosts().iter().map(host_name).collect::<Vec<_>>().join(","),
            writer.get_dbname().or(writer.get_user()).unwrap_or_default()
        );
        let passwords = Some(Passwords { file: password_file });
        let reader = writer.clone();
        Ok(Self { reader, writer, admin: None, place, tls, passwords, is_pooled }.with_session_settings())
    }

    /// The private cluster behind a socket folder.
    pub(crate) fn at_socket(folder: &Path, name: &str) -> Self {
        let login = |role: &str| {
            let mut config = Config::new();
            config.host_path(folder).dbname(name).user(role);
            config
        };
        let place = format!("{} on {}", name, folder.display());
        let (writer, reader, admin) = (login(WRITE_ROLE), login(QUERY_ROLE), Some(login(ADMIN_ROLE)));
        Self { writer, reader, admin, place, tls: None, passwords: None, is_pooled: false }
            .with_session_settings()
    }

    /// For tests: the same, used as behind a pooler.
    pub(crate) fn pooled(&self) -> Self {
        Self { is_pooled: true, ..self.clone() }
    }

    /// The same server, another database and another role for both ways; for setting up.
    pub(crate) fn with(&self, name: &str, role: &str) -> Self {
        let mut other = self.clone();
        other.writer.dbname(name).user(role);
        other.reader.dbname(name).user(role);
        other.admin.as_mut().map(|config| config.dbname(name));
        other.place = format!("{name} as {role}");
        other
    }

    /// The same roles, another database of the same server.
    pub(crate) fn renamed(&self, name: &str) -> Self {
        let mut other = self.clone();
        for config in [Some(&mut other.writer), Some(&mut other.reader), other.admin.as_mut()] {
            config.map(|config| config.dbname(name));
        }
        other.place = name.to_owned();
        other
    }

    fn with_session_settings(mut self) -> Self {
        for (config, options) in [
            // A pooler refuses settings that it does not know; behind one each transaction says what it needs.
            (Some(&mut self.writer), TIME_ZONE),
            (self.admin.as_mut(), TIME_ZONE),
            // The role already may not write; this also holds for an operated server's single user.
            (Some(&mut self.reader), if self.is_pooled { TIME_ZONE } else { READS_ONLY }),
        ] {
            let Some(config) = config else { continue };
            let options = match config.get_options() {
                Some(given) => format!("{given} {options}"),
                None => options.to_owned(),
            };
            config
                .options(options)
                .application_name("throughline")
                .connect_timeout(CONNECT_LIMIT)
                .tcp_user_timeout(LOST_PEER_LIMIT);
        }
        self
    }

    /// Where the database is, for people; without a password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The folder of the server's Unix socket, where it has one; for `psql -h`.
    pub fn socket_folder(&self) -> Option<PathBuf> {
        self.writer.get_hosts().iter().find_map(|host| match host {
            tokio_postgres::config::Host::Unix(path) => Some(path.clone()),
            tokio_postgres::config::Host::Tcp(_) => None,
        })
    }

    /// What is free on the disk of a private cluster; `None` for an operated server, which may be anywhere.
    pub fn disk_space(&self) -> Option<DiskSpace> {
        let socket = self.socket_folder()?;
        let folder = socket.parent().filter(|folder| folder.ends_with("db"))?;
        let disk = nix::sys::statvfs::statvfs(folder).ok()?;
        // The types of the fields differ between machines.
        #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
        let free_bytes = disk.blocks_available() as u64 * disk.fragment_size() as u64;
        Some(DiskSpace { folder: folder.to_owned(), free_bytes })
    }

    /// Whether it is the private cluster's: nobody else has a database or a login there.
    pub(crate) fn is_private(&self) -> bool {
        self.admin.is_some()
    }

    /// The user of the URL, or the owner of a private database.
    pub fn user(&self) -> &str {
        self.writer.get_user().unwrap_or_default()
    }

    /// Whether each transaction of a connection may be in another session of the server.
    pub fn is_pooled(&self) -> bool {
        self.is_pooled
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        self.writer.get_dbname().unwrap_or_default()
    }

    /// A connection that may write.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without a server, [`Error::Refused`] when it refuses the login.
    pub async fn connect(&self) -> Result<Client, Error> {
        self.connect_as(&self.writer).await
    }

    /// A connection that may also set what roles may do: the superuser of the private cluster. On an operated server it is the
    /// URL's user, who may as much as its administrator allows.
    ///
    /// # Errors
    /// As [`Database::connect`].
    pub async fn connect_admin(&self) -> Result<Client, Error> {
        self.connect_as(self.admin.as_ref().unwrap_or(&self.writer)).await
    }

    async fn connect_as(&self, config: &Config) -> Result<Client, Error> {
        let client = self.open(config).await?;
        // Behind a pooler each transaction says what it needs.
        if !self.is_pooled {
            let set = format!("{OWN_SEARCH_PATH}; SET {NO_DECOMPRESSION_LIMIT}");
            client.batch_execute(&set).await.map_err(Error::sql("setting up a session"))?;
        }
        Ok(client)
    }

    /// A connection that can only read.
    ///
    /// # Errors
    /// As [`Database::connect`].
    pub async fn connect_reader(&self) -> Result<Client, Error> {
        self.open(&self.reader).await
    }

    /// Reads the files that the connection string names, to find out what is wrong with them.
    ///
    /// # Errors
    /// [`Error::UrlTls`] for certificates, [`Error::Place`] for a password file.
    pub fn check_files(&self) -> Result<(), Error> {
        self.encryption()?;
        self.login(&self.writer).map(drop)
    }

    /// Ends what a session does, over a connection like the session's own.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the server can't be reached.
    pub async fn cancel(&self, token: CancelToken) -> Result<(), Error> {
        let what = "cancelling a statement";
        token.cancel_query(self.encryption()?).await.map_err(Error::sql(what))
    }

    /// Read at each connection: renewed files hold from the next one on.
    fn encryption(&self) -> Result<DatabaseTls, Error> {
        let tls = self.tls.as_ref().map_or_else(DatabaseTls::unused, DatabaseTls::new);
        tls.map_err(Error::UrlTls)
    }

    /// With its password.
    fn login(&self, config: &Config) -> Result<Config, Error> {
        let mut config = config.clone();
        if let Some(passwords) = &self.passwords {
            password::complete(&mut config, passwords.file.as_deref())?;
        }
        Ok(config)
    }

    async fn open(&self, config: &Config) -> Result<Client, Error> {
        let what = format!("connecting to database {}", self.place);
        let (config, tls) = (self.login(config)?, self.encryption()?);
        let attempt = tokio::time::timeout(CONNECT_LIMIT, config.connect(tls)).await;
        let (client, connection) = attempt
            .map_err(|_| Error::late(&what, CONNECT_LIMIT.as_secs()))
            .and_then(|opened| opened.map_err(Error::sql(&what)))
            .map_err(|error| error.at(self))?;
        // Ends when the client is dropped or the server goes; the client's next call shows which it was.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "database connection ended");
            }
        });
        Ok(client)
    }
}

fn host_name(host: &tokio_postgres::config::Host) -> String {
    match host {
        tokio_postgres::config::Host::Tcp(name) => name.clone(),
        tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
    }
}

impl Error {
    /// The same error, with the place of a full disk and what is free there, where the server is on this machine.
    /// A server that finds no space for its log ends, and the client observes a lost connection: then, too, it
    /// is the disk.
    pub(crate) fn at(self, database: &Database) -> Error {
        let Some(space) = database.disk_space() else { return self };
        let found = format!(" ({} MB free in {})", space.free_bytes >> 20, space.folder.display());
        match self {
            Error::Full { what, place, cause } if place.is_empty() => {
                Error::Full { what, place: found, cause }
            }
            Error::Unavailable { what, cause, .. } if space.is_full() => {
                Error::Full { what, place: found, cause }
            }
            Error::Program { program, output, .. } if space.is_full() => {
                Error::Full { what: program, place: found, cause: output }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_place_without_the_password() {
        let url = "postgresql://me:secret@db.example:5433/metrics?sslmode=require";
        let database = Database::from_url(url).unwrap();
        assert_eq!(database.place(), "db.example/metrics");
        assert_eq!(database.name(), "metrics");
        assert_eq!(database.socket_folder(), None);
    }

    #[test]
    fn a_damaged_url_says_what_is_expected() {
        let error = Database::from_url("postgresql://host:port/x").unwrap_err();
        assert!(error.to_string().contains("expected postgresql://"), "{error}");
        assert_eq!(error.status(), throughline_daemon::ExitStatus::Usage);
    }

    #[test]
    fn readers_of_an_operated_server_cannot_write_either() {
        let database = Database::from_url("host=/tmp user=me options='-c search_path=x'").unwrap();
        let options = database.reader.get_options().unwrap();
        assert!(options.contains("search_path=x -c timezone"));
        // The last one holds.
        assert!(options.ends_with("search_path= -c default_transaction_read_only=on"));
        assert_eq!(database.socket_folder(), Some(PathBuf::from("/tmp")));
    }

    #[test]
    fn behind_a_pooler_a_session_begins_with_what_poolers_know() {
        let database = Database::behind_pooler("host=/tmp user=me").unwrap();
        for config in [&database.writer, &database.reader] {
            assert_eq!(config.get_options(), Some("-c timezone=UTC"));
        }
        assert!(database.is_pooled());
    }
}
