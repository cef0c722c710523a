//! `[query] promql_url` against a real Prometheus: it was sent samples that the database no longer holds, and charts whose range
//! begins before the oldest reading have them from there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::remote_write::{LENGTH, Running, prometheus, reached, serve, write};
use throughline_store::{Database, ExportTarget, testing};

const HOUR: i64 = 3600;

/// Status and body of an answer.
fn get(address: &str, path: &str) -> (u16, serde_json::Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

/// A server that only answers readers.
fn reader(database: &Database, promql_url: Option<&str>) -> (Running, String) {
    let folder = database.socket_folder().unwrap();
    let url = format!("host={} user=throughline dbname={}", folder.display(), database.name());
    let mut command = Command::new(env!("CARGO_BIN_EXE_throughline"));
    command.args(["serve", "--log-level", "warn", "--database-url", &url]);
    for role in ["COLLECT", "UPKEEP"] {
        command.env(format!("THROUGHLINE__{role}__ENABLED"), "false");
    }
    command.env("THROUGHLINE__QUERY__LISTEN", "127.0.0.1:0");
    if let Some(url) = promql_url {
        command.env("THROUGHLINE__QUERY__PROMQL_URL", url);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| line.unwrap().strip_prefix("listening query=").map(str::to_owned));
    (Running(child), address.unwrap())
}

/// Bytes per second sent by the first NVLink in the steps that end within a time.
fn sent(answer: &serde_json::Value, (from, to): (i64, i64)) -> Vec<f64> {
    let times = answer["times_ms"].as_array().unwrap().iter().map(|time| time.as_i64().unwrap());
    let links = answer["links"].as_array().unwrap();
    let Some(link) = links.iter().find(|link| link["kind"] == "nvlink") else { return Vec::new() };
    let values = link["out"].as_array().unwrap().iter().map(serde_json::Value::as_f64);
    let within = times.zip(values).filter(|(time, _)| (from * 1000..=to * 1000).contains(time));
    within.filter_map(|(_, value)| value).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_begins_before_the_oldest_reading_comes_from_prometheus_and_the_database() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
    // Whole chunks are dropped, of an hour each.
    let old = now / HOUR * HOUR - 2 * HOUR + 600;
    let recent = now - 20 - LENGTH;
    ExportTarget::open(&client, "test", old * 1000).await.unwrap();
    write(&database, 1, old).await;
    write(&database, 1, recent).await;

    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::fs::write(folder.path().join("prometheus.yml"), "").unwrap();
    let receiver = prometheus(folder.path(), port);
    let configuration = folder.path().join("server.toml");
    let url = format!("http://127.0.0.1:{port}");
    let text = format!(
        "[export]\nremote_write = [{{ name = 'test', url = '{url}/api/v1/write', delay_seconds = 1 }}]\n"
    );
    std::fs::write(&configuration, text).unwrap();
    let exporter = serve(&configuration, &database);
    let end = (recent + LENGTH) / 10 * 10;
    reached(&database, |target| target.exported_until >= end * 1000 && target.window_end.is_none()).await;
    drop(exporter);
    client
        .execute(
            "SELECT public.drop_chunks('internal.nvlink_counters', to_timestamp($1::bigint))",
            &[&(old + 3000)],
        )
        .await
        .unwrap();

    let before = (old + 120, old + LENGTH);
    let after = (recent + 120, end);
    // Until now: the GPU has been known since it was written.
    let path = |from: i64| format!("/api/v1/nodes/n1/rates?from={}&to={}", from * 1000, (now + 60) * 1000);
    let (alone, address) = reader(&database, None);
    let (status, answer) = get(&address, &path(old));
    assert_eq!(status, 200, "{answer}");
    assert!(sent(&answer, before).is_empty(), "the database holds none of them");
    assert!(!sent(&answer, after).is_empty());
    drop(alone);

    let (_server, address) = reader(&database, Some(&url));
    let (status, answer) = get(&address, &path(old));
    assert_eq!(status, 200, "{answer}");
    for time in [before, after] {
        let values = sent(&answer, time);
        assert!(values.len() >= 5 && values.iter().all(|value| (value - 1000.0).abs() < 20.0), "{values:?}");
    }
    // A host whose readings are in both is one line.
    assert_eq!(answer["links"].as_array().unwrap().len(), 2);

    drop(receiver);
    let (status, answer) = get(&address, &path(old));
    assert_eq!((status, &answer["error"]["code"]), (502, &"long_range_absent".into()), "{answer}");
    let text = |key: &str| answer["error"][key].as_str().unwrap().to_owned();
    assert!(text("message").contains(&url) && text("message").contains("query.promql_url"), "{answer}");
    assert!(text("remedy").contains("is that server running"), "{answer}");
    // What the database holds is answered without it.
    let (status, answer) = get(&address, &path(recent));
    assert!(status == 200 && !sent(&answer, after).is_empty(), "{answer}");
}
