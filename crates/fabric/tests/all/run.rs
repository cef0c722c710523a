//! The daemon on a simulated fabric, delivering to a double of the collector; and its failures at the start.

use crate::simulated;
use crate::simulated::daemon::{Daemon, Double, until};
use crate::simulated::{CRAWLER, SMALL, start};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use throughline_infiniband::topology::FatTree;
use throughline_sample::catalogue::{PORT_RATE_BYTES_PER_SECOND, TRANSMIT_DATA_BYTES};

#[test]
fn rows_topology_and_metrics() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (double, collector) = Double::start(&runtime);

    let mut simulated = start(&SMALL.to_net().unwrap());
    let configuration = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[delivery]\ncollector = 'http://{collector}'\n[sweep]\ninterval_seconds = 0.1\nassumed_tick_bytes = 64\n[discovery]\ninterval_seconds = 1\n"
    );
    let mut daemon = Daemon::start(&simulated, &configuration);
    let batches = || double.batches();
    let sweeps = || batches().iter().flat_map(|b| b.coverage.clone()).count();
    until("three sweeps", || sweeps() >= 3);

    let got = batches();
    let nodes: BTreeSet<u64> = got.iter().flat_map(|b| &b.ib_nodes).map(|node| node.guid).collect();
    assert_eq!(nodes.len(), SMALL.nodes());
    let mark = got.iter().flat_map(|b| &b.ib_topology_marks).next().unwrap();
    assert_eq!((mark.nodes, mark.links), (30, 40));
    let leaf = FatTree::switch_guid(0);
    let leaf_node = got.iter().flat_map(|b| &b.ib_nodes).find(|node| node.guid == leaf.0).unwrap();
    assert_eq!(leaf_node.ports.iter().filter(|port| port.remote_guid.is_some()).count(), 10);
    assert!(leaf_node.linear_forwarding_table.len() > 30);
    let samples: Vec<_> = got.iter().flat_map(|b| &b.ib_ports).collect();
    let ports: BTreeSet<(u64, u32)> = samples.iter().map(|s| (s.node_guid, s.port)).collect();
    assert_eq!(ports.len(), 80);
    for sample in &samples {
        assert!(sample.time > 0 && sample.epoch > 0 && sample.epoch <= sample.time);
        let values = sample.values.as_ref().unwrap();
        assert_eq!(values.get(&PORT_RATE_BYTES_PER_SECOND), Some(12_500_000_000));
        assert!(values.get(&TRANSMIT_DATA_BYTES).is_some());
    }
    let coverage = got.iter().flat_map(|b| &b.coverage).next().unwrap();
    assert_eq!((coverage.expected, coverage.read, coverage.failed), (80, 80, 0));
    assert!(got.iter().all(|batch| batch.node.is_empty()
        && batch.fabric.as_ref().is_some_and(|fabric| fabric.subnet_prefix == 0xfe80_0000_0000_0000)));

    // A clear by somebody else begins an epoch.
    let before = samples.iter().find(|s| s.node_guid == leaf.0 && s.port == 1).unwrap().epoch;
    simulated
        .fabric
        .console(&format!(
            "PerformanceSet \"{}\"[1] PortCounters.SymbolErrorCounter=9\n",
            FatTree::switch_id(0)
        ))
        .unwrap();
    let newest = || {
        let got = batches();
        let ours = got.iter().flat_map(|b| &b.ib_ports).filter(|s| s.node_guid == leaf.0 && s.port == 1);
        ours.max_by_key(|s| s.time).cloned().unwrap()
    };
    let symbol_errors = |s: &throughline_sample::wire::IbPortSample| {
        s.values.as_ref().unwrap().get(&throughline_sample::catalogue::SYMBOL_ERROR)
    };
    until("a row with the new count", || symbol_errors(&newest()) == Some(9));
    simulated.tool("perfquery", &["-R", &leaf_node.lid.to_string(), "1"]);
    until("a new epoch", || newest().epoch > before && symbol_errors(&newest()) == Some(0));

    // A cut cable is an event.
    simulated.fabric.console(&format!("Unlink \"{}\"[1]\n", FatTree::switch_id(0))).unwrap();
    let kinds =
        || -> BTreeSet<String> { batches().iter().flat_map(|b| &b.events).map(|e| e.kind.clone()).collect() };
    until("the event", || kinds().contains("link.down") && kinds().contains("node.gone"));

    let page = daemon.metrics();
    check_page(&page);
    assert_eq!(daemon.stop(), 0);
    let left: Vec<String> = std::fs::read_dir(simulated.fabric.folder().join("client-1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("sys-"))
        .collect();
    assert!(left.is_empty(), "exit handlers have run: {left:?}");
}

fn check_page(page: &str) {
    let spine = FatTree::switch_guid(4);
    for series in [
        format!("infiniband_switch_port_transmit_data_bytes_total{{guid=\"{spine}\",port=\"1\"}} "),
        format!("infiniband_switch_port_rate_bytes_per_second{{guid=\"{spine}\",port=\"1\"}} 12500000000"),
        // Ibsim does not report its tick: the one of the configuration counts.
        format!("infiniband_switch_port_transmit_wait_tick_bytes{{guid=\"{spine}\",port=\"1\"}} 64"),
        format!(
            "infiniband_hca_port_receive_packets_total{{guid=\"{}\",port=\"1\"}} ",
            FatTree::host_port_guid(9)
        ),
        format!(
            "infiniband_hca_rate_bytes_per_second{{guid=\"{}\"}} 12500000000",
            FatTree::host_port_guid(9)
        ),
        "throughline_mads_sent_total{source=\"mad\"} ".to_owned(),
        "throughline_last_round_commit_seconds{source=\"mad\"} ".to_owned(),
    ] {
        assert!(page.contains(&series), "{series} is not in\n{page}");
    }
    let uplink = format!(
        "infiniband_switch_uplink_info{{guid=\"{spine}\",port=\"1\",switch=\"spine001\",uplink=\"leaf001\""
    );
    assert!(page.contains(&uplink), "{page}");
    // Of an adapter the port's GUID, as infiniband_exporter has it, beside the node's.
    let (port, node) = (FatTree::host_port_guid(9), FatTree::host_guid(9));
    let of_adapter = |name: &str| {
        let begin = format!("{name}{{guid=\"{port}\",");
        page.lines().any(|line| line.starts_with(&begin) && line.contains(&format!("node_guid=\"{node}\"")))
    };
    assert!(of_adapter("infiniband_hca_info") && of_adapter("infiniband_hca_uplink_info"), "{page}");
    assert!(page.contains(&format!("uplink_guid=\"{port}\"")), "{page}");
    assert!(!page.contains(&format!("{{guid=\"{node}\"")), "{page}");
    let prefix = throughline_prefix::ensure(throughline_prefix::Set::Fabric).unwrap();
    let mut promtool = Command::new(prefix.program("promtool"));
    let mut child = promtool.args(["check", "metrics"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Ends with this status and says these words, without a panic.
fn refused(command: &mut Command, status: i32, words: &[&str]) {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(words.iter().all(|word| said.contains(word)) && !said.contains("panicked"), "{said}");
}

#[test]
fn failures_at_the_start_have_their_status() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fabric.toml");
    std::fs::write(&file, "[sweep]\ninterval = 3\n").unwrap();
    let crawler = |arguments: &[&str]| {
        let mut command = Command::new(CRAWLER);
        command.args(arguments).current_dir(folder.path()).env_remove("LD_PRELOAD");
        command
    };
    refused(
        &mut crawler(&["check-config", "--config", "fabric.toml"]),
        64,
        &["fabric.toml, line 2", "interval"],
    );
    refused(&mut crawler(&["run", "--config", "fabric.toml"]), 64, &["line 2"]);
    refused(&mut crawler(&["run", "--config", "absent.toml"]), 64, &["absent.toml"]);
    refused(&mut crawler(&["sweep", "--interval", "soon"]), 64, &["--interval"]);
    refused(&mut crawler(&["route", "0x1"]), 64, &["route"]);
    refused(
        crawler(&["discover"]).env("THROUGHLINE_LIBIBUMAD", "libabsent.so"),
        69,
        &["libabsent.so", "libibumad3"],
    );
    for command in ["discover", "sweep", "run"] {
        refused(&mut crawler(&[command, "--ca", "mlx5_77"]), 69, &["mlx5_77"]);
    }
    refused(&mut crawler(&["route", "0x1", "0x2", "--ca", "mlx5_77"]), 69, &["mlx5_77"]);
    let printed = simulated::succeed(&mut crawler(&["check-config", "--window", "8"]));
    assert!(printed.contains("window = 8") && printed.contains("[delivery]"), "{printed}");
}

#[test]
fn a_port_in_use_is_reported_and_taken_once_it_is_free() {
    let simulated = start(&SMALL.to_net().unwrap());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = simulated.fabric.client(CRAWLER, None).unwrap();
    command.env("THROUGHLINE__HTTP__LISTEN", &address).args(["run", "--state-dir", "state"]);
    let mut crawler = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(crawler.stderr.take().unwrap()).lines().map(Result::unwrap);
    let reported = log.find(|line| line.contains(&address)).unwrap();
    assert!(reported.contains("http.listen"), "{reported}");
    // Its further output must not block it.
    std::thread::spawn(move || log.for_each(drop));
    drop(taken);
    let mut said = BufReader::new(crawler.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().unwrap(), format!("listening fabric={address}"));
    let id = nix::unistd::Pid::from_raw(i32::try_from(crawler.id()).unwrap());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(crawler.wait().unwrap().success());

    let mut unknown = simulated.fabric.client(CRAWLER, None).unwrap();
    refused(unknown.args(["route", "0x1", "0x2"]), 64, &["0x0000000000000001"]);
}
