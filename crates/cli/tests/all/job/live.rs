//! The live request: what a person looks at of a job that runs is of now, all who look share one request, and what can't be of now is said.

use super::detail::{end, escaped, page, post, running_job};
use super::*;

/// What is shown of one job, and makes the live request.
const LOOKS: [&[&str]; 6] = [
    &["show", "last"],
    &["waits", "last"],
    &["matrix", "last"],
    &["report", "last"],
    &["top", "--once"],
    &["show", "last", "--json"],
];

impl Stack {
    /// Rows of a node that are of a second or two.
    async fn short_rows(&self) -> i64 {
        let (client, connection) = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let query = "SELECT count(*) FROM internal.mpi_node_rows WHERE time - since <= INTERVAL '2 seconds' \
                     AND date_trunc('second', time) = time";
        client.query_one(query, &[]).await.unwrap().get(0)
    }

    fn live(&self, key: &str) -> Value {
        let answer = page(&self.server, &format!("/api/v1/jobs/{}/live", escaped(key)));
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Live requests of a job so far: whether each is open.
    fn requests(&self, key: &str) -> Vec<bool> {
        let listed = self.json(&["fetch", key, "--list", "--json"]);
        let all = listed["requests"].as_array().unwrap().iter().filter(|one| one["reason"] == "live");
        all.map(|one| one["is_open"] == true).collect()
    }

    /// Waits until this holds of what is known of a job's live request.
    fn until(&self, key: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let live = self.live(key);
            if holds(&live) {
                return live;
            }
            assert!(begin.elapsed() < PATIENCE, "{live}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_at_a_job_has_its_rows_each_second_by_one_request_until_nobody_looks() {
    let stack = Stack::start().await;
    let mut launch = stack.launch("openmpi", &["--seconds", "600", "--pause-ms", "5"]);
    let program = launch.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    // The list makes no request.
    let key = loop {
        let jobs = stack.json(&["list", "--json"]);
        let job = &jobs["jobs"][0];
        if job["ranks_running"] == RANKS {
            break job["job_key"].as_str().unwrap().to_owned();
        }
        assert!(begin.elapsed() < PATIENCE, "{jobs}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!((stack.live(&key)["id"].clone(), stack.requests(&key)), (Value::Null, Vec::new()));
    for look in LOOKS {
        let output = stack.job(look);
        assert!(output.status.success(), "{look:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(stack.requests(&key), [true], "all of them share one");
    // As the page does while it is open.
    while stack.short_rows().await < 5 {
        let answer = post(&stack.server, &format!("/api/v1/jobs/{}/live", escaped(&key)));
        assert!(answer.starts_with("HTTP/1.1 202") && answer.contains("\"live_seconds\":20"), "{answer}");
        assert!(begin.elapsed() < PATIENCE, "{} rows", stack.short_rows().await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let live = stack.until(&key, |live| live["absent_nodes"] == 0 && live["as_of_ms"].is_i64());
    assert_eq!((&live["nodes"], live["as_of_ms"].as_i64().unwrap() % 1000), (&1.into(), 0), "{live}");
    // Looked at no more, it ends by itself.
    stack.until(&key, |live| live["id"].is_null());
    end(program);
    stack.until(&key, |live| live["has_ended"] == true);
    let requests = stack.requests(&key).len();
    let output = stack.job(&["show", &key]);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(stack.requests(&key).len(), requests, "final figures are not requested");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_agent_is_gone_stored_figures_are_shown_and_that_is_said() {
    let mut stack = Stack::start().await;
    let (program, key) = running_job(&stack);
    // As a page does: on a slow machine one request is over before the figures are there.
    let begin = Instant::now();
    while !stack.live(&key)["as_of_ms"].is_i64() {
        post(&stack.server, &format!("/api/v1/jobs/{}/live", escaped(&key)));
        assert!(begin.elapsed() < PATIENCE, "{}", stack.live(&key));
        std::thread::sleep(Duration::from_secs(1));
    }
    stack.kill_agent();
    stack.until(&key, |live| live["absent_nodes"] == 1 || live["id"].is_null());
    let output = stack.job(&["show", &key]);
    let (text, note) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && text.contains("Operations") && text.contains("allreduce"), "{text}");
    assert!(note.contains("figures are the stored ones") && note.lines().count() == 1, "{note}");
    // The server ends while somebody waits for figures: neither hangs.
    let mut look = Command::new(env!("CARGO_BIN_EXE_throughline"));
    look.args(["job", "--server", &stack.server, "show", &key]).env("XDG_CONFIG_HOME", stack.folder.path());
    let look = look.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    kill(Pid::from_raw(i32::try_from(stack.serve.0.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert!(stack.serve.0.wait().unwrap().success());
    let output = look.wait_with_output().unwrap();
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() || note.contains("no server at"), "{note}");
    end(program);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_may_be_requested_stored_figures_are_shown_and_that_is_said() {
    let stack = Stack::start_as(&[("THROUGHLINE__DETAIL__ENABLED", "false")], &[]).await;
    let (program, key) = running_job(&stack);
    for look in [["show", &key].as_slice(), &["waits", &key], &["show", &key, "--json"]] {
        let output = stack.job(look);
        let note = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{note}");
        assert!(note.contains("switched off here") && note.lines().count() == 1, "{note}");
    }
    assert!(stack.requests(&key).is_empty());
    end(program);
}
