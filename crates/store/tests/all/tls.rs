//! A server on TCP with TLS and passwords: what each `sslmode` accepts, and where a password comes from.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use throughline_store::{ClusterOptions, Database, Error, PrivateCluster, testing};

/// Generous: the test waits for a server.
const DEADLINE: Duration = Duration::from_secs(60);

const PASSWORD: &str = "a:b\\c";

/// An authority and the server's certificate of it, for this name.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(file: PathBuf) -> Authority {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { issuer: rcgen::Issuer::new(params, key), file }
    }

    fn write(&self, name: &str, folder: &Path) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let owner = std::fs::metadata(folder).unwrap();
        for (file, text) in [("server.crt", certificate.pem()), ("server.key", key.serialize_pem())] {
            let path = folder.join(file);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
    }
}

/// A PostgreSQL that is reached over TCP only, by a user with a password, and with TLS unless it is switched off.
struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Server {
    async fn start(name: &str, with_tls: bool) -> Server {
        testing::ensure_programs();
        let folder = tempfile::tempdir_in(std::env::temp_dir()).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let options = ClusterOptions { state_dir: folder.path().join("s"), pg_bin: None };
        let cluster = PrivateCluster::find(&options).unwrap();
        cluster.init().await.unwrap();
        let data = cluster.folder().join("data");
        let authority = Authority::new(folder.path().join("ca.pem"));
        authority.write(name, &data);
        let rules =
            if with_tls { "hostssl all me all scram-sha-256" } else { "host all me all scram-sha-256" };
        std::fs::write(data.join("own_hba.conf"), format!("host all throughline_admin all trust\n{rules}\n"))
            .unwrap();
        let owner = std::fs::metadata(&data).unwrap();
        chown(data.join("own_hba.conf"), Some(owner.uid()), Some(owner.gid())).unwrap();
        // Taken and given back; another process may take it in between, and the server then ends.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(cluster.installation().bin.join("postgres"));
        let tls = if with_tls { "on" } else { "off" };
        for setting in [
            "listen_addresses=127.0.0.1".to_owned(),
            "unix_socket_directories=".to_owned(),
            format!("port={port}"),
            format!("ssl={tls}"),
            format!("hba_file={}", data.join("own_hba.conf").display()),
            "fsync=off".to_owned(),
            "logging_collector=off".to_owned(),
        ] {
            command.args(["-c", &setting]);
        }
        command.arg("-D").arg(&data).current_dir("/").env("LC_ALL", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if nix::unistd::geteuid().is_root() {
            command.uid(owner.uid()).gid(owner.gid());
        }
        let server = Server { child: command.spawn().unwrap(), port, folder, authority };
        let admin = server.database("user=throughline_admin dbname=postgres sslmode=prefer").unwrap();
        let end = Instant::now() + DEADLINE;
        let client = loop {
            match admin.connect().await {
                Ok(client) => break client,
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        client.batch_execute(&format!("CREATE ROLE me LOGIN PASSWORD '{PASSWORD}'")).await.unwrap();
        server
    }

    fn database(&self, rest: &str) -> Result<Database, Error> {
        Database::from_url(&format!("host=localhost hostaddr=127.0.0.1 port={} {rest}", self.port))
    }

    /// Whether the session has TLS, or why there is none.
    async fn has_tls(&self, rest: &str) -> Result<bool, String> {
        let login = format!("user=me password='a:b\\\\c' dbname=postgres {rest}");
        let database = self.database(&login).map_err(|error| error.to_string())?;
        let client = database.connect().await.map_err(|error| error.to_string())?;
        let query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        Ok(client.query_one(query, &[]).await.unwrap().get(0))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A fast shutdown: its children end with it, and free what they hold.
        _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.child.id().cast_signed()),
            nix::sys::signal::Signal::SIGINT,
        );
        _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sslmode_checks_what_libpq_checks() {
    let server = Server::start("localhost", true).await;
    let other = Authority::new(server.folder.path().join("other.pem"));
    let with = |mode: &str, file: &Path| format!("sslmode={mode} sslrootcert='{}'", file.display());
    let (ca, other) = (&server.authority.file, &other.file);
    for mode in ["require", "verify-ca", "verify-full"] {
        assert_eq!(server.has_tls(&with(mode, ca)).await, Ok(true), "{mode}");
        let error = server.has_tls(&with(mode, other)).await.unwrap_err();
        assert!(
            error.contains("invalid peer certificate") && error.contains("sslrootcert"),
            "{mode}: {error}"
        );
    }
    assert_eq!(server.has_tls("sslmode=require").await, Ok(true), "any certificate");
    assert_eq!(server.has_tls("sslmode=require channel_binding=require").await, Ok(true));
    assert_eq!(server.has_tls("sslmode=prefer").await, Ok(true));
    // The system's authorities do not know it.
    assert!(server.has_tls("sslmode=verify-full").await.is_err());
    let refused = server.has_tls("sslmode=disable").await.unwrap_err();
    assert!(refused.contains("no encryption"), "{refused}");
    // The long way: a statement that is ended from outside, over a connection of its own.
    let database =
        server.database(&format!("user=throughline_admin {} dbname=postgres", with("verify-full", ca)));
    let database = database.unwrap();
    let client = database.connect().await.unwrap();
    let token = client.cancel_token();
    let sleeping = tokio::spawn(async move { client.batch_execute("SELECT pg_sleep(60)").await });
    let end = Instant::now() + DEADLINE;
    let observer = database.connect().await.unwrap();
    let running =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()";
    while observer.query_one(running, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(Instant::now() < end);
    }
    database.cancel(token).await.unwrap();
    let error = sleeping.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::QUERY_CANCELED));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_verify_full_looks_at_the_name() {
    let server = Server::start("db.example", true).await;
    let ca = server.authority.file.display();
    assert_eq!(server.has_tls(&format!("sslmode=verify-ca sslrootcert={ca}")).await, Ok(true));
    let error = server.has_tls(&format!("sslmode=verify-full sslrootcert={ca}")).await.unwrap_err();
    assert!(error.contains("not valid for name"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_and_a_password_file_is_read() {
    let server = Server::start("localhost", false).await;
    let error = server.has_tls("sslmode=require").await.unwrap_err();
    assert!(error.contains("does not support TLS") && error.contains("sslmode"), "{error}");
    assert_eq!(server.has_tls("sslmode=prefer").await, Ok(false));
    let file = server.folder.path().join("pgpass");
    std::fs::write(&file, format!("localhost:{}:*:me:a\\:b\\\\c\n", server.port)).unwrap();
    let login = format!("user=me dbname=postgres passfile='{}'", file.display());
    let database = server.database(&login).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = database.connect().await.unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    database.connect_reader().await.unwrap();
    // As a change of the password would: read at each connection.
    std::fs::write(&file, "*:*:*:*:wrong\n").unwrap();
    let error = database.connect().await.unwrap_err();
    assert_eq!(error.status(), throughline_daemon::ExitStatus::Permission, "{error}");
}
