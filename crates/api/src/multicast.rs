//! Multicast groups by their LID: their purpose, who has joined, the tree that carries them, and what ports counted on it.

use serde::{Deserialize, Serialize};

/// `GET /fabric/{subnet}/groups`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MulticastGroups {
    /// Name of the fabric.
    pub subnet: String,
    /// Version of the topology.
    pub topology: String,
    /// End of the window.
    pub at_ms: i64,
    /// Length of the window.
    pub window_seconds: f64,
    /// By LID.
    pub groups: Vec<MulticastLid>,
}

/// All groups of one multicast LID: switches forward by LID.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MulticastLid {
    /// Multicast LID.
    pub mlid: u16,
    /// Switches that forward it.
    pub switches: usize,
    /// Ports that it reaches and that are no switch's.
    pub adapters: usize,
    /// Links of its tree.
    pub links: usize,
    /// Packets sent to it; null where its links were not counted, or its tree is not whole.
    pub packets_per_second: Option<f64>,
    /// `measured` by a link that no other group has, or at most so many: `bound`.
    pub packets_kind: Option<String>,
    /// As the subnet administrator reported them; none where it did not.
    pub known: Vec<KnownGroup>,
}

/// A group as the subnet administrator reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownGroup {
    /// Multicast GID as an IPv6 address.
    pub mgid: String,
    /// What the GID is known to be for.
    pub name: Option<String>,
    /// Partition key.
    pub pkey: i32,
    /// Largest payload of a packet.
    pub mtu_bytes: Option<i32>,
    /// Rate of the signal that members must have.
    pub rate_bytes_per_second: Option<i64>,
    /// Service level.
    pub service_level: i32,
    /// How many; null where the administrator does not report them.
    pub members: Option<i32>,
    /// Whether their list is recorded.
    pub is_listed: bool,
}

/// `GET /fabric/{subnet}/groups/{mlid}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MulticastTree {
    /// Name of the fabric.
    pub subnet: String,
    /// Version of the topology that places refer to.
    pub topology: String,
    /// End of the window.
    pub at_ms: i64,
    /// Length of the window.
    pub window_seconds: f64,
    /// Multicast LID.
    pub mlid: u16,
    /// Its groups.
    pub known: Vec<KnownGroup>,
    /// Members of all of them.
    pub members: Vec<MulticastMember>,
    /// What it reaches that is no switch, as places in the columns of nodes.
    pub nodes: Vec<usize>,
    /// Into how many parts the tree falls: 1 is whole, 0 none.
    pub parts: usize,
    /// Links that carry it.
    pub links: TreeLinks,
    /// What ports counted; null for a tree of too many ports.
    pub traffic: Option<TreeTraffic>,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MulticastMember {
    /// The group's multicast GID.
    pub mgid: String,
    /// GUID of its port.
    pub port_guid: String,
    /// Place in the columns of nodes; null where no discovery found the port.
    pub node: Option<usize>,
    /// Port on the node; 0 is a switch itself.
    pub port: Option<i32>,
    /// Description of the node.
    pub name: Option<String>,
    /// The host that has it, where an agent runs.
    pub host: Option<String>,
    /// `full`, `non-member`, `send-only` or `unknown`.
    pub state: String,
    /// Whether the tree reaches it; null where it needs none: it only sends, or is alone.
    pub is_reached: Option<bool>,
}

/// Links of a tree as columns: from the root down, depth first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeLinks {
    /// Places in the columns of links.
    pub link: Vec<usize>,
    /// Upper end and lower end: `spine1[4] → leaf1[17]`.
    pub name: Vec<String>,
    /// Whether switches send it from end a.
    pub ab: Vec<bool>,
    /// Whether switches send it from end b.
    pub ba: Vec<bool>,
    /// Links above it.
    pub depth: Vec<usize>,
    /// Whether `a` is the end nearer to the root.
    pub is_a_above: Vec<bool>,
}

/// Packets that are missing, as counters prove it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MulticastLoss {
    /// At least so many.
    pub lost_packets: i64,
    /// Of at least so many that were due.
    pub packets: i64,
    /// In so many seconds.
    pub seconds: f64,
}

/// Values of both directions of each link of a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Directions<T> {
    /// From end a to end b.
    pub ab: Vec<Option<T>>,
    /// From end b to end a.
    pub ba: Vec<Option<T>>,
}

impl<T> Default for Directions<T> {
    fn default() -> Directions<T> {
        Directions { ab: Vec::new(), ba: Vec::new() }
    }
}

/// What ports counted on a tree, in the order of its links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeTraffic {
    /// Multicast packets of all groups.
    pub packets_per_second: Directions<f64>,
    /// Bytes of these at most.
    pub bound_bytes_per_second: Directions<f64>,
    /// Multicast LIDs whose packets they are.
    pub mlids: Vec<usize>,
    /// What a link's receiver counted less than its sender; null where not both were read.
    pub loss: Directions<MulticastLoss>,
    /// What switches sent less than they had to.
    pub switches: Vec<SwitchLoss>,
}

/// What a switch sent less than it had to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchLoss {
    /// Place in the columns of nodes.
    pub node: usize,
    /// Description of the node.
    pub name: String,
    /// Null where one of its ports was not read.
    pub loss: Option<MulticastLoss>,
}

/// The name of every fabric, as `GET /subnets` has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetNames {
    /// By prefix.
    pub subnets: Vec<SubnetName>,
}

/// A fabric's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetName {
    /// `0x` and 16 digits.
    pub subnet: String,
}
