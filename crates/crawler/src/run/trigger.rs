//! Why the subnet is looked at before its time, and what many such reasons together request.
//!
//! Who has a reason calls [`SharedState::want_discovery`](super::shared::SharedState::want_discovery) and goes on at once;
//! the thread of discovery takes all that came since its last check. Nothing here speaks to the fabric.

use std::collections::BTreeSet;
use throughline_sample::Guid;

/// Nodes looked at more closely at once; a subnet with more suspects is looked at as a whole.
const SUSPECTS_MAX: usize = 256;

/// Why the subnet is to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A sweep could not read these nodes and could before.
    SweepFailure(Vec<Guid>),
    /// A trap, reported by the subnet manager: its number, and the LID that it names (0 for none).
    Trap {
        /// Trap number (IBTA volume 1, 13.4.9 and 14.2.5.1).
        number: u16,
        /// The LID that it is about; 0 for none.
        lid: u16,
    },
    /// The local port changed: what, in words.
    LocalPort(&'static str),
    /// Another subnet manager is master, or it began anew: LIDs and forwarding tables may be others.
    SmChange,
    /// A walk that is not believed before it is repeated, or a counter that says that a link was down.
    Doubt,
    /// Somebody requested it, or this crawler takes over from another one.
    Request,
}

impl Trigger {
    /// The name in metrics and log lines.
    pub const fn name(&self) -> &'static str {
        match self {
            Trigger::SweepFailure(_) => "sweep_failure",
            Trigger::Trap { .. } => "trap",
            Trigger::LocalPort(_) => "local_port",
            Trigger::SmChange => "sm_change",
            Trigger::Doubt => "doubt",
            Trigger::Request => "request",
        }
    }
}

/// What all reasons since the last check request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryRequest {
    /// Names of the reasons.
    pub reasons: BTreeSet<&'static str>,
    /// Nodes to be queried whatever is known of them.
    pub nodes: BTreeSet<Guid>,
    /// LIDs to be queried likewise.
    pub lids: BTreeSet<u16>,
    /// Whether a whole walk is requested, and not only a look at what can have changed.
    pub whole: bool,
    /// Whether forwarding tables may have changed.
    pub tables: bool,
}

impl DiscoveryRequest {
    /// Whether nothing is requested.
    pub fn is_nothing(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Adds a reason.
    pub fn add(&mut self, trigger: &Trigger) {
        self.reasons.insert(trigger.name());
        match trigger {
            Trigger::SweepFailure(nodes) => self.nodes.extend(nodes),
            Trigger::Trap { lid, .. } => {
                self.tables = true;
                self.lids.extend((*lid != 0).then_some(*lid));
            }
            Trigger::LocalPort(_) => self.tables = true,
            Trigger::SmChange | Trigger::Request => {
                self.tables = true;
                self.whole = true;
            }
            Trigger::Doubt => {}
        }
        if self.nodes.len() + self.lids.len() > SUSPECTS_MAX {
            self.whole = true;
            self.nodes.clear();
            self.lids.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_add_up() {
        let mut wanted = DiscoveryRequest::default();
        assert!(wanted.is_nothing());
        wanted.add(&Trigger::SweepFailure(vec![Guid(3), Guid(4)]));
        wanted.add(&Trigger::SweepFailure(vec![Guid(4)]));
        assert_eq!(wanted.nodes.len(), 2);
        assert!(!wanted.whole && !wanted.tables && !wanted.is_nothing());
        wanted.add(&Trigger::Trap { number: 128, lid: 7 });
        assert!(wanted.tables && !wanted.whole);
        assert_eq!(wanted.lids.first(), Some(&7));
        wanted.add(&Trigger::SmChange);
        assert!(wanted.whole);
        assert_eq!(wanted.reasons.len(), 3);
    }

    #[test]
    fn many_suspects_are_a_whole_walk() {
        let mut wanted = DiscoveryRequest::default();
        wanted.add(&Trigger::SweepFailure((0..1000).map(Guid).collect()));
        assert!(wanted.whole && wanted.nodes.is_empty());
    }
}
