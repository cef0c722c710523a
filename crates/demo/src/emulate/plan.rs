//! What becomes of a discovered fabric in the kernel: a network namespace for each node, a pair of virtual Ethernet devices
//! for each cable, and the entries of forwarding tables as host routes. Pure: text for `ip` and `tc`, nothing is run.
//!
//! Every end port of an adapter has the address 10.64.0.0 + LID. A cable's two devices have one hardware address and do not
//! resolve addresses (ARP is off), so that nothing but what programs send crosses a cable. Beside the fabric there is a star
//! of cables without a limit, through which programs are started: 10.65.0.0/16.

use std::fmt::Write;
use std::net::Ipv4Addr;
use throughline_infiniband::mad::NodeKind;
use throughline_infiniband::topology::{PortEnd, Topology};
use throughline_sample::Guid;

/// Addresses of the fabric, as a network; Open MPI's `btl_tcp_if_include` takes it.
pub const FABRIC_NETWORK: &str = "10.64.0.0/16";
/// Addresses of the star by which programs are started; for `oob_tcp_if_include`.
pub const MANAGEMENT_NETWORK: &str = "10.65.0.0/16";
/// The middle of the star.
pub const MANAGEMENT_CENTRE: Ipv4Addr = Ipv4Addr::new(10, 65, 255, 254);

/// Payload of a full packet on InfiniBand, and of a full TCP segment here.
pub const PACKET_BYTES: u64 = 4096;
/// Headers of a TCP segment with time stamps in an IPv4 packet.
pub const IP_HEADER_BYTES: u64 = 52;
/// The same with the Ethernet header, which the kernel's counters of a device include.
pub const FRAME_HEADER_BYTES: u64 = IP_HEADER_BYTES + 14;
/// A device takes packets so long: a full segment then has as much payload as a full packet on InfiniBand.
const MTU_BYTES: u64 = PACKET_BYTES + IP_HEADER_BYTES;
/// What may be sent at once at full speed: some packets, a fraction of a second's data.
const BURST_BYTES: u64 = 8 * (MTU_BYTES + 14);
/// Longest queue of a port. Nothing is lost: [`WINDOW_BYTES`] of each connection is the most that waits, as credits have it
/// on InfiniBand.
const QUEUE_BYTES: u64 = 8 << 20;
/// Most bytes of a TCP connection that are sent and not acknowledged.
const WINDOW_BYTES: u64 = 256 << 10;
/// Largest fabric: addresses of the star, and processes.
const NODES_MAX: usize = 200;

/// A fabric that can't be emulated.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlanError {
    /// Too many nodes.
    #[error("{0} nodes: an emulated fabric has at most {NODES_MAX}")]
    TooLarge(usize),
    /// A host has no LID: there is no subnet manager.
    #[error("{0} has no LID: has the subnet manager configured the fabric?")]
    NoLid(String),
    /// A switch has no entry for a host.
    #[error("{switch} has no entry for LID {lid} in its forwarding table")]
    NoEntry {
        /// The switch.
        switch: String,
        /// The host's LID.
        lid: u16,
    },
}

/// A node and what its namespace needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedNode {
    /// Node GUID.
    pub guid: Guid,
    /// NodeDescription up to the first blank: the host's or the switch's name.
    pub name: String,
    /// Whether it is a host.
    pub is_host: bool,
    /// LID of the host's port, or of the switch.
    pub lid: u16,
    /// Its cabled ports.
    pub ports: Vec<u8>,
    /// Of a switch: LIDs of hosts with the port by which they are reached.
    pub routes: Vec<(u16, u8)>,
}

/// A cable: positions in [`Plan::nodes`], and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// One end.
    pub a: PortEnd,
    /// The other one.
    pub b: PortEnd,
}

/// What is to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Hosts and switches.
    pub nodes: Vec<PlannedNode>,
    /// Cables between them.
    pub cables: Vec<Cable>,
    /// Speed of each direction of a cable, bits per second.
    pub bits_per_second: u64,
}

impl Plan {
    /// The plan for a fabric with forwarding tables.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn of(topology: &Topology, bits_per_second: u64) -> Result<Plan, PlanError> {
        if topology.nodes.len() > NODES_MAX {
            return Err(PlanError::TooLarge(topology.nodes.len()));
        }
        let cables: Vec<Cable> = topology.cables().map(|(a, b)| Cable { a, b }).collect();
        let mut nodes = Vec::new();
        for (index, node) in topology.nodes.iter().enumerate() {
            let name = node.description.split(' ').next().unwrap_or_default().to_owned();
            let ends = cables.iter().flat_map(|cable| [cable.a, cable.b]);
            let ports = ends.filter(|end| end.node == index).map(|end| end.port).collect();
            let is_host = node.kind != NodeKind::Switch;
            if is_host && node.lid() == 0 {
                return Err(PlanError::NoLid(name));
            }
            nodes.push(PlannedNode {
                guid: node.guid,
                name,
                is_host,
                lid: node.lid(),
                ports,
                routes: Vec::new(),
            });
        }
        let lids: Vec<u16> = nodes.iter().filter(|node| node.is_host).map(|node| node.lid).collect();
        for (planned, node) in nodes.iter_mut().zip(&topology.nodes).filter(|(planned, _)| !planned.is_host) {
            for lid in &lids {
                let port = node.output_port(*lid);
                let missing = || PlanError::NoEntry { switch: planned.name.clone(), lid: *lid };
                planned.routes.push((*lid, port.ok_or_else(missing)?));
            }
        }
        Ok(Plan { nodes, cables, bits_per_second })
    }

    /// Positions of the hosts, by name.
    #[must_use]
    pub fn hosts(&self) -> Vec<usize> {
        let mut hosts: Vec<usize> =
            (0..self.nodes.len()).filter(|index| self.nodes[*index].is_host).collect();
        hosts.sort_by(|a, b| self.nodes[*a].name.cmp(&self.nodes[*b].name));
        hosts
    }

    /// The end at the other side of a cable.
    #[must_use]
    pub fn across(&self, end: PortEnd) -> Option<PortEnd> {
        self.cables.iter().find_map(|cable| match cable {
            Cable { a, b } if *a == end => Some(*b),
            Cable { a, b } if *b == end => Some(*a),
            _ => None,
        })
    }

    /// Speed of a direction of a cable, bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        self.bits_per_second / 8
    }

    /// Lines for `ip -batch` that make all cables. `pids` are of processes in the nodes' namespaces, and `centre` of one in
    /// that of the star's middle.
    #[must_use]
    pub fn cable_commands(&self, pids: &[u32], centre: u32) -> String {
        let mut text = String::new();
        let mut pair = |number: usize, (here, in_here): (String, u32), (there, in_there): (String, u32)| {
            let address = hardware_address(number);
            // Writing to a String can't fail.
            let _ = writeln!(
                text,
                "link add name {here} address {address} mtu {MTU_BYTES} netns {in_here} type veth \
                 peer name {there} address {address} mtu {MTU_BYTES} netns {in_there}"
            );
        };
        for (number, Cable { a, b }) in self.cables.iter().enumerate() {
            pair(number, (device(a.port), pids[a.node]), (device(b.port), pids[b.node]));
        }
        for (place, host) in self.hosts().into_iter().enumerate() {
            let here = (spoke(place), centre);
            pair(self.cables.len() + place, here, (MANAGEMENT_DEVICE.to_owned(), pids[host]));
        }
        text
    }

    /// Lines for `ip -batch` in a node's namespace, once the cables are there.
    #[must_use]
    pub fn node_commands(&self, index: usize) -> String {
        let node = &self.nodes[index];
        let mut text = String::from("link set lo up\n");
        for port in &node.ports {
            text.push_str(&device_up(&device(*port)));
        }
        if node.is_host {
            for port in node.ports.iter().take(1) {
                let _ = writeln!(text, "addr add {}/16 dev {}", fabric_address(node.lid), device(*port));
            }
            let place = self.hosts().iter().position(|host| *host == index).unwrap_or_default();
            text.push_str(&device_up(MANAGEMENT_DEVICE));
            let _ = writeln!(text, "addr add {}/16 dev {MANAGEMENT_DEVICE}", management_address(place));
        }
        for (lid, port) in &node.routes {
            let _ = writeln!(text, "route add {}/32 dev {}", fabric_address(*lid), device(*port));
        }
        text
    }

    /// Lines for `tc -batch` in a node's namespace: the limits of its ports.
    #[must_use]
    pub fn limit_commands(&self, index: usize) -> String {
        let limit = |port: &u8| {
            format!(
                "qdisc add dev {} root tbf rate {}bit burst {BURST_BYTES} limit {QUEUE_BYTES}\n",
                device(*port),
                self.bits_per_second
            )
        };
        self.nodes[index].ports.iter().map(limit).collect()
    }

    /// Lines for `ip -batch` in the namespace of the star's middle.
    #[must_use]
    pub fn centre_commands(&self) -> String {
        let mut text = String::from("link set lo up\n");
        for place in 0..self.hosts().len() {
            text.push_str(&device_up(&spoke(place)));
            if place == 0 {
                let _ = writeln!(text, "addr add {MANAGEMENT_CENTRE}/32 dev {}", spoke(place));
            }
            let _ = writeln!(text, "route add {}/32 dev {}", management_address(place), spoke(place));
        }
        text
    }
}

/// Name of the star's device in a host's namespace.
const MANAGEMENT_DEVICE: &str = "management";

/// Settings below `/proc/sys/net` of each namespace, made before it has devices.
#[must_use]
pub fn settings() -> Vec<(&'static str, String)> {
    let window = format!("4096 {} {WINDOW_BYTES}", WINDOW_BYTES / 2);
    let fixed = |(name, value): (&'static str, &str)| (name, value.to_owned());
    let mut all: Vec<_> = [
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        ("ipv4/ip_forward", "1"),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv4/conf/all/send_redirects", "0"),
        ("ipv4/conf/default/send_redirects", "0"),
        // A connection that waited a while sends on as before, as one on InfiniBand does.
        ("ipv4/tcp_slow_start_after_idle", "0"),
    ]
    .map(fixed)
    .into();
    all.extend([("ipv4/tcp_rmem", window.clone()), ("ipv4/tcp_wmem", window)]);
    all
}

/// Address of the end port with this LID.
#[must_use]
pub fn fabric_address(lid: u16) -> Ipv4Addr {
    let [high, low] = lid.to_be_bytes();
    Ipv4Addr::new(10, 64, high, low)
}

/// Address of the host in this place of [`Plan::hosts`] in the star.
#[must_use]
pub fn management_address(place: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 65, 0, u8::try_from(place + 1).unwrap_or(u8::MAX))
}

/// Name of the device that stands for a port.
#[must_use]
pub fn device(port: u8) -> String {
    format!("p{port}")
}

/// The port that a device stands for.
#[must_use]
pub fn port_of(device: &str) -> Option<u8> {
    device.strip_prefix('p')?.parse().ok()
}

fn spoke(place: usize) -> String {
    format!("m{place}")
}

/// A packet is one frame, never a series that the kernel cuts later: its counters count each.
fn device_up(name: &str) -> String {
    format!("link set dev {name} arp off gso_max_segs 1 up\n")
}

/// A locally administered address, the same at both ends.
fn hardware_address(number: usize) -> String {
    let [.., high, low] = (number as u64 + 1).to_be_bytes();
    format!("02:00:00:00:{high:02x}:{low:02x}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use throughline_infiniband::offline;

    /// Two hosts at a switch each, as saved by `throughline-fabric save`.
    pub fn two_switches() -> Topology {
        let folder = tempfile::tempdir().unwrap();
        let net = include_str!("../../tests/data/two-switches.net");
        let tables = include_str!("../../tests/data/two-switches.fts");
        std::fs::write(folder.path().join("ibnetdiscover"), net).unwrap();
        std::fs::write(folder.path().join("dump_fts"), tables).unwrap();
        offline::read(folder.path()).unwrap().topology
    }

    fn plan() -> Plan {
        Plan::of(&two_switches(), 20_000_000).unwrap()
    }

    #[test]
    fn tables_become_host_routes() {
        let plan = plan();
        let names: Vec<&str> = plan.hosts().iter().map(|host| plan.nodes[*host].name.as_str()).collect();
        assert_eq!(names, ["node0001", "node0002"]);
        for node in plan.nodes.iter().filter(|node| !node.is_host) {
            let position = plan.nodes.iter().position(|other| other.guid == node.guid).unwrap();
            let commands = plan.node_commands(position);
            for (lid, port) in &node.routes {
                let line = format!("route add {}/32 dev p{port}\n", fabric_address(*lid));
                assert!(commands.contains(&line), "{commands}");
            }
            assert_eq!(node.routes.len(), 2);
            let ports: Vec<u8> = node.routes.iter().map(|(_, port)| *port).collect();
            assert!(ports[0] != ports[1], "one host is here and one behind the other switch: {ports:?}");
        }
    }

    #[test]
    fn each_cable_is_a_pair_with_one_hardware_address_and_a_limit_at_both_ends() {
        let plan = plan();
        let pids: Vec<u32> = (100..).take(plan.nodes.len()).collect();
        let commands = plan.cable_commands(&pids, 99);
        assert_eq!(commands.lines().count(), plan.cables.len() + 2, "and one to each host:\n{commands}");
        for line in commands.lines() {
            let addresses: Vec<&str> = line.split("address ").skip(1).map(|rest| &rest[..17]).collect();
            assert!(addresses.len() == 2 && addresses[0] == addresses[1], "{line}");
        }
        let limits: String = (0..plan.nodes.len()).map(|index| plan.limit_commands(index)).collect();
        assert_eq!(limits.lines().count(), 2 * plan.cables.len());
        assert!(limits.contains("rate 20000000bit"), "{limits}");
        for cable in &plan.cables {
            assert_eq!(plan.across(cable.a), Some(cable.b));
            assert_eq!(plan.across(cable.b), Some(cable.a));
        }
    }

    #[test]
    fn hosts_have_an_address_by_lid_and_one_in_the_star() {
        let plan = plan();
        for (place, host) in plan.hosts().into_iter().enumerate() {
            let commands = plan.node_commands(host);
            let lid = plan.nodes[host].lid;
            assert!(
                commands.contains(&format!("addr add {}/16 dev p1\n", fabric_address(lid))),
                "{commands}"
            );
            assert!(
                commands.contains(&format!("addr add {}/16 dev management\n", management_address(place)))
            );
        }
        assert_eq!(fabric_address(0x0102), Ipv4Addr::new(10, 64, 1, 2));
        assert_eq!(plan.centre_commands().matches("route add").count(), 2);
        assert_eq!((port_of("p17"), port_of("lo"), port_of("m3")), (Some(17), None, None));
    }

    #[test]
    fn a_fabric_without_a_manager_is_refused() {
        let mut topology = two_switches();
        let switch = topology.nodes.iter_mut().find(|node| node.kind == NodeKind::Switch).unwrap();
        switch.forwarding.clear();
        assert!(matches!(Plan::of(&topology, 1), Err(PlanError::NoEntry { .. })));
        for port in topology.nodes.iter_mut().flat_map(|node| &mut node.ports) {
            if let Some(info) = &mut port.info {
                info.lid = 0;
            }
        }
        assert!(matches!(Plan::of(&topology, 1), Err(PlanError::NoLid(_))));
    }
}
