//! An emulated fabric of two hosts and two switches: what one host sends crosses the cables of its route, slowed down by
//! their limit, is counted at each alike, and everything is gone at the end.

use std::process::Stdio;
use std::time::{Duration, Instant};
use throughline_demo::emulate::counters::{DeviceCounters, Queue, read_devices, read_queues};
use throughline_demo::emulate::meter::devices;
use throughline_demo::emulate::plan::{Plan, fabric_address};
use throughline_demo::emulate::space::{FabricNamespaces, Tools, run};
use throughline_infiniband::offline;
use throughline_infiniband::topology::PortEnd;

/// Bytes that must have crossed: many times what fits into the queues' bursts.
const ENOUGH_BYTES: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);

fn plan(folder: &std::path::Path) -> Plan {
    for (name, text) in [
        ("ibnetdiscover", include_str!("../data/two-switches.net")),
        ("dump_fts", include_str!("../data/two-switches.fts")),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    Plan::of(&offline::read(folder).unwrap().topology, 20_000_000).unwrap()
}

/// What each port of a node sent.
fn sent(spaces: &FabricNamespaces, node: usize) -> Vec<(u8, DeviceCounters)> {
    read_devices(&std::fs::read_to_string(devices(spaces.pid(node))).unwrap())
}

/// The queue of each port of a node.
async fn queues(spaces: &FabricNamespaces, node: usize) -> Vec<(u8, Queue)> {
    let mut command = spaces.command(spaces.pid(node), spaces.tc());
    command.args(["-s", "-j", "qdisc", "show"]);
    read_queues(run(command, "").await.unwrap().trim()).unwrap()
}

fn of_port<T>(ports: Vec<(u8, T)>, port: u8) -> (u8, T) {
    ports.into_iter().find(|(other, _)| *other == port).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_cross_the_cables_of_their_route_and_no_others() {
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(reason) => throughline_test_support::skip!("{reason}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path());
    let mut spaces = FabricNamespaces::new(tools, folder.path());
    spaces.build(&plan, folder.path()).await.unwrap();
    let hosts = plan.hosts();
    let address = format!("{}:7000", fabric_address(plan.nodes[hosts[1]].lid));
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_throughline-demo"));
    let stream = |host: usize, option: &str| {
        let mut command = spaces.command(spaces.pid(host), program);
        command.args(["stream", option, &address]).stdin(Stdio::null()).spawn().unwrap()
    };
    let mut receiver = stream(hosts[1], "--listen");
    let mut sender = stream(hosts[0], "--to");
    let begin = Instant::now();
    let is_enough = |ports: &[(u8, DeviceCounters)]| ports.iter().any(|(_, sent)| sent.bytes > ENOUGH_BYTES);
    while !is_enough(&sent(&spaces, hosts[0])) {
        assert!(begin.elapsed() < LIMIT, "nothing crosses");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    sender.kill().await.unwrap();
    receiver.kill().await.unwrap();

    // Along the route: the host's port, then each switch's by its table.
    let mut at = PortEnd { node: hosts[0], port: 1 };
    let mut counted = Vec::new();
    loop {
        let (_, queue) = of_port(queues(&spaces, at.node).await, at.port);
        assert_eq!(queue.drops, 0, "{at:?}");
        let (_, own) = of_port(sent(&spaces, at.node), at.port);
        counted.push(own.port_bytes());
        let there = plan.across(at).unwrap();
        if there.node == hosts[1] {
            break;
        }
        let routes = &plan.nodes[there.node].routes;
        let (_, port) = routes.iter().find(|(lid, _)| *lid == plan.nodes[hosts[1]].lid).unwrap();
        at = PortEnd { node: there.node, port: *port };
    }
    assert_eq!(counted.len(), 3, "host, switch, switch: {counted:?}");
    assert!(counted.iter().all(|bytes| *bytes > ENOUGH_BYTES / 2), "{counted:?}");
    // The other way there were acknowledgements only.
    let back = sent(&spaces, hosts[1])[0].1;
    assert!(back.packets > 0 && back.port_bytes() < ENOUGH_BYTES / 8, "{back:?}");

    let pids: Vec<u32> = (0..plan.nodes.len()).map(|node| spaces.pid(node)).collect();
    assert!(spaces.stop().await);
    for pid in pids {
        assert!(
            !std::path::Path::new(&format!("/proc/{pid}/ns/net")).exists(),
            "process {pid} is still there"
        );
    }
}
