//! `serve` and `db` as root beside a database's user who means harm, and `serve` after its end by force.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};
use throughline_store::{ClusterStatus, PrivateCluster, testing};

/// What root's files hold.
const CONTENT: &str = "root's own\n";

fn throughline(arguments: &[&str], state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
    command.args(arguments).arg("--state-dir").arg(state);
    command
        .env("THROUGHLINE__COLLECT__LISTEN", "127.0.0.1:0")
        .env("THROUGHLINE__QUERY__LISTEN", "127.0.0.1:0");
    command
}

/// Runs it to its end: its status and all that it printed.
fn ended(arguments: &[&str], state: &Path) -> (i32, String) {
    let output: Output = throughline(arguments, state).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code().unwrap(), said)
}

/// Whether this is root beside a user for the database, which these attacks need.
fn is_root_with_a_user() -> bool {
    let named = ["throughline", "postgres"].iter().any(|name| User::from_name(name).unwrap().is_some());
    let serves = nix::unistd::geteuid().is_root() && named;
    if !serves {
        throughline_test_support::skipped("needs root, and a user throughline or postgres (make deps)");
    }
    serves
}

/// A folder that everybody may enter, with what runs in it stopped at the end.
struct Scene {
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Scene {
    fn new() -> Self {
        testing::ensure_programs();
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, child: None }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// The file of root that a link at `name` is to lead to, made anew.
    fn victim(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join("root").join(name.replace('/', "-"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, CONTENT).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        path
    }

    fn start_serve(&mut self) -> std::io::Lines<BufReader<std::process::ChildStdout>> {
        let mut command = throughline(&["serve", "--log-level", "warn"], &self.state());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        self.child = Some(child);
        lines
    }

    /// Starts `serve`, and waits until it serves or ends: the address of its pages, or its status and what it said.
    fn serve(&mut self) -> Result<String, (i32, String)> {
        let mut lines = self.start_serve();
        let address =
            lines.find_map(|line| line.unwrap().strip_prefix("listening query=").map(str::to_owned));
        if let Some(address) = address {
            // Nobody reads on: the lines that follow must find a reader all the same.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(address);
        }
        let mut child = self.child.take().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        Err((child.wait().unwrap().code().unwrap(), said))
    }

    fn stop_serve(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let state = self.state();
        let stop = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _ = runtime.block_on(PrivateCluster::stop_in(&state));
        };
        let _ = std::thread::spawn(stop).join();
    }
}

fn assert_untouched(victim: &Path, link: &str) {
    let data = fs::symlink_metadata(victim).unwrap();
    let found = (data.uid(), data.gid(), data.mode() & 0o7777, data.is_file());
    assert_eq!(found, (0, 0, 0o640, true), "{link}: owner and mode of root's file");
    assert_eq!(fs::read_to_string(victim).unwrap(), CONTENT, "{link}: content of root's file");
}

/// The user of the database puts a link at each name that `serve` or `db` handles, leading to a file of root.
#[test]
fn attack_06_links_in_the_database_folder() {
    if !is_root_with_a_user() {
        return;
    }
    let mut scene = Scene::new();
    let (state, db) = (scene.state(), scene.state().join("db"));
    let (status, said) = ended(&["db", "start"], &state);
    assert_eq!(status, 0, "{said}");
    let owner = Uid::from_raw(fs::metadata(&db).unwrap().uid());
    assert!(!owner.is_root(), "the database is not root's");
    let nobody = User::from_name("nobody").unwrap();
    assert!(nobody.is_none_or(|nobody| nobody.uid != owner), "and not nobody's");

    // Those that a start replaces: it works, and the links are gone.
    let replaced = [
        "started-by",
        "started-by.new",
        "start.log",
        "data/postgresql.conf",
        "data/postgresql.conf.new",
        "data/pg_hba.conf",
        "data/pg_ident.conf",
    ];
    // Those that PostgreSQL cannot use then: the start fails, and nothing else happens.
    let refused = ["lock", "data/postmaster.pid", "data/postgresql.auto.conf", "data/log", "data/local.conf"];
    for (links, works) in [(&replaced[..], true), (&refused[..], false)] {
        for command in [&["db", "start"][..], &["serve"], &["db", "init"]] {
            let (status, said) = ended(&["db", "stop"], &state);
            assert!(status == 0 || !works, "{said}");
            let victims: Vec<_> = links.iter().map(|link| (link, scene.victim(link))).collect();
            for (link, victim) in &victims {
                plant(&db.join(link), victim, owner);
            }
            if command[0] == "serve" {
                let served = scene.serve();
                assert_eq!(served.is_ok(), works, "{served:?}");
                scene.stop_serve();
            } else {
                let (status, said) = ended(command, &state);
                assert_eq!(status == 0, works, "{command:?}: {said}");
            }
            for after in [&["db", "stop"][..], &["db", "install"], &["db", "status"]] {
                let _ = ended(after, &state);
            }
            for (link, victim) in &victims {
                assert_untouched(victim, link);
                let path = db.join(link);
                if path.is_symlink() {
                    fs::remove_file(path).unwrap();
                }
            }
        }
    }
}

/// As the database's user, who may do in the folder what it likes.
fn plant(link: &Path, victim: &Path, owner: Uid) {
    let script = "rm -rf \"$1\" && ln -s \"$2\" \"$1\"";
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "sh"]).args([link, victim]).current_dir("/");
    assert!(shell.uid(owner.as_raw()).gid(owner.as_raw()).status().unwrap().success());
}

/// Its folder as a whole is a link, or another process of root looks like its server.
#[test]
fn attack_06_the_folder_is_a_link_and_the_pid_is_roots() {
    if !is_root_with_a_user() {
        return;
    }
    let scene = Scene::new();
    let owner = ["throughline", "postgres"].iter().find_map(|name| User::from_name(name).unwrap()).unwrap();
    let (state, victim) = (scene.state(), scene.victim("file"));
    fs::create_dir(&state).unwrap();
    nix::unistd::chown(&state, Some(owner.uid), Some(owner.gid)).unwrap();
    plant(&state.join("db"), victim.parent().unwrap(), owner.uid);
    for command in [&["db", "start"][..], &["db", "init"], &["db", "stop"], &["db", "status"], &["serve"]] {
        let (status, said) = ended(command, &state);
        assert!(status != 0 && said.contains("link"), "{command:?}: {said}");
    }
    assert_untouched(&victim, "db");
    assert_eq!(fs::read_dir(victim.parent().unwrap()).unwrap().count(), 1, "nothing is made beside it");

    // A process of root whose command line names the data folder, and a pid file that names it.
    let db = state.join("db");
    fs::remove_file(&db).unwrap();
    let script = "mkdir -m 700 -p \"$1/data\" && echo 17 >\"$1/data/PG_VERSION\" && echo \"$2\" >\"$1/data/postmaster.pid\"";
    let mut bystander = Command::new("/bin/sh")
        .args(["-c", "read -r _", "sh"])
        .arg(db.join("data"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, "sh"]).arg(&db).arg(bystander.id().to_string()).current_dir("/");
    assert!(shell.uid(owner.uid.as_raw()).gid(owner.gid.as_raw()).status().unwrap().success());
    let (status, said) = ended(&["db", "stop"], &state);
    assert_eq!(status, 77, "{said}");
    assert!(bystander.try_wait().unwrap().is_none(), "root's process was not stopped");
    drop(bystander.stdin.take());
    bystander.wait().unwrap();
    fs::remove_dir_all(db).unwrap();
}

/// Programs that the database's user may change are not run by root.
#[test]
fn attack_06_programs_in_a_users_folder_do_not_run_as_root() {
    if !is_root_with_a_user() {
        return;
    }
    let scene = Scene::new();
    let (bin, notes) = (scene.folder.path().join("bin"), scene.folder.path().join("ran-as"));
    fs::create_dir(&bin).unwrap();
    fs::write(&notes, "").unwrap();
    fs::set_permissions(&notes, fs::Permissions::from_mode(0o666)).unwrap();
    for program in ["postgres", "initdb", "pg_ctl", "pg_config", "psql"] {
        let path = bin.join(program);
        let script = format!("#!/bin/sh\nid -u >>{}\necho 'postgres (PostgreSQL) 17.3'\n", notes.display());
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir_all(scene.folder.path().join("share/extension")).unwrap();
    fs::write(scene.folder.path().join("share/extension/timescaledb.control"), "").unwrap();
    let bin = bin.display().to_string();
    for action in ["install", "init", "start", "status", "stop"] {
        let _ = ended(&["db", action, "--pg-bin", &bin], &scene.state());
    }
    let ran = fs::read_to_string(&notes).unwrap();
    assert!(ran.lines().count() > 5 && ran.lines().all(|uid| uid != "0"), "{ran}");
}

/// After `kill -9` of both, the next start finds processes that still end and a log to replay.
#[test]
fn serve_starts_at_once_after_it_and_its_server_were_killed() {
    let mut scene = Scene::new();
    for round in 0..4 {
        let served = scene.serve();
        assert!(served.is_ok(), "round {round}: {served:?}");
        let pid = fs::read_to_string(scene.state().join("db/data/postmaster.pid")).unwrap();
        let postmaster = Pid::from_raw(pid.lines().next().unwrap().trim().parse().unwrap());
        let mut serve = scene.child.take().unwrap();
        // In turn the other one first: each leaves another state behind.
        let own = Pid::from_raw(serve.id().cast_signed());
        for pid in if round % 2 == 0 { [postmaster, own] } else { [own, postmaster] } {
            kill(pid, Signal::SIGKILL).unwrap();
        }
        // Not even its own end is waited for.
        let next = scene.serve();
        assert!(next.is_ok(), "round {round}: {next:?}");
        serve.wait().unwrap();
        scene.stop_serve();
    }
}

fn fetch(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Fetches `/healthz` until it has both texts.
fn wait_for_health(address: &str, status: &str, text: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = fetch(address, "/healthz");
        if found.starts_with(&format!("HTTP/1.1 {status}")) && found.contains(text) {
            return;
        }
        assert!(Instant::now() < deadline, "no {status} with '{text}', but {found}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A disk of its own that is filled up: the page says so, with the place, and it goes on once there is space.
#[test]
fn a_full_disk_is_reported_and_survived() {
    let mut scene = Scene::new();
    let state = scene.state();
    fs::create_dir(&state).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=400m,mode=755", "throughline-test"];
    let mounted = Command::new("mount").args(mount).arg(&state).stderr(Stdio::null()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        throughline_test_support::skip!("no small file system can be mounted; run the tests as root");
    }
    let mounted = Mounted(state.clone());
    let address = scene.serve().unwrap();
    wait_for_health(&address, "200", "degraded: database: ");
    let filler = state.join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    let block = vec![0_u8; 1 << 20];
    while file.write_all(&block).is_ok() {}
    wait_for_health(&address, "503", "its disk is full: 0 MB free in ");
    // A start with a full disk waits, and says of what.
    let postmaster = fs::read_to_string(state.join("db/data/postmaster.pid")).unwrap();
    let postmaster = Pid::from_raw(postmaster.lines().next().unwrap().trim().parse().unwrap());
    let (status, said) = {
        scene.stop_serve();
        let _ = kill(postmaster, Signal::SIGKILL);
        ended(&["db", "start"], &state)
    };
    assert!(status == 69 && !said.contains("is it running"), "{said}");
    assert!(said.contains("disk is full") || said.contains("No space left"), "{said}");
    drop(file);
    fs::remove_file(&filler).unwrap();
    let address = scene.serve().unwrap();
    wait_for_health(&address, "200", "degraded: database: ");
    scene.stop_serve();
    drop(mounted);
}

/// Unmounted at the end, also after a failed assertion.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// A server that does not answer, which a connection alone would not show.
#[test]
fn the_health_page_knows_a_database_that_does_not_answer() {
    let mut scene = Scene::new();
    let address = scene.serve().unwrap();
    wait_for_health(&address, "200", "ok");
    let pid = fs::read_to_string(scene.state().join("db/data/postmaster.pid")).unwrap();
    let postmaster = Pid::from_raw(pid.lines().next().unwrap().trim().parse().unwrap());
    // Postmaster and all of its processes, which are in sessions of their own.
    let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap();
    let all: Vec<Pid> = children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap())).collect();
    for pid in all.iter().chain([&postmaster]) {
        let _ = kill(*pid, Signal::SIGSTOP);
    }
    wait_for_health(&address, "503", "failing: database ");
    for pid in all.iter().chain([&postmaster]) {
        let _ = kill(*pid, Signal::SIGCONT);
    }
    wait_for_health(&address, "200", "ok");
}

/// The same link as in the attack, of root itself: a site's way to another disk.
#[test]
fn a_link_of_root_is_followed() {
    if !is_root_with_a_user() {
        return;
    }
    let scene = Scene::new();
    let (state, disk) = (scene.state(), scene.folder.path().join("disk"));
    let owner = ["throughline", "postgres"].iter().find_map(|name| User::from_name(name).unwrap()).unwrap();
    fs::create_dir(&state).unwrap();
    fs::create_dir(&disk).unwrap();
    fs::set_permissions(&disk, fs::Permissions::from_mode(0o700)).unwrap();
    nix::unistd::chown(&disk, Some(owner.uid), Some(owner.gid)).unwrap();
    symlink(&disk, state.join("db")).unwrap();
    let (status, said) = ended(&["db", "init"], &state);
    assert_eq!(status, 0, "{said}");
    assert!(disk.join("data/PG_VERSION").is_file());
    fs::set_permissions(&disk, fs::Permissions::from_mode(0o770)).unwrap();
    let (status, said) = ended(&["db", "start"], &state);
    assert!(status == 64 && said.contains("others than its owner"), "{said}");
}

/// A database that somebody started with `db start` and that died is started again, and goes on being theirs.
#[test]
fn a_database_of_an_administrator_that_died_comes_back() {
    let mut scene = Scene::new();
    let state = scene.state();
    assert_eq!(ended(&["db", "start"], &state).0, 0);
    let address = scene.serve().unwrap();
    wait_for_health(&address, "200", "ok");
    let pid = || fs::read_to_string(state.join("db/data/postmaster.pid")).unwrap_or_default();
    let first = pid();
    kill(Pid::from_raw(first.lines().next().unwrap().trim().parse().unwrap()), Signal::SIGKILL).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while pid().lines().next() == first.lines().next() {
        assert!(Instant::now() < deadline, "the database stays away");
        std::thread::sleep(Duration::from_millis(100));
    }
    wait_for_health(&address, "200", "ok");
    scene.stop_serve();
    assert!(matches!(PrivateCluster::status_of(&state), ClusterStatus::Running { .. }), "serve stopped it");
}
