//! `/metrics` of the daemon on a simulated fabric: shards, choice of counters, gzip, wrong queries, and what
//! becomes of a sweep that nothing follows.

use crate::simulated::{CRAWLER, SMALL, Simulated, start};
use flate2::read::GzDecoder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use throughline_infiniband::topology::FatTree;

/// Generous: tests wait for conditions.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running daemon; killed with the test.
struct Daemon {
    child: Child,
    address: String,
}

impl Daemon {
    fn start(simulated: &Simulated, more: &str) -> Daemon {
        let mut command = simulated.fabric.client(CRAWLER, None).unwrap();
        let folder = command.get_current_dir().unwrap().to_owned();
        let text = format!("[http]\nlisten = '127.0.0.1:0'\n{more}\n");
        std::fs::write(folder.join("fabric.toml"), text).unwrap();
        command.args(["run", "--config", "fabric.toml", "--state-dir", "state"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening fabric=").unwrap_or_else(|| panic!("{line}"));
        let daemon = Daemon { address: address.to_owned(), child };
        let begun = Instant::now();
        while !daemon.page("").contains("infiniband_switch_info") {
            assert!(begun.elapsed() < DEADLINE, "no sweep was shown");
            std::thread::sleep(Duration::from_millis(20));
        }
        daemon
    }

    /// Status line and headers, and the body.
    fn get(&self, path: &str, headers: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let body = answer.split_off(end + 4);
        (String::from_utf8(answer).unwrap().to_ascii_lowercase(), body)
    }

    /// The page of a query.
    fn page(&self, query: &str) -> String {
        let (head, body) = self.get(&format!("/metrics{query}"), "");
        assert!(head.starts_with("http/1.1 200"), "{head}");
        String::from_utf8(body).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Series of the fabric, without values: those move.
fn series(page: &str) -> BTreeSet<String> {
    page.lines()
        .filter(|line| line.starts_with("infiniband_"))
        .map(|line| line.rsplit_once(' ').unwrap().0.to_owned())
        .collect()
}

/// Names of families in the lines of series.
fn names(page: &str) -> BTreeSet<String> {
    series(page).iter().map(|series| series.split('{').next().unwrap().to_owned()).collect()
}

fn accepted_by_promtool(page: &str) {
    let prefix = throughline_prefix::ensure(throughline_prefix::Set::Fabric).unwrap();
    let mut promtool = Command::new(prefix.program("promtool"));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// A sweep that stays the last one.
const ONCE: &str = "[sweep]\ninterval_seconds = 3600";

#[test]
fn shards_are_disjoint_and_complete() {
    let simulated = start(&SMALL.to_net().unwrap());
    let daemon = Daemon::start(&simulated, ONCE);
    let whole = daemon.page("");
    accepted_by_promtool(&whole);
    let mut seen = BTreeSet::new();
    for number in 1..=4 {
        let page = daemon.page(&format!("?shard={number}/4"));
        accepted_by_promtool(&page);
        let of_shard = series(&page);
        assert!(of_shard.len() > 100, "{} series in shard {number}", of_shard.len());
        for series in of_shard {
            assert!(seen.insert(series.clone()), "{series} is in two shards");
        }
        // The daemon's own figures are reported once.
        assert_eq!(page.contains("throughline_"), number == 1);
    }
    assert_eq!(seen, series(&whole));
    // A node's series are together: counters join with uplinks.
    let guid = FatTree::switch_guid(0).to_string();
    let shards = (1..=4).filter(|n| {
        series(&daemon.page(&format!("?shard={n}/4")))
            .iter()
            .any(|s| s.contains(&format!("{{guid=\"{guid}\"")))
    });
    assert_eq!(shards.count(), 1);

    for (query, word) in [
        ("?shard=0/4", "shard=0/4"),
        ("?shard=5/4", "shard=5/4"),
        ("?shard=x", "3/8"),
        ("?counters=nonsense", "counters=nonsense"),
        ("?colour=red", "'colour'"),
    ] {
        let (head, body) = daemon.get(&format!("/metrics{query}"), "");
        let said = String::from_utf8(body).unwrap();
        assert!(head.starts_with("http/1.1 400") && said.contains(word), "{query}: {head}\n{said}");
    }
    assert!(
        daemon.page("").contains("throughline_requests_rejected_total{source=\"mad\",reason=\"query\"} 5")
    );
}

/// Gzip is the same text, and ten scrapers share a page. A sweep in between, as a change of the fabric causes, begins pages anew: then
/// once more.
fn ten_scrapers_share_a_page(daemon: &Daemon) {
    const TRIES: u32 = 5;
    let value = |name: &str| -> f64 {
        let page = daemon.page("");
        let line = page.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    for number in 1..=TRIES {
        let query = format!("?shard=2/{}", number + 1);
        let (round, before) =
            (value("throughline_last_round_timestamp_seconds"), value("throughline_rendered_pages_total"));
        let scrapers: Vec<String> = std::thread::scope(|scope| {
            let ask = || {
                let (head, body) = daemon.get(&format!("/metrics{query}"), "Accept-Encoding: gzip\r\n");
                assert!(head.contains("content-encoding: gzip"), "{head}");
                let mut text = String::new();
                GzDecoder::new(body.as_slice()).read_to_string(&mut text).unwrap();
                text
            };
            let asking: Vec<_> = (0..10).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|asking| asking.join().unwrap()).collect()
        });
        let plain = daemon.page(&query);
        let made = value("throughline_rendered_pages_total") - before;
        // To the millisecond it is made anew with each scrape.
        if (value("throughline_last_round_timestamp_seconds") - round).abs() > 0.01 {
            continue;
        }
        assert!(scrapers.iter().all(|page| *page == plain));
        assert!((made - 1.0).abs() < 0.5, "one page for ten scrapers, and not {made}");
        return;
    }
    panic!("in {TRIES} tries there was a sweep within each");
}

#[test]
fn counters_are_chosen_and_pages_shared() {
    let simulated = start(&SMALL.to_net().unwrap());
    let daemon = Daemon::start(&simulated, &format!("counters = 'fast,symbol_error'\n{ONCE}"));
    let by_default = names(&daemon.page(""));
    assert!(by_default.contains("infiniband_switch_port_transmit_data_bytes_total"));
    assert!(by_default.contains("infiniband_hca_port_symbol_error_total"));
    assert!(!by_default.contains("infiniband_switch_port_link_downed_total"));
    let errors = names(&daemon.page("?counters=errors"));
    assert!(errors.contains("infiniband_switch_port_link_downed_total"));
    assert!(!errors.contains("infiniband_switch_port_transmit_data_bytes_total"));
    assert!(errors.contains("infiniband_switch_uplink_info"), "joins work with any choice");
    // Names that infiniband_exporter 0.10 has and its dashboards use.
    let all = names(&daemon.page("?counters=all"));
    for name in [
        "infiniband_exporter_collect_errors",
        "infiniband_exporter_collect_timeouts",
        "infiniband_exporter_collector_duration_seconds",
        "infiniband_exporter_last_execution",
        "infiniband_hca_collect_duration_seconds",
        "infiniband_hca_info",
        "infiniband_hca_port_receive_data_bytes_total",
        "infiniband_hca_rate_bytes_per_second",
        "infiniband_hca_raw_rate_bytes_per_second",
        "infiniband_hca_uplink_info",
        "infiniband_switch_collect_duration_seconds",
        "infiniband_switch_collect_error",
        "infiniband_switch_collect_timeout",
        "infiniband_switch_info",
        "infiniband_switch_port_excessive_buffer_overrun_errors_total",
        "infiniband_switch_port_link_error_recovery_total",
        "infiniband_switch_port_multicast_receive_packets_total",
        "infiniband_switch_port_rate_bytes_per_second",
        "infiniband_switch_port_raw_rate_bytes_per_second",
        "infiniband_switch_port_receive_switch_relay_errors_total",
        "infiniband_switch_port_transmit_wait_total",
        "infiniband_switch_port_vl15_dropped_total",
        "infiniband_switch_uplink_info",
    ] {
        assert!(all.contains(name), "{name} is missing of {all:?}");
    }
    assert!(daemon.page("").contains(&format!(
        "infiniband_switch_port_raw_rate_bytes_per_second{{guid=\"{}\",port=\"1\"}} 12890625000\n",
        FatTree::switch_guid(0)
    )));

    ten_scrapers_share_a_page(&daemon);
    let open = daemon.get("/metrics", "Accept: application/openmetrics-text\r\nAccept-Encoding: gzip\r\n").1;
    let mut text = String::new();
    GzDecoder::new(open.as_slice()).read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
    assert!(text.contains("# TYPE infiniband_switch_port_transmit_data_bytes counter\n"));
}

#[test]
fn a_counter_at_its_end_is_shown_and_named() {
    let mut simulated = start(&SMALL.to_net().unwrap());
    let id = FatTree::switch_id(1);
    let set =
        |counter: &str, value: u32| format!("PerformanceSet \"{id}\"[3] PortCounters.{counter}={value}\n");
    let commands =
        [set("SymbolErrorCounter", 65_535), set("LinkDownedCounter", 255), set("PortRcvErrors", 65_534)];
    simulated.fabric.console(&commands.concat()).unwrap();
    let daemon = Daemon::start(&simulated, ONCE);
    let page = daemon.page("");
    accepted_by_promtool(&page);
    let port = format!("{{guid=\"{}\",port=\"3\"}}", FatTree::switch_guid(1));
    for (name, value) in [
        ("symbol_error_total", "65535"),
        ("symbol_error_saturated", "1"),
        ("link_downed_total", "255"),
        ("link_downed_saturated", "1"),
        ("receive_errors_total", "65534"),
    ] {
        assert!(page.contains(&format!("infiniband_switch_port_{name}{port} {value}\n")), "{name}:\n{page}");
    }
    let full = series(&page).into_iter().filter(|series| series.contains("_saturated{")).count();
    assert_eq!(full, 2, "nothing else is at its end");
}

/// When the round that a page shows ended, seconds since 1970.
fn ended(page: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with("throughline_last_round_timestamp_seconds"));
    line.unwrap().rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn what_does_not_answer_is_absent_and_named() {
    let mut simulated = start(&SMALL.to_net().unwrap());
    let daemon = Daemon::start(&simulated, "[sweep]\ninterval_seconds = 0.2");
    let dead = FatTree::switch_guid(1).to_string();
    let counter = format!("infiniband_switch_port_transmit_data_bytes_total{{guid=\"{dead}\"");
    assert!(daemon.page("").contains(&counter));
    simulated.fabric.console(&format!("Error \"{}\"[0] 100\n", FatTree::switch_id(1))).unwrap();
    let begun = Instant::now();
    // The first sweep that misses the switch may have read some of its ports before it went silent.
    let mut first = None;
    let page = loop {
        let page = daemon.page("");
        if page.contains("infiniband_exporter_collect_timeouts{collector=\"switch\"} 1\n")
            && ended(&page) > *first.get_or_insert_with(|| ended(&page))
        {
            break page;
        }
        assert!(begun.elapsed() < DEADLINE, "the dead switch was not seen:\n{page}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(!page.contains(&counter), "no old value is served as a new one");
    let reported = format!("infiniband_switch_collect_timeout{{guid=\"{dead}\",collector=\"switch\"}} 1\n");
    assert!(page.contains(&reported), "{page}");
    let alive = FatTree::switch_guid(2).to_string();
    assert!(page.contains(&format!("infiniband_switch_port_transmit_data_bytes_total{{guid=\"{alive}\"")));
    assert!(ended(&page) > 1.6e9, "{page}");
}

/// Stops a program where it is, or lets it go on.
fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
}

#[test]
fn a_sweep_that_nothing_follows_is_not_shown_for_ever() {
    let simulated = start(&SMALL.to_net().unwrap());
    let daemon = Daemon::start(&simulated, "[sweep]\ninterval_seconds = 0.2");
    let wait_for = |what: &str, condition: &dyn Fn(&str) -> bool| {
        let begun = Instant::now();
        loop {
            let page = daemon.page("");
            if condition(&page) {
                return page;
            }
            assert!(begun.elapsed() < DEADLINE, "{what}:\n{page}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // The simulator stands still, and so does everything that waits for its answer.
    let ibsim = simulated.fabric.pids()[0];
    signal(ibsim, Signal::SIGSTOP);
    let stale = wait_for("ports are shown still", &|page| series(page).is_empty());
    assert!(ended(&stale) > 1.6e9, "the age of the last sweep is reported");
    for query in ["?shard=1/2", "?shard=2/2", "?counters=all"] {
        assert!(series(&daemon.page(query)).is_empty(), "{query}");
    }
    signal(ibsim, Signal::SIGCONT);
    let again = wait_for("ports do not come back", &|page| page.contains("infiniband_switch_port_"));
    assert!(ended(&again) > ended(&stale));
}
