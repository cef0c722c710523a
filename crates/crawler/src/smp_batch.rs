//! Many SMPs to known nodes at once: what is read of a subnet after its nodes and ports are known.
//!
//! Queries only; what an answer means is the caller's.

use crate::engine::{Ended, Engine, EngineError, NodeId, Outcome, Queue, Request, Route, Work};
use std::sync::atomic::AtomicBool;
use throughline_infiniband::mad::{self, Query};
use throughline_infiniband::topology::{NodeIndex, Topology};

/// One SMP Get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmpGet {
    /// The node, in the topology.
    pub node: NodeIndex,
    /// Attribute number.
    pub attribute: u16,
    /// Attribute modifier.
    pub modifier: u32,
    /// Whether the node may well be silent about it: one attempt, and no long wait.
    pub is_trial: bool,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmpError {
    /// The node answered that it does not have this; its status.
    Refused(u16),
    /// Nothing came; the reason's name.
    Lost(&'static str),
}

impl SmpError {
    /// The name of the reason, as in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SmpError::Refused(_) => "refused",
            SmpError::Lost(reason) => reason,
        }
    }
}

/// Gets the position of a request and its answer: the attribute's data.
pub type OnReply<'a> = dyn FnMut(usize, Result<&[u8], SmpError>) + 'a;

/// Queries all, in turn over the nodes. `done` gets each answer as it comes.
///
/// # Errors
/// [`EngineError`].
pub fn get_all(
    engine: &mut Engine,
    topology: &Topology,
    gets: &[SmpGet],
    stop: &AtomicBool,
    done: &mut OnReply<'_>,
) -> Result<(), EngineError> {
    let queue = engine.queue();
    let mut known: Vec<Option<NodeId>> = vec![None; topology.nodes.len()];
    for (tag, get) in gets.iter().enumerate() {
        let route = || Route::Directed(topology.nodes[get.node].path);
        let node = *known[get.node].get_or_insert_with(|| queue.add_node(route()));
        let query = Query { attribute: get.attribute, modifier: get.modifier, port_select: 0 };
        let tag = tag as u64;
        queue.push(node, if get.is_trial { Request::trial(query, tag) } else { Request::new(query, tag) });
    }
    engine.run(&mut Answers(done), stop)
}

struct Answers<'a, 'b>(&'a mut OnReply<'b>);

impl Work for Answers<'_, '_> {
    fn done(&mut self, _queue: &mut Queue, _node: NodeId, tag: u64, outcome: Outcome<'_>, _ended: Ended) {
        let answer = match outcome {
            Outcome::Reply(mad) => Ok(mad::smp_data(mad)),
            Outcome::Refused(status) => Err(SmpError::Refused(status)),
            Outcome::Timeout => Err(SmpError::Lost("timeout")),
            Outcome::Silent => Err(SmpError::Lost("silent")),
            Outcome::NotSent => Err(SmpError::Lost("not_sent")),
        };
        (self.0)(tag as usize, answer);
    }
}
