//! `throughline job` and `status` of an unprivileged user who has a URL, a token and a certificate authority, and nothing
//! else: no database password, no server.toml, no state folder. Against a real `serve` over HTTPS and a real database.

use std::fs::{Permissions, set_permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use throughline_store::{Database, WRITE_ROLE, testing};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// nobody, whom no server knows as a local user. Without root the test's own user takes its place.
const NOBODY: u32 = 65_534;

/// Two jobs of the same program: one that ended, and one that runs and has a name of its scheduler.
const SEED: &str = "
    INSERT INTO internal.node_key (name) VALUES ('n1');
    INSERT INTO internal.run (key, scheduler, native_id, user_name, name, command, world_size, start_time, end_time) VALUES
        ('slurm:41.0@1000', 'slurm', '41', 'ada', NULL, './solve --steps 9', 2, now() - interval '1 hour',
         now() - interval '30 minutes'),
        ('slurm:42.0@1000', 'slurm', '42', 'ada', '气候模拟', './solve --steps 10', 2, now() - interval '5 minutes', NULL);
    INSERT INTO internal.job_rank (job_id, rank, pid, world_size, host, node_id, mpi_library, start_time, end_time, ending)
        SELECT j.id, r, 100 + r, 2, 'n1', k.id, 'Open MPI 5', j.start_time, j.end_time,
               CASE WHEN j.end_time IS NOT NULL THEN 'clean' END
        FROM internal.run j CROSS JOIN generate_series(0, 1) r CROSS JOIN internal.node_key k;
    INSERT INTO internal.run_claim (job_id, node_id, first_seen, last_seen)
        SELECT j.id, k.id, j.start_time, coalesce(j.end_time, now()) FROM internal.run j CROSS JOIN internal.node_key k;
    INSERT INTO internal.mpi_rank_peers (time, job_id, rank, node_id, kind, epoch, source, is_whole, peers, bytes, messages)
        SELECT j.start_time + interval '1 minute', j.id, 0, 1, 'logical', j.start_time, 'pmpi', true, '{1}', '{4096}', '{2}' FROM internal.run j;
    INSERT INTO internal.fabric (name, guids) VALUES ('0xfe80000000000000', ARRAY['0xfe80000000000000']);
    INSERT INTO internal.ib_node_key (fabric_id, guid) VALUES (1, '0x0000000000000011'), (1, '0x0000000000000021');
    INSERT INTO internal.ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, valid_from)
        SELECT id, guid, 'switch', CASE id WHEN 1 THEN 'leaf1' ELSE 'spine1' END, id, 1, 1, guid, 1, now() - interval '1 day'
        FROM internal.ib_node_key;
    INSERT INTO internal.ib_port_key (ib_node_id, port) VALUES (1, 5), (2, 1);
    INSERT INTO internal.ib_port (port_id, ib_node_id, port, port_guid, lid, state, physical_state, width, speed,
                         rate_bytes_per_second, remote_port_id, valid_from)
        SELECT id, ib_node_id, port, '0x1', 0, 'Active', 'LinkUp', '4x', '50.0 Gbps', 25000000000, 3 - id,
               now() - interval '1 day' FROM internal.ib_port_key;
    INSERT INTO internal.ib_link (port_a_id, port_b_id, valid_from) VALUES (1, 2, now() - interval '1 day');
    INSERT INTO internal.link_shares (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, kind,
                             is_bound, counted_bytes)
        SELECT to_timestamp(floor(extract(epoch FROM now()) / 10) * 10 - n * 10), 1, c.contributor,
               CASE WHEN c.contributor = 'job' THEN 2 END, c.operation, c.name, c.bytes, c.bytes / 2, c.bytes * 2, c.kind,
               false, 242000000000
        FROM generate_series(1, 12) n, (VALUES
            ('job', 'alltoall', NULL, 2000000000, 'modelled'), ('host', NULL, 'n07', 230000000000, 'unreported'),
            ('rest', NULL, NULL, 10000000000, 'unreported')) AS c (contributor, operation, name, bytes, kind);";

struct Serve(Child);

impl Drop for Serve {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

pub struct Site {
    pub database: Database,
    pub folder: tempfile::TempDir,
    /// A copy of the program that everybody may execute.
    program: PathBuf,
    pub server: String,
    _serve: Serve,
}

fn database_url(database: &Database) -> String {
    let folder = database.socket_folder().unwrap();
    format!("host={} dbname={} user={WRITE_ROLE}", folder.display(), database.name())
}

impl Site {
    pub async fn start() -> Site {
        Self::with(SEED).await
    }

    /// A server on a database with these rows.
    pub async fn with(seed: &str) -> Site {
        let database = testing::database().await;
        database.connect().await.unwrap().batch_execute(seed).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let file = |name: &str, text: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = file("ca.pem", &key.cert.pem(), 0o644);
        let private = file("key.pem", &key.signing_key.serialize_pem(), 0o600);
        let token = file("token", TOKEN, 0o600);
        let mut serve = Command::new(env!("CARGO_BIN_EXE_throughline"));
        serve.args(["serve", "--database-url", &database_url(&database)]);
        let config = format!(
            "[collect]\nenabled = false\n[query]\nlisten = '127.0.0.1:0'\ntoken_file = '{}'\n\
             [query.tls]\ncertificate = '{}'\nkey = '{}'\n",
            token.display(),
            certificate.display(),
            private.display()
        );
        serve.arg("--config").arg(file("server.toml", &config, 0o600));
        let mut serve = Serve(serve.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap());
        let mut lines = BufReader::new(serve.0.stdout.take().unwrap()).lines();
        let address =
            lines.find_map(|line| line.unwrap().strip_prefix("listening query=").map(str::to_owned));
        let port = address.unwrap().rsplit(':').next().unwrap().to_owned();
        let program = folder.path().join("throughline");
        std::fs::copy(env!("CARGO_BIN_EXE_throughline"), &program).unwrap();
        set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        Site { server: format!("https://localhost:{port}"), database, folder, program, _serve: serve }
    }

    /// A command of a user who may read nothing of the server's.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear().env("HOME", "/nonexistent").current_dir("/");
        if nix::unistd::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments)
            .env("THROUGHLINE_SERVER", &self.server)
            .env("THROUGHLINE_TOKEN", TOKEN)
            .env("THROUGHLINE_CA_FILE", self.folder.path().join("ca.pem"))
            .output()
            .unwrap()
    }

    pub fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {} {out} {err}", output.status);
        out.into_owned()
    }

    /// A file that this user may read, and for a token no other.
    fn own_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        path
    }
}

fn ended(output: &Output) -> (i32, String) {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!message.contains("panicked") && !message.contains(TOKEN), "{message}");
    (output.status.code().unwrap(), message)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unprivileged_user_with_a_url_and_a_token_runs_every_command() {
    let site = Site::start().await;
    let status = site.text(&["status"]);
    for part in
        ["slurm:42.0@1000", "2 ranks on 1 node, running", "气候模拟: ./solve --steps 10", "ended 30 min ago"]
    {
        assert!(status.contains(part), "{part} is not in\n{status}");
    }
    let list: serde_json::Value = serde_json::from_str(&site.text(&["job", "list", "--json"])).unwrap();
    assert_eq!(list["jobs"].as_array().map(Vec::len), Some(2));
    let list = site.text(&["job", "list", "--running"]);
    assert!(
        list.contains("气候模拟: ./solve") && list.contains("running") && !list.contains("slurm:41"),
        "{list}"
    );
    let show = site.text(&["job", "show", "42"]);
    assert!(show.contains("\nJob slurm:42.0@1000  气候模拟\n") && show.contains("running since"), "{show}");
    let show: serde_json::Value = serde_json::from_str(&site.text(&["job", "show", "41", "--json"])).unwrap();
    let job = &show["job"];
    assert_eq!((&job["job"]["state"], &job["endings"][0]["ranks"]), (&"ended".into(), &2.into()));
    let show = site.text(&["job", "show", "42"]);
    for part in
        ["leaf1[5] → spine1[1]  96.8 %", "was 96.8 % used: 0.8 % of that was this job's (modelled), 95.0 %"]
    {
        assert!(show.contains(part), "{part} is not in\n{show}");
    }
    for name in
        [&["link", "leaf1[5]"][..], &["link", "leaf1", "5"], &["link", "leaf1", "spine1", "--last", "5m"]]
    {
        let link = site.text(name);
        for part in ["leaf1[5] → spine1[1]: 96.8 % used", "unmonitored host n07", "95.0 %", "unreported"] {
            assert!(link.contains(part), "{part} is not in\n{link}");
        }
        // Less than 1 % is no cause.
        assert!(!link.contains("alltoall") && link.contains("others, each below 1 %"), "{link}");
    }
    let link: serde_json::Value =
        serde_json::from_str(&site.text(&["link", "spine1", "leaf1", "--json"])).unwrap();
    assert_eq!((&link["name"], &link["ba"]["windows"]), (&"leaf1[5] - spine1[1]".into(), &0.into()));
    assert_eq!(link["ab"]["contributors"][0]["name"], "n07");
    let (status, message) = ended(&site.run(&["link", "laef1[5]"]));
    assert!(
        status == 1 && message.contains("no link laef1[5]; the nearest nodes: leaf1"),
        "{status} {message}"
    );
    let (status, message) = ended(&site.run(&["link", "leaf1[5]", "--last", "soon"]));
    assert!(status == 64 && message.contains("10m"), "{status} {message}");
    let diff = site.text(&["job", "diff", "41", "slurm:42", "--by", "operation"]);
    let matrix = site.text(&["job", "matrix", "41", "--csv"]);
    assert_eq!(matrix.lines().nth(1), Some("0,1,4096,2"), "{matrix}");
    assert!(site.text(&["job", "top", "--once"]).contains("running jobs: "));
    // These ranks were not traced: their operations are lanes.
    let (status, message) = ended(&site.run(&["job", "trace", "41", "-o", "-"]));
    assert!(
        status == 0 && message.contains("It was not traced (throughline-exec --trace)"),
        "{status} {message}"
    );
    assert!(diff.contains("B still runs") && diff.contains("The commands differ"), "{diff}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_a_user_from_it_is_said_with_its_status() {
    let site = Site::start().await;
    let ca = site.folder.path().join("ca.pem");
    let query = |server: &str, token: Option<&Path>, ca: Option<&Path>| {
        let mut command = site.command(&["job", "list", "--server", server]);
        for (option, file) in [("--token-file", token), ("--ca-file", ca)] {
            command.args(file.iter().flat_map(|file| [option.as_ref(), file.as_os_str()]));
        }
        ended(&command.output().unwrap())
    };
    let token = site.own_file("own-token", TOKEN);
    assert_eq!(query(&site.server, Some(&token), Some(&ca)).0, 0);
    let (status, message) = query(&site.server, None, Some(&ca));
    assert_eq!(status, 77, "{message}");
    assert!(message.contains(&site.server) && message.contains("--token-file"), "{message}");
    let wrong = site.own_file("wrong-token", "fedcba9876543210");
    let (status, message) = query(&site.server, Some(&wrong), Some(&ca));
    assert_eq!(status, 77, "{message}");
    assert!(message.contains("the token is a wrong one") && message.contains("wrong-token"), "{message}");
    let (status, message) = query(&site.server, Some(&token), None);
    assert_eq!(status, 69, "{message}");
    assert!(message.contains("--ca-file"), "{message}");
    // A token never travels unencrypted.
    let (status, message) = query("http://monitor.example:9460", Some(&token), None);
    assert_eq!(status, 64, "{message}");
    assert!(message.contains("unencrypted"), "{message}");
    // HTTP where HTTPS is spoken.
    let (status, message) = query(&site.server.replace("https", "http"), None, None);
    assert_eq!(status, 69, "{message}");
    let (status, message) = ended(&site.run(&["job", "show", "4711"]));
    assert_eq!(status, 1, "{message}");
    assert!(message.contains("no job 4711; "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_configuration_is_enough() {
    let site = Site::start().await;
    std::fs::create_dir(site.folder.path().join("throughline.d")).unwrap();
    std::fs::create_dir(site.folder.path().join("throughline.d/throughline")).unwrap();
    let token = site.own_file("own-token", TOKEN);
    let text = format!(
        "server = '{}/'\ntoken_file = '{}'\nca_file = '{}'\n",
        site.server,
        token.display(),
        site.folder.path().join("ca.pem").display()
    );
    site.own_file("throughline.d/throughline/client.toml", &text);
    let run = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        command.env("XDG_CONFIG_HOME", site.folder.path().join("throughline.d")).output().unwrap()
    };
    let (status, message) = ended(&run(&["job", "list"]));
    assert_eq!(status, 0, "{message}");
    let check = run(&["check-config", "--client"]);
    let printed = String::from_utf8_lossy(&check.stdout);
    assert!(
        check.status.success() && printed.contains(&site.server) && !printed.contains(TOKEN),
        "{printed}"
    );
    assert!(printed.contains("own-token"), "{printed}");
    site.own_file("throughline.d/throughline/client.toml", "token = 'secret'\n");
    let (status, message) = ended(&run(&["status"]));
    assert_eq!(status, 64, "{message}");
    assert!(message.contains("client.toml, line 1"), "{message}");
}
