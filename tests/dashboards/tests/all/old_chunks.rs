//! What is requested of the last minutes costs the same however long a site has been there: no query of a page, command, dashboard or
//! alert has a chunk in its plan that is more than a day old. All of those are locked here, and a plan waits for the lock of each of its
//! chunks.

use crate::support::{SECOND, Seed, files, reader, server};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use throughline_daemon::SelfMetrics;
use throughline_dashboard_check::{Sources, Window, check};
use throughline_gateway::access::Access;
use throughline_gateway::query;
use throughline_gateway::read::Limits;
use throughline_store::{Database, Retention, make_rollups};
use tokio::net::TcpListener;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

const OLD_CHUNKS: &str = include_str!("old_chunks.sql");

const LOCK: &str = "
DO $$
DECLARE chunk record;
BEGIN
    FOR chunk IN
        SELECT c.chunk_schema, c.chunk_name FROM timescaledb_information.chunks c
        WHERE c.hypertable_schema = 'internal' AND c.range_end < now() - INTERVAL '25 hours'
    LOOP
        EXECUTE format('LOCK TABLE %I.%I IN ACCESS EXCLUSIVE MODE', chunk.chunk_schema, chunk.chunk_name);
    END LOOP;
END
$$";

/// How long a plan waits for a chunk that it should not have.
const WAIT: &str = "3s";

/// For people, as the documents name them.
const BY_HAND: &[&str] = &[
    "SELECT count(*) FROM public.ib_port_rates(now() - INTERVAL '1 minute')",
    "SELECT count(*) FROM public.host_port_rates(now() - INTERVAL '1 minute')",
    "SELECT count(*) FROM public.nvlink_rates(now() - INTERVAL '1 minute')",
    "SELECT count(*) FROM public.gpu_pcie_rates(now() - INTERVAL '1 minute')",
    "SELECT count(*) FROM public.ib_port_readings(now() - INTERVAL '1 minute') WHERE port_id = 1",
    "SELECT count(*) FROM public.nvlink_link_readings(now() - INTERVAL '1 minute')",
    "SELECT count(*) FROM public.job_summary WHERE state = 'running'",
    "SELECT count(*) FROM public.jobs_running(now())",
];

/// With times as constants, as a dashboard has them.
const AT_TIMES: &[&str] = &[
    "SELECT count(*) FROM public.gpu_pm_rates('BEGIN', 'END')",
    "SELECT count(*) FROM public.link_minute_shares('BEGIN', 'END')",
    "SELECT count(*) FROM public.link_contributor_minutes('BEGIN', 'END')",
    "SELECT count(*) FROM public.ib_port_rates('BEGIN', 'END')",
    "SELECT count(*) FROM public.host_port_readings('BEGIN', 'END')",
];

/// A week of packed hours and a year of minutes before the seed, and who holds their locks.
async fn with_history(database: &Database) -> Client {
    let client = database.connect().await.unwrap();
    let chunks = OLD_CHUNKS.replace("EACH_HOURS", "20 hours").replace("EACH_DAYS", "50 days");
    client.batch_execute(&chunks).await.unwrap();
    let packed =
        "UPDATE internal.packed_state SET packed_from = date_trunc('hour', now()) - INTERVAL '167 hours',
                      packed_until = date_trunc('hour', now()) - INTERVAL '2 hours'";
    client.batch_execute(packed).await.unwrap();
    let wait = format!("ALTER DATABASE {} SET lock_timeout = '{WAIT}'", database.name());
    client.batch_execute(&wait).await.unwrap();
    client.batch_execute(&format!("BEGIN; {LOCK}")).await.unwrap();
    let locked =
        "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND pid = pg_backend_pid()";
    let locked: i64 = client.query_one(locked, &[]).await.unwrap().get(0);
    assert!(locked > 150, "{locked} chunks are locked");
    client
}

fn get(address: &str, path: &str) -> (u16, serde_json::Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /api/v1{path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Every path of the API for the last minutes of what the seed has.
fn paths(address: &str, window: &Window) -> Vec<String> {
    let first = |path: &str, list: &str, name: &str| {
        let (status, answer) = get(address, path);
        assert_eq!(status, 200, "{path}: {answer}");
        answer[list][0][name].as_str().unwrap_or_else(|| panic!("{path}: {answer}")).replace('@', "%40")
    };
    let subnet = first("/subnets", "subnets", "subnet");
    let values = BTreeMap::from([
        ("{job}", first("/jobs", "jobs", "job_key").replace(':', "%3A")),
        ("{host}", first("/nodes", "nodes", "host")),
        ("{link}", "0x00000000000000a1.1".to_owned()),
        ("{mlid}", "0xc000".to_owned()),
        ("{rank}", "0".to_owned()),
        ("{name}", "last".to_owned()),
        ("{subnet}", subnet),
    ]);
    let document: serde_yaml_ng::Value =
        serde_yaml_ng::from_str(include_str!("../../../../crates/gateway/openapi.yaml")).unwrap();
    let paths = document["paths"].as_mapping().unwrap().iter().filter(|(_, item)| !item["get"].is_null());
    let milliseconds = |nanoseconds: i64| nanoseconds / 1_000_000;
    let of = |(path, item): (&serde_yaml_ng::Value, &serde_yaml_ng::Value)| {
        let parameters = serde_yaml_ng::to_string(&item["get"]["parameters"]).unwrap();
        let mut path = path.as_str().unwrap().to_owned();
        values.iter().for_each(|(name, value)| path = path.replace(name, value));
        let range = match parameters.contains("/from") && parameters.contains("/to") {
            true => format!("from={}&to={}", milliseconds(window.from), milliseconds(window.to)),
            false => String::new(),
        };
        let more = match path.as_str() {
            "/search" => "q=n",
            _ if path.contains("/trace/") => "epoch_us=0",
            _ => "",
        };
        format!("{path}?{range}{more}")
    };
    paths.map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_the_last_minutes_plan_no_old_chunk() {
    let seed = Seed::make();
    let database = seed.store().await;
    let mut client = database.connect().await.unwrap();
    make_rollups(&mut client, &Retention::default(), Duration::from_secs(600)).await.unwrap();
    let locks = with_history(&database).await;
    let window = seed.window();
    let window = Window { from: window.to - 300 * SECOND, ..window };
    let mut waited = Vec::new();

    // What it looks like where a chunk is in a plan.
    let sql = database.connect_reader().await.unwrap();
    let all = sql.query("SELECT count(*) FROM internal.ib_port_minutes", &[]).await;
    assert!(format!("{:?}", all.unwrap_err()).contains("lock timeout"));

    let time = |nanoseconds: i64| format!("to_timestamp({})::text", nanoseconds / SECOND);
    let times = format!("SELECT {}, {}", time(window.from), time(window.to));
    let times = sql.query_one(&times, &[]).await.unwrap();
    let [from, to] = [0, 1].map(|place| times.get::<_, String>(place));
    let at_times = AT_TIMES.iter().map(|query| query.replace("'BEGIN'", &format!("'{from}'")));
    let at_times = at_times.map(|query| query.replace("'END'", &format!("'{to}'")));
    for query in BY_HAND.iter().map(|query| (*query).to_owned()).chain(at_times) {
        if let Err(error) = sql.query(query.as_str(), &[]).await {
            waited.push(format!("{query}: {error:?}"));
        }
    }

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stop, metrics) = (CancellationToken::new(), SelfMetrics::default());
    let gateway =
        query::Server::new(&metrics, database.clone(), Limits::default(), &Access::default()).unwrap();
    tokio::spawn(gateway.run(listener, stop.clone()));
    let all = {
        let address = address.clone();
        let read = move || {
            let answers = paths(&address, &window).into_iter().map(|path| (get(&address, &path), path));
            answers.collect::<Vec<_>>()
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    };
    assert!(all.len() > 40, "{} paths", all.len());
    let failed = all.into_iter().filter(|((status, _), _)| *status >= 500);
    waited.extend(failed.map(|((status, answer), path)| format!("{path}: {status} {answer}")));

    let configuration =
        format!("remote_read:\n  - url: http://{address}/api/v1/read\n    read_recent: true\n");
    let prometheus = server::start(tempfile::tempdir().unwrap(), &configuration).await;
    for expression in [
        "count(infiniband_switch_port_transmit_data_bytes_total)",
        "count(rate(infiniband_switch_port_transmit_data_bytes_total[2m]))",
        "count(increase(throughline_nvlink_transmit_bytes_total[6h]))",
        "count(max_over_time(throughline_source_up[5m]))",
    ] {
        match prometheus.api.query_range(expression, &window).await {
            Ok(series) if !series.is_empty() => {}
            answer => waited.push(format!("{expression}: {answer:?}")),
        }
    }

    let sources = Sources { sql: Some(reader(&database).await), prometheus: None };
    let report = check(&files(), &sources, window).await.unwrap();
    assert!(report.queries > 50, "{} queries", report.queries);
    waited
        .extend(report.findings.iter().map(ToString::to_string).filter(|text| text.contains("lock timeout")));
    assert!(waited.is_empty(), "{}", waited.join("\n"));
    stop.cancel();
    drop(locks);
}
