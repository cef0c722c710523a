//! For tests of several servers: a primary, a streaming standby and PgBouncer in one folder. Each can be killed and
//! started again. They end with the test process, in whatever way that ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use throughline_prefix::{Prefix, Set};

use super::ensure_programs;
use crate::cluster::{ClusterOptions, ClusterStatus, Lifetime, PrivateCluster};
use crate::database::{ADMIN_ROLE, Database, QUERY_ROLE, WRITE_ROLE};

/// The number in the name of PgBouncer's socket.
const POOLER_PORT: u16 = 6432;

/// Beginnings of keys of PgBouncer's configuration that a test has its own of.
const OF_THE_SITE: [&str; 7] =
    ["listen_", "unix_socket_", "auth_", "client_tls_", "server_tls_", "logfile", "pidfile"];

/// On a busy machine; each wait ends as soon as it can.
const LIMIT: Duration = Duration::from_secs(60);

/// A primary, its standby, and PgBouncer before the primary.
pub struct Replicated {
    folder: PathBuf,
    primary: PrivateCluster,
    standby: PrivateCluster,
    pooler: Option<Child>,
    /// Cleans up behind this process.
    _keeper: Child,
}

impl Replicated {
    /// Starts all three, with an empty database. `pooler` is PgBouncer's configuration; its addresses, logins,
    /// certificates and files are replaced.
    ///
    /// # Panics
    /// When one can't be started: a test cannot go on.
    pub async fn start(pooler: &str) -> Replicated {
        ensure_programs();
        throughline_prefix::ensure(Set::Pooler).expect("PgBouncer in the prefix");
        let folder = std::env::temp_dir().join(format!("tl-several-{}", std::process::id()));
        for part in ["primary", "standby"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let keeper = keeper(&folder);
        let cluster = |name: &str| {
            let options = ClusterOptions { state_dir: folder.join(name), pg_bin: None };
            PrivateCluster::find(&options).unwrap().throw_away()
        };
        let primary = cluster("primary");
        primary.init().await.unwrap();
        // The cluster's own login by the peer's user, for replication as well.
        let logins = folder.join("pg_hba.conf");
        fs::write(
            &logins,
            "local all all peer map=throughline\nlocal replication all peer map=throughline\n",
        )
        .unwrap();
        fs::write(
            primary.folder().join("data/local.conf"),
            format!("hba_file = '{}'\nwal_keep_size = 256MB\n", logins.display()),
        )
        .unwrap();
        primary.start(Lifetime::Detached).await.unwrap();
        primary.prepare().await.unwrap();
        copy(&primary, &folder);
        let standby = cluster("standby");
        standby.start(Lifetime::Detached).await.unwrap();
        let mut all = Replicated { folder, primary, standby, pooler: None, _keeper: keeper };
        all.write_pooler_settings(pooler);
        all.start_pooler();
        all
    }

    /// The folder of all of it; for a test's own files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The primary itself.
    pub fn direct_url(&self) -> String {
        url(&self.primary, WRITE_ROLE)
    }

    /// PgBouncer before the primary.
    pub fn pooled_url(&self) -> String {
        let folder = self.folder.join("pooler");
        format!("host={} port={POOLER_PORT} user={WRITE_ROLE} dbname=throughline", folder.display())
    }

    /// The standby.
    pub fn read_url(&self) -> String {
        url(&self.standby, QUERY_ROLE)
    }

    /// SIGKILL for the standby.
    pub fn kill_standby(&self) {
        let ClusterStatus::Running { pid } = self.standby.status() else {
            panic!("the standby does not run")
        };
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }

    /// Starts the standby again.
    pub async fn start_standby(&self) {
        let end = Instant::now() + LIMIT;
        // What is left of the one before has to end first.
        while let Err(error) = self.standby.start(Lifetime::Detached).await {
            assert!(Instant::now() < end, "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The standby replays no more of what it receives, or goes on; it answers all the same.
    pub async fn pause_replay(&self, is_paused: bool) {
        let name = if is_paused { "pg_wal_replay_pause" } else { "pg_wal_replay_resume" };
        let admin = self.standby.database().with("postgres", ADMIN_ROLE).connect().await.unwrap();
        admin.batch_execute(&format!("SELECT {name}()")).await.unwrap();
    }

    /// SIGKILL for PgBouncer.
    pub fn kill_pooler(&mut self) {
        let mut pooler = self.pooler.take().unwrap();
        pooler.kill().unwrap();
        pooler.wait().unwrap();
    }

    /// Starts PgBouncer and waits for its socket.
    pub fn start_pooler(&mut self) {
        let socket = self.folder.join(format!("pooler/.s.PGSQL.{POOLER_PORT}"));
        // Left by one that was killed, which PgBouncer removes only if nobody listens there.
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(Prefix::locate().unwrap().program("pgbouncer"));
        command.arg(self.folder.join("pooler/pgbouncer.ini"));
        let log = fs::File::create(self.folder.join("pooler/out")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        as_user(&mut command, &self.primary);
        let child = command.spawn().unwrap();
        // For the keeper, and where this process is killed.
        fs::write(self.folder.join("pooler.pid"), child.id().to_string()).unwrap();
        self.pooler = Some(child);
        let end = Instant::now() + LIMIT;
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            let said = fs::read_to_string(self.folder.join("pooler/out")).unwrap_or_default();
            assert!(Instant::now() < end, "PgBouncer does not come up: {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn write_pooler_settings(&self, shipped: &str) {
        let folder = self.folder.join("pooler");
        fs::create_dir_all(&folder).unwrap();
        let server = self.primary.database().socket_folder().unwrap();
        let mut settings = String::new();
        for line in shipped.lines() {
            let (key, value) = line.split_once(" = ").unwrap_or((line, ""));
            if OF_THE_SITE.iter().any(|of_it| key.starts_with(of_it)) {
                continue;
            }
            match value.strip_prefix("host=").and_then(|value| value.split_once(' ')) {
                Some((_, rest)) => settings.push_str(&format!("{key} = host={} {rest}\n", server.display())),
                None => settings.push_str(&format!("{line}\n")),
            }
        }
        settings.push_str(&format!(
            "unix_socket_dir = {folder}\nlisten_port = {POOLER_PORT}\nauth_type = trust\nauth_file = {folder}/users\n",
            folder = folder.display(),
        ));
        fs::write(folder.join("users"), format!("\"{WRITE_ROLE}\" \"\"\n\"{QUERY_ROLE}\" \"\"\n")).unwrap();
        fs::write(folder.join("pgbouncer.ini"), settings).unwrap();
        let (uid, gid) = self.primary.server_user();
        for path in [folder.clone(), folder.join("users"), folder.join("pgbouncer.ini")] {
            chown(path, Some(uid), Some(gid)).unwrap();
        }
    }
}

impl Drop for Replicated {
    fn drop(&mut self) {
        if self.pooler.is_some() {
            self.kill_pooler();
        }
    }
}

fn url(cluster: &PrivateCluster, role: &str) -> String {
    let database: Database = cluster.database();
    format!("host={} user={role} dbname={}", database.socket_folder().unwrap().display(), database.name())
}

/// Makes the standby's files of the primary's.
fn copy(primary: &PrivateCluster, folder: &Path) {
    let (uid, gid) = primary.server_user();
    let place = folder.join("standby/db");
    for path in [place.clone(), place.join("socket")] {
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        chown(path, Some(uid), Some(gid)).unwrap();
    }
    let mut command = Command::new(primary.installation().bin.join("pg_basebackup"));
    command.args(["--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync"]);
    command.arg("--pgdata").arg(place.join("data"));
    command.arg("--dbname").arg(url(primary, ADMIN_ROLE));
    as_user(&mut command, primary);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs as the user of a cluster, where the test is root.
fn as_user(command: &mut Command, cluster: &PrivateCluster) {
    let (uid, gid) = cluster.server_user();
    command.current_dir("/");
    if nix::unistd::geteuid().is_root() {
        command.uid(uid).gid(gid);
    }
}

/// Ends what still runs, once the test process is gone, and removes the files.
fn keeper(folder: &Path) -> Child {
    let script = "read -r _; for part in primary standby; do \
                    pid=$(head -n 1 \"$1/$part/db/data/postmaster.pid\" 2>/dev/null) && kill -QUIT \"$pid\" 2>/dev/null; \
                  done; pid=$(cat \"$1/pooler.pid\" 2>/dev/null) && kill -KILL \"$pid\" 2>/dev/null; sleep 1; rm -rf \"$1\"";
    Command::new("/bin/sh")
        .args(["-c", script, "sh"])
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}
