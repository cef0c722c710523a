//! Simulated fabrics for the integration tests: nets, programs, and what the standard tools say.

pub mod daemon;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use throughline_infiniband::topology::FatTree;
use throughline_simfabric::ibsim::{SimFabric, SimOptions, SimTools};

/// The crawler under test.
pub const CRAWLER: &str = env!("CARGO_BIN_EXE_throughline-fabric");

/// Longest time of a command: one that stands still fails its test, and does not stop the whole run.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running simulator in a folder that goes with it.
pub struct Simulated {
    pub fabric: SimFabric,
    _folder: tempfile::TempDir,
}

pub fn start(net: &str) -> Simulated {
    start_with(net, SimOptions { manager_sweep_seconds: 0, ..SimOptions::default() })
}

/// Without a subnet manager: links are up, nothing has a LID.
pub fn start_unmanaged(net: &str) -> Simulated {
    start_with(net, SimOptions { subnet_manager: false, ..SimOptions::default() })
}

pub fn start_with(net: &str, options: SimOptions) -> Simulated {
    let prefix = throughline_prefix::ensure(throughline_prefix::Set::Fabric).unwrap();
    let tools = SimTools::at(prefix.root()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let fabric = SimFabric::start(&tools, folder.path(), net, &options).unwrap();
    Simulated { fabric, _folder: folder }
}

impl Simulated {
    /// Runs the crawler and returns its output; it must end with status 0.
    pub fn crawl(&self, arguments: &[&str]) -> String {
        succeed(self.fabric.client(CRAWLER, None).unwrap().args(arguments))
    }

    /// Runs one of infiniband-diags.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> String {
        succeed(self.fabric.tool(name, None).unwrap().args(arguments))
    }
}

pub fn succeed(command: &mut Command) -> String {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(child.id().cast_signed());
    let (ended, is_ended) = channel::<()>();
    let watch = std::thread::spawn(move || {
        if is_ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            kill(pid, Signal::SIGKILL).unwrap();
        }
    });
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    drop(ended);
    watch.join().unwrap();
    assert!(status.success(), "{command:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// What is compared of a port: remote node GUID, remote port, width and speed as `4xEDR`.
pub type Cable = (u64, u8, String);

#[derive(Debug, PartialEq, Eq)]
pub struct SeenNode {
    pub kind: String,
    pub description: String,
    pub lid: u64,
    pub cables: BTreeMap<u8, Cable>,
}

pub type Seen = BTreeMap<u64, SeenNode>;

/// Reads the output of `ibnetdiscover`.
pub fn read_ibnetdiscover(text: &str) -> Seen {
    let mut nodes = Seen::new();
    let mut current = None;
    for line in text.lines() {
        let quoted = |index: usize| line.split('"').nth(index).unwrap().to_owned();
        let guid_of = |id: &str| u64::from_str_radix(&id[2..], 16).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.first() {
            Some(kind @ (&"Switch" | &"Ca" | &"Rt")) => {
                let guid = guid_of(&quoted(1));
                let kind = match *kind {
                    "Switch" => "switch",
                    "Ca" => "ca",
                    _ => "router",
                };
                // A switch has its LID in its own line, an adapter in the lines of its ports.
                let lid = after(&words, "lid").unwrap_or(0);
                let node =
                    SeenNode { kind: kind.to_owned(), description: quoted(3), lid, cables: BTreeMap::new() };
                assert!(nodes.insert(guid, node).is_none());
                current = Some(guid);
            }
            Some(word) if word.starts_with('[') => {
                let number = |text: &str| -> u8 {
                    let (_, rest) = text.split_once('[').unwrap();
                    rest.split_once(']').unwrap().0.parse().unwrap()
                };
                let remote = line.split('"').nth(2).unwrap();
                let cable = (guid_of(&quoted(1)), number(remote), (*words.last().unwrap()).to_owned());
                let node = nodes.get_mut(&current.unwrap()).unwrap();
                if node.lid == 0 {
                    node.lid = after(&words, "lid").unwrap_or(0);
                }
                node.cables.insert(number(word), cable);
            }
            _ => {}
        }
    }
    nodes
}

fn after(words: &[&str], name: &str) -> Option<u64> {
    let at = words.iter().position(|word| *word == name)?;
    words.get(at + 1)?.parse().ok()
}

/// Reads the output of `throughline-fabric discover --json`.
pub fn read_discover(text: &str) -> Seen {
    let document: serde_json::Value = serde_json::from_str(text).unwrap();
    let guid = |value: &serde_json::Value| {
        let text = value.as_str().unwrap();
        assert_eq!(text.len(), 18);
        u64::from_str_radix(&text[2..], 16).unwrap()
    };
    let mut nodes = Seen::new();
    for node in document["nodes"].as_array().unwrap() {
        let mut cables = BTreeMap::new();
        for port in node["ports"].as_array().unwrap() {
            if port["remote"].is_null() {
                continue;
            }
            let link = format!("{}{}", port["width"].as_str().unwrap(), port["speed"].as_str().unwrap());
            let remote = (guid(&port["remote"]["guid"]), port["remote"]["num"].as_u64().unwrap() as u8, link);
            assert!(port["rate_bytes_per_second"].as_u64().unwrap() >= 250_000_000);
            assert_eq!(port["state"], "Active");
            cables.insert(port["num"].as_u64().unwrap() as u8, remote);
        }
        let seen = SeenNode {
            kind: node["type"].as_str().unwrap().to_owned(),
            description: node["description"].as_str().unwrap().to_owned(),
            lid: node["lid"].as_u64().unwrap(),
            cables,
        };
        assert!(nodes.insert(guid(&node["guid"]), seen).is_none());
    }
    nodes
}

/// A small fat tree: 24 hosts, 4 leaves, 2 spines with double cables.
pub const SMALL: FatTree = FatTree { hosts: 24, leafs: 4, spines: 2, uplinks: 4, ..FatTree::HOSTS_146 };

/// A net written by hand: `(kind, ports, guid, description, cables)`, a cable being
/// `(port, remote node, remote port, width and speed)`; the node at position i is named by i.
pub type HandNode = (&'static str, u8, u64, &'static str, &'static [(u8, usize, u8, &'static str)]);

pub fn write_net(nodes: &[HandNode]) -> String {
    let id = |index: usize| {
        let (kind, _, guid, ..) = nodes[index];
        let letter = match kind {
            "Switch" => 'S',
            "Ca" => 'H',
            _ => 'R',
        };
        format!("{letter}-{guid:016x}")
    };
    let mut net = String::new();
    for (index, (kind, ports, guid, description, cables)) in nodes.iter().enumerate() {
        let key = match *kind {
            "Switch" => "switchguid",
            "Ca" => "caguid",
            _ => "rtguid",
        };
        net += &format!("vendid=0x2c9\ndevid=0x1017\nsysimgguid={guid:#x}\n{key}={guid:#x}\n");
        net += &format!("{kind}\t{ports} \"{}\"\t\t# \"{description}\"\n", id(index));
        for (port, remote, remote_port, link) in *cables {
            let far = nodes[*remote].3;
            net += &if *kind == "Switch" {
                format!("[{port}]\t\"{}\"[{remote_port}]\t\t# \"{far}\" lid 0 {link}\n", id(*remote))
            } else {
                let own = guid + u64::from(*port);
                format!(
                    "[{port}]({own:x})\t\"{}\"[{remote_port}]\t\t# lid 0 lmc 0 \"{far}\" lid 0 {link}\n",
                    id(*remote)
                )
            };
        }
        net.push('\n');
    }
    net
}

/// Hosts with two ports, with two adapters, with only the second port cabled; a router; double cables, several
/// widths and speeds; a switch without hosts.
pub const ODD: &[HandNode] = &[
    (
        "Switch",
        12,
        0x1000,
        "core A",
        &[
            (1, 3, 1, "4xQDR"),
            (2, 4, 1, "4xFDR"),
            (3, 1, 3, "4xEDR"),
            (4, 1, 4, "12xQDR"),
            (5, 2, 1, "1xSDR"),
            (6, 7, 1, "4xHDR"),
            (12, 5, 1, "4xDDR"),
        ],
    ),
    (
        "Switch",
        12,
        0x1010,
        "core B",
        &[
            (1, 3, 2, "4xQDR"),
            (3, 0, 3, "4xEDR"),
            (4, 0, 4, "12xQDR"),
            (7, 6, 2, "4xEDR"),
            (11, 4, 2, "4xFDR"),
        ],
    ),
    ("Switch", 3, 0x1020, "leftover", &[(1, 0, 5, "1xSDR")]),
    ("Ca", 2, 0x2000, "alpha mlx5_0", &[(1, 0, 1, "4xQDR"), (2, 1, 1, "4xQDR")]),
    ("Ca", 2, 0x2010, "beta HCA-1", &[(1, 0, 2, "4xFDR"), (2, 1, 11, "4xFDR")]),
    ("Ca", 1, 0x2020, "beta HCA-2", &[(1, 0, 12, "4xDDR")]),
    ("Ca", 2, 0x2030, "gamma, second port only", &[(2, 1, 7, "4xEDR")]),
    ("Ca", 1, 0x2040, "delta", &[(1, 0, 6, "4xHDR")]),
];

/// A ring of six switches with chords, hosts here and there, and a cable from a switch to itself.
pub const MESH: &[HandNode] = &[
    (
        "Switch",
        8,
        0x3000,
        "ring0",
        &[(1, 1, 2, "4xEDR"), (2, 5, 1, "4xEDR"), (3, 3, 3, "4xEDR"), (8, 6, 1, "4xEDR")],
    ),
    (
        "Switch",
        8,
        0x3010,
        "ring1",
        &[(6, 1, 7, "4xEDR"), (7, 1, 6, "4xEDR"), (1, 2, 2, "4xEDR"), (2, 0, 1, "4xEDR"), (3, 4, 3, "4xQDR")],
    ),
    (
        "Switch",
        8,
        0x3020,
        "ring2",
        &[(1, 3, 2, "4xEDR"), (2, 1, 1, "4xEDR"), (7, 7, 1, "4xEDR"), (8, 8, 1, "4xEDR")],
    ),
    ("Switch", 8, 0x3030, "ring3", &[(1, 4, 2, "4xEDR"), (2, 2, 1, "4xEDR"), (3, 0, 3, "4xEDR")]),
    (
        "Switch",
        8,
        0x3040,
        "ring4",
        &[(1, 5, 2, "4xEDR"), (2, 3, 1, "4xEDR"), (3, 1, 3, "4xQDR"), (4, 9, 1, "4xEDR")],
    ),
    ("Switch", 8, 0x3050, "ring5", &[(1, 0, 2, "4xEDR"), (2, 4, 1, "4xEDR"), (5, 10, 1, "4xSDR")]),
    ("Ca", 1, 0x4000, "host0", &[(1, 0, 8, "4xEDR")]),
    ("Ca", 1, 0x4010, "host1", &[(1, 2, 7, "4xEDR")]),
    ("Ca", 1, 0x4020, "host2", &[(1, 2, 8, "4xEDR")]),
    ("Ca", 1, 0x4030, "host3", &[(1, 4, 4, "4xEDR")]),
    ("Ca", 1, 0x4040, "host4", &[(1, 5, 5, "4xSDR")]),
];
