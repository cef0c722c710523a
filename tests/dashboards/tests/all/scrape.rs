//! A real Prometheus with the repository's configuration scrapes real daemons: a crawler on a simulated fabric,
//! an agent and the server. Their pages are accepted, and rates, utilisation and both ends of links come out.

use crate::support::daemon::{Daemon, program};
use crate::support::{SECOND, reader, root, server};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use throughline_dashboard_check::{Files, Prometheus, Sources, Window, check};
use throughline_doubles::sysfs::AdapterDouble;
use throughline_infiniband::topology::FatTree;
use throughline_simfabric::ibsim::{SimFabric, SimOptions, SimTools};
use throughline_store::testing;

/// Name of the agent's node.
const NODE: &str = "node0002";
const TREE: FatTree =
    FatTree { hosts: 4, leafs: 2, spines: 2, uplinks: 2, ports: 8, host_link: "4xEDR", switch_link: "4xEDR" };
/// Time for a few scrapes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes per second that the first leaf's first port is made to send, in 4-byte words: about half of EDR.
const WORDS_PER_SECOND: u64 = 1_500_000_000;
/// Bytes that the crawler takes for a tick of waiting: ibsim does not report it.
const TICK_BYTES: u64 = 65_536;
/// Ticks a second that the same port is made to wait: half of the time.
const TICKS_PER_SECOND: u64 = 12_500_000_000 / TICK_BYTES / 2;

struct Site {
    fabric: SimFabric,
    crawler: Daemon,
    agent: Daemon,
    server: Daemon,
    adapter: AdapterDouble,
    folder: tempfile::TempDir,
}

impl Site {
    fn start(database: &throughline_store::Database) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let tools = SimTools::at(server::prefix().root()).unwrap();
        let fabric =
            SimFabric::start(&tools, &at("fabric"), &TREE.to_net().unwrap(), &SimOptions::default()).unwrap();
        let daemon = |mut command: Command, name: &str, roles: &[&str]| {
            command.arg("--state-dir").arg(at(name));
            Daemon::start(command, roles, &at(&format!("{name}.log")))
        };

        let socket = database.socket_folder().unwrap();
        let url = format!("host={} dbname={} user=throughline", socket.display(), database.name());
        let mut command = Command::new(program("throughline"));
        command.args(["serve", "--database-url", &url]);
        command
            .env("THROUGHLINE__QUERY__LISTEN", "127.0.0.1:0")
            .env("THROUGHLINE__COLLECT__LISTEN", "127.0.0.1:0");
        let server = daemon(command, "server", &["query", "collect"]);
        let collector = format!("http://{}", server.address("collect"));

        let mut command = fabric.client(program("throughline-fabric"), Some(&FatTree::host_id(0))).unwrap();
        command.arg("run").env("THROUGHLINE__HTTP__LISTEN", "127.0.0.1:0");
        command.env("THROUGHLINE__DELIVERY__COLLECTOR", &collector);
        command.env("THROUGHLINE__FABRIC__NAME", "compute");
        command.env("THROUGHLINE__SWEEP__INTERVAL_SECONDS", "0.5");
        command.env("THROUGHLINE__SWEEP__ASSUMED_TICK_BYTES", TICK_BYTES.to_string());
        let crawler = daemon(command, "crawler", &["fabric"]);

        let adapter = AdapterDouble::create(&at("sys"), "mlx5_0", FatTree::host_guid(1)).unwrap();
        let mut command = Command::new(program("throughline-agent"));
        command.arg("run").env("THROUGHLINE__HTTP__LISTEN", "127.0.0.1:0").env("THROUGHLINE__NODE", NODE);
        command.env("THROUGHLINE__DELIVERY__COLLECTOR", &collector);
        command.env("THROUGHLINE__SYSFS__ROOT", at("sys")).env("THROUGHLINE__NVML__ENABLED", "false");
        let agent = daemon(command, "agent", &["agent"]);
        Self { fabric, crawler, agent, server, adapter, folder }
    }

    /// The repository's configuration with these daemons' addresses and a scrape each second.
    fn prometheus_configuration(&self) -> String {
        let text = std::fs::read_to_string(root().join("deploy/prometheus/prometheus.yml")).unwrap();
        let mut text = text
            .replace("127.0.0.1:9460", &self.server.address("query").to_string())
            .replace("127.0.0.1:9461", &self.agent.address("agent").to_string())
            .replace("127.0.0.1:9462", &self.crawler.address("fabric").to_string())
            .replace("rules/*.yml", &format!("{}/*.yml", self.folder.path().join("rules").display()));
        // Scraped and read back it is one series then.
        let node = "instance: \"node\"";
        assert!(text.contains(node));
        text = text.replace(node, &format!("instance: \"{NODE}\""));
        for (from, to) in [("interval: 15s", "interval: 1s"), ("timeout: 10s", "timeout: 1s")] {
            assert!(text.contains(from));
            text = text.replace(from, to);
        }
        let rules = self.folder.path().join("rules");
        std::fs::create_dir(&rules).unwrap();
        for (name, text) in Files::read(&root()).unwrap().prometheus_rules {
            std::fs::write(rules.join(name), text.replace("interval: 15s", "interval: 1s")).unwrap();
        }
        text
    }

    /// Traffic and waiting since `start` on the first leaf's port 1, and traffic on the agent's adapter.
    fn drive(&mut self, start: Instant) {
        let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap();
        let words = WORDS_PER_SECOND * milliseconds / 1000;
        let switch = FatTree::switch_id(0);
        let ticks = TICKS_PER_SECOND * milliseconds / 1000;
        let command = format!(
            "PerformanceSet \"{switch}\"[1] PortCountersExtended.PortXmitData={words}\n\
             PerformanceSet \"{switch}\"[1] PortCounters.PortXmitWait={ticks}"
        );
        self.fabric.console(&command).unwrap();
        self.adapter.set_counter("port_xmit_data", words).unwrap();
    }
}

/// The last minute in steps of a second.
fn last_minute() -> Window {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let now = i64::try_from(now).unwrap();
    let mut window = Window::new(now - 60 * SECOND, now);
    (window.step, window.scrape) = (Duration::from_secs(1), Duration::from_secs(1));
    window
}

/// The newest value of the one series that an expression answers with, if there is one yet.
async fn newest(prometheus: &Prometheus, expression: &str) -> Option<f64> {
    let series = prometheus.query_range(expression, &last_minute()).await.unwrap();
    assert!(series.len() < 2, "{expression}: {series:?}");
    series.first()?.values.last()?.1.parse().ok()
}

#[tokio::test]
async fn a_prometheus_scrapes_all_daemons_and_answers_rate_over_port_counters() {
    let database = testing::database().await;
    let mut site = Site::start(&database);
    let configuration = site.prometheus_configuration();
    let prometheus = server::start(tempfile::tempdir().unwrap(), &configuration).await;
    let leaf = FatTree::switch_guid(0);
    let sending = format!("guid=\"{leaf}\",port=\"1\"");
    let expected = [
        format!("rate(infiniband_switch_port_transmit_data_bytes_total{{{sending}}}[30s])"),
        String::from(
            "rate(node_infiniband_port_data_transmitted_bytes_total{device=\"mlx5_0\",port=\"1\"}[30s])",
        ),
        // The recording rule: the crawler's speed and names of both ends join with its counters.
        format!(
            "guid_port:infiniband_link_utilisation:ratio_rate2m{{{sending},node=\"leaf001\",\
             uplink=\"node0001 mlx5_0\",uplink_port=\"1\"}} * 12.5e9"
        ),
        format!(
            "rate(infiniband_switch_port_transmit_wait_total{{{sending}}}[30s]) \
             * infiniband_switch_port_transmit_wait_tick_bytes"
        ),
        String::from("sum(rate(throughline_rows_written_total[30s])) * 1e9"),
        // As rules made for infiniband_exporter 0.10 have it: rate and share, named by a join with the uplink.
        format!(
            "rate(infiniband_switch_port_transmit_data_bytes_total{{{sending}}}[30s]) * on (guid, port) \
             group_left (switch, uplink, uplink_port) infiniband_switch_uplink_info{{uplink=\"node0001 mlx5_0\"}}"
        ),
        format!(
            "1e9 * rate(infiniband_switch_port_transmit_data_bytes_total{{{sending}}}[30s]) / on (guid, port) \
             infiniband_switch_port_raw_rate_bytes_per_second * on (guid) group_left (switch) infiniband_switch_info"
        ),
        String::from(
            "1e9 * (time() - max(infiniband_exporter_last_execution{collector=\"switch\"}) < bool 60) \
             + sum(infiniband_exporter_collect_timeouts) + sum(infiniband_exporter_collect_errors)",
        ),
    ];
    let start = Instant::now();
    let mut rates = vec![None; expected.len()];
    while rates.iter().any(|rate: &Option<f64>| rate.is_none_or(|rate| rate < 1e8)) {
        assert!(
            start.elapsed() < LIMIT,
            "no rate of all within the limit: {rates:?}\n{}",
            logs(site.folder.path())
        );
        site.drive(start);
        for (rate, expression) in rates.iter_mut().zip(&expected) {
            *rate = newest(&prometheus.api, expression).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // Series have no job, `up` does; the crawler's instance is its fabric.
    let jobs = newest(&prometheus.api, "count({job=~\"throughline-.+\",__name__!~\"up|scrape_.*\"})").await;
    assert_eq!(jobs, None);
    assert_eq!(newest(&prometheus.api, "sum(up{job=~\"throughline-.+\"})").await, Some(3.0));
    let instance =
        format!("count(infiniband_switch_port_transmit_data_bytes_total{{{sending},instance=\"compute\"}})");
    assert_eq!(newest(&prometheus.api, &instance).await, Some(1.0));

    for address in [site.server.address("query"), site.agent.address("agent"), site.crawler.address("fabric")]
    {
        accepted_by_promtool(&page(address).await);
    }
    // Panels leave out the newest step of time, so there have to be readings of a whole one before it.
    let mut findings = fabric_panels_without_answer(&prometheus.api, &database).await;
    let start_of_panels = Instant::now();
    while !findings.is_empty() {
        assert!(start_of_panels.elapsed() < LIMIT, "{findings:#?}");
        site.drive(start);
        tokio::time::sleep(Duration::from_millis(200)).await;
        if start_of_panels.elapsed().as_secs().is_multiple_of(5) {
            findings = fabric_panels_without_answer(&prometheus.api, &database).await;
        }
    }
}

/// What is wrong with fabric panels of both data sources, on what went through the whole path.
async fn fabric_panels_without_answer(
    prometheus: &Prometheus,
    database: &throughline_store::Database,
) -> Vec<String> {
    let sources = Sources { sql: Some(reader(database).await), prometheus: Some(prometheus.clone()) };
    let report = check(&Files::read(&root()).unwrap(), &sources, last_minute()).await.unwrap();
    // There is no GPU, MPI program or receiver of remote write here, there is no event, and readings are of less than the whole minute that two
    // panels count in. The seeded database has all of that.
    let others = [
        "nvlink",
        "gpu",
        "pcie",
        "mpi",
        "panel 'events'",
        "'link directions by utilisation'",
        "panel 'traffic'",
        "export_receiver_up",
    ];
    let of_fabric = |finding: &&throughline_dashboard_check::Finding| {
        ["throughline-fabric.json", "throughline-switch.json", "rule "]
            .iter()
            .any(|of| finding.place.starts_with(of))
            && !others.iter().any(|other| finding.to_string().to_lowercase().contains(other))
    };
    report.findings.iter().filter(of_fabric).map(ToString::to_string).collect()
}

/// The `/metrics` page at an address, as Prometheus' text format.
async fn page(address: std::net::SocketAddr) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 ") && !head.to_ascii_lowercase().contains("chunked"), "{head}");
    body.to_owned()
}

fn accepted_by_promtool(page: &str) {
    assert!(page.contains("throughline_build_info"), "{page}");
    let mut promtool = Command::new(server::prefix().program("promtool"));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let output_text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && output_text.is_empty(), "{output_text}");
}

fn logs(folder: &Path) -> String {
    ["server", "crawler", "agent"]
        .map(|name| std::fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default())
        .concat()
}
