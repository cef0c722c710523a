//! Events of the fabric: their vocabulary, in one place, and what makes those of the topology.
//!
//! [`ALL`] is every kind there is, with severity and meaning; docs/FABRIC.md is held against it by a test.
//! [`Watch`] compares one topology with the next and keeps what must be retained between them. An event names
//! its subject at both ends, what was before and what is after. Nothing here queries the fabric or knows how
//! events travel.

mod cables;
mod cleared;
mod flap;
mod interruptions;
mod links;
mod unanswered;
mod watch;

pub use cleared::cleared;
pub use interruptions::Interruptions;
pub use unanswered::unanswered;
pub use watch::{EVENTS_MAX, Watch, WatchSettings};

use throughline_infiniband::topology::Topology;
use throughline_sample::Guid;
use throughline_sample::wire;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know, or an improvement.
    Info,
    /// Something is worse than before.
    Warning,
    /// The fabric cannot be used or seen.
    Error,
}

impl Severity {
    /// The name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A kind of event.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name in records and metrics.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What it means, one sentence.
    pub meaning: &'static str,
}

/// Declares kinds, and the list of all.
macro_rules! kinds {
    ($($constant:ident $id:literal $severity:ident $meaning:literal;)+) => {
        $(
            #[doc = $meaning]
            pub static $constant: Kind =
                Kind { id: $id, severity: Severity::$severity, meaning: $meaning };
        )+
        /// Every kind of event.
        pub static ALL: &[&Kind] = &[$(&$constant),+];
    };
}

kinds! {
    LINK_UP "link.up" Info "A cable that was not there, or had no link, has one now.";
    LINK_DOWN "link.down" Warning "A link is down: the cable was pulled, a port was disabled, or the other end is off.";
    LINK_FLAP "link.flap" Warning "A link goes up and down again and again; its single changes are counted and not reported until it is steady.";
    LINK_STEADY "link.steady" Info "A link that flapped has stayed as it is for the whole window.";
    LINK_INTERRUPTED "link.interrupted" Warning "A link was down for a moment: a port's LinkDownedCounter rose, and no discovery found the link down.";
    LINK_WIDTH "link.width_degraded" Warning "A link has fewer lanes than both of its ends are set to use, or than it had: cable or connector, most often.";
    LINK_SPEED "link.speed_degraded" Warning "A link is slower than both of its ends are set to use, or than it was.";
    LINK_RESTORED "link.restored" Info "A degraded link has its width and speed again.";
    CABLE_MOVED "cable.moved" Warning "A port has another port at the other end of its cable than before.";
    NODE_NEW "node.new" Info "A node that was never seen in this subnet.";
    NODE_BACK "node.back" Info "A node that was gone is there again.";
    NODE_GONE "node.gone" Warning "A node is not there any more: every port that it hung on is down or leads elsewhere.";
    NODE_SILENT "node.silent" Warning "A node's link is up and it does not answer: its management agent hangs, or the node does.";
    NODE_ANSWERS "node.answers" Info "A silent node answers again.";
    NODE_REPLACED "node.replaced" Warning "Another node is at the place of one that is gone: exchanged hardware, other GUID.";
    NODE_RENAMED "node.renamed" Info "A node's description, or its entry in the name map, is another one.";
    NODE_LID "node.lid_changed" Info "A node has another LID.";
    PORT_STUCK "port.stuck" Warning "A link is up and its port stays in Initialize or Armed: the subnet manager does not bring it up.";
    PORT_ACTIVE "port.active" Info "A port that was stuck is Active.";
    COUNTERS_UNANSWERED "counters.unanswered" Warning "Nodes that never answered a request for their counters: they are requested at growing intervals, of up to five minutes.";
    COUNTERS_ANSWERED "counters.answered" Info "Nodes answer requests for their counters that never did before: they are read in each sweep.";
    COUNTER_CLEARED "counter.cleared" Info "Counters were set back by somebody else, or their device was reset: a new epoch begins.";
    SM_CHANGED "sm.changed" Warning "Another subnet manager is master, or the same one with another LID or priority, or it began anew.";
    SM_GONE "sm.gone" Error "The master subnet manager does not answer: nobody gives LIDs and routes to what comes, or leads around what breaks.";
    FABRIC_CUT_OFF "fabric.cut_off" Error "The crawler's own port has no link: nothing is known of the fabric until it has.";
    FABRIC_SEEN "fabric.seen" Info "The crawler's own port has its link again.";
    DISCOVERY_TRUNCATED "discovery.truncated" Error "A discovery reached one of its bounds and ended there: a fabric larger than configured, or one that lies. What was not reached stays as it was.";
    TOPOLOGY_RETAINED "topology.retained" Warning "A discovery failed, was truncated or lost most of the fabric at once: the topology before stays in use until a second one shows the same.";
    REPLY_REJECTED "reply.rejected" Warning "Replies can't be true, or contradict others: two places claim one GUID or LID, or contents are outside the specification. They are not believed.";
    DEVICE_LOST "device.lost" Error "The crawler's device does not work any more: driver, adapter or simulator is gone. It is opened again until that succeeds.";
    DEVICE_BACK "device.back" Info "The crawler's device works again.";
    TOPOLOGY_CHANGED "topology.changed" Warning "More happened at once than is reported one by one; the inventory has all of it.";
    TRAP_IN_SERVICE "trap.64" Info "A port came into service.";
    TRAP_OUT_OF_SERVICE "trap.65" Warning "A port went out of service.";
    TRAP_GROUP_CREATED "trap.66" Info "A multicast group was created.";
    TRAP_GROUP_DELETED "trap.67" Info "A multicast group was deleted.";
    TRAP_LINK_STATE "trap.128" Info "The state of a link changed.";
    TRAP_LINK_INTEGRITY "trap.129" Warning "Local link integrity errors reached their threshold.";
    TRAP_BUFFER_OVERRUN "trap.130" Warning "Buffer overruns reached their threshold.";
    TRAP_FLOW_CONTROL "trap.131" Warning "No flow control update came in time.";
    TRAP_CAPABILITY "trap.144" Info "Capabilities or description of a port changed.";
    TRAP_SYSTEM_GUID "trap.145" Info "A system image GUID changed.";
    TRAP_BAD_M_KEY "trap.256" Warning "A request had a wrong M_Key.";
    TRAP_BAD_P_KEY "trap.257" Warning "A packet had a wrong P_Key.";
    TRAP_BAD_Q_KEY "trap.258" Warning "A packet had a wrong Q_Key.";
    TRAP_BAD_SWITCH_P_KEY "trap.259" Warning "A switch saw a packet with a wrong P_Key.";
    TRAP_OTHER "trap.other" Info "A trap without a known meaning, or of a vendor's own; its text has the number.";
}

/// The kind with a name.
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Kind> {
    ALL.iter().find(|kind| kind.id == id).copied()
}

/// The kind of a generic trap with this number (IBTA volume 1, 14.2.5.1); [`TRAP_OTHER`] for all without a known
/// meaning, so that the kinds stay few whatever the subnet reports.
#[must_use]
pub fn of_trap(number: u16) -> &'static Kind {
    by_id(&format!("trap.{number}")).unwrap_or(&TRAP_OTHER)
}

/// One end of a cable by name: node GUID and port.
pub type NamedEnd = (Guid, u8);

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricEvent {
    /// What.
    pub kind: &'static Kind,
    /// Where; port 0 where it is about a node, GUID 0 where it is about the subnet.
    pub end: NamedEnd,
    /// The other end, where there is one.
    pub remote: Option<NamedEnd>,
    /// What was before; empty where there was nothing.
    pub before: String,
    /// What is after; empty where there is nothing.
    pub after: String,
    /// In words, with the names of both ends.
    pub text: String,
}

impl FabricEvent {
    /// As a record.
    #[must_use]
    pub fn record(&self, time: i64, source: &str) -> wire::Event {
        wire::Event {
            time,
            source: source.to_owned(),
            kind: self.kind.id.to_owned(),
            severity: self.kind.severity.name().to_owned(),
            text: self.text.clone(),
            ib_guid: self.end.0.0,
            ib_port: u32::from(self.end.1),
            remote_ib_guid: self.remote.map_or(0, |end| end.0.0),
            remote_ib_port: self.remote.map_or(0, |end| u32::from(end.1)),
            before: self.before.clone(),
            after: self.after.clone(),
            ..wire::Event::default()
        }
    }
}

/// A node in words: its GUID and its name in the first topology that has it.
fn node_text(guid: Guid, topologies: [&Topology; 2]) -> String {
    let name = topologies.iter().find_map(|topology| {
        topology.node_by_guid(guid).map(|index| topology.nodes[index].description.as_str())
    });
    throughline_infiniband::topology::label(name.unwrap_or_default(), guid)
}

/// An end in words.
fn end_text(end: NamedEnd, topologies: [&Topology; 2]) -> String {
    format!("{} port {}", node_text(end.0, topologies), end.1)
}
