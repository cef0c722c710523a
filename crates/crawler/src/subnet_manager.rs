//! Sends SMInfo to the subnet manager that the local port names. Its LID stays in all ports when the manager dies, so
//! only an answer shows that it is alive.

use crate::engine::{Ended, Engine, EngineError, Outcome, Queue, Request, Route, Work};
use std::sync::atomic::AtomicBool;
use throughline_infiniband::check::ManagerAnswer;
use throughline_infiniband::mad::{self, DirectedPath, NodeKind, Query, SmInfo, attribute};
use throughline_infiniband::topology::{PortEnd, Source, Topology};

/// What the subnet manager of the local port answers. `None` where there is nothing to send: the local port names no
/// manager, the topology is already an answer of the manager's administrator, or the discovery ended at a bound
/// before it reached that port.
///
/// # Errors
/// [`EngineError`].
pub fn query_manager(
    engine: &mut Engine,
    topology: &Topology,
    stop: &AtomicBool,
) -> Result<Option<ManagerAnswer>, EngineError> {
    let Some(lid) = topology.manager_lid().filter(|lid| *lid != 0) else { return Ok(None) };
    if topology.source == Source::Administrator {
        return Ok(None);
    }
    let Some(end) = topology.port_with_lid(lid) else {
        return Ok(topology.truncated.is_none().then_some(ManagerAnswer::Nowhere));
    };
    let Some(path) = path_to(topology, end) else { return Ok(None) };
    let queue = engine.queue();
    let node = queue.add_node(Route::Directed(path));
    let query = Query { attribute: attribute::SM_INFO, modifier: 0, port_select: 0 };
    queue.push(node, Request::new(query, 0));
    let mut reply = Reply { answer: None };
    engine.run(&mut reply, stop)?;
    Ok(reply.answer)
}

/// The directed route that enters an adapter through this very port: a manager answers at its own port only.
fn path_to(topology: &Topology, end: PortEnd) -> Option<DirectedPath> {
    let node = &topology.nodes[end.node];
    if node.kind == NodeKind::Switch || topology.local == Some(end) {
        return Some(node.path);
    }
    let neighbour = node.port(end.port)?.remote?;
    topology.nodes[neighbour.node].path.through(neighbour.port)
}

struct Reply {
    answer: Option<ManagerAnswer>,
}

impl Work for Reply {
    fn done(
        &mut self,
        _queue: &mut Queue,
        _node: crate::engine::NodeId,
        _tag: u64,
        outcome: Outcome<'_>,
        _ended: Ended,
    ) {
        self.answer = match outcome {
            Outcome::Reply(mad) => SmInfo::decode(mad::smp_data(mad)).ok().map(ManagerAnswer::State),
            Outcome::Refused(status) => Some(ManagerAnswer::Refused(status)),
            Outcome::Timeout | Outcome::Silent => Some(ManagerAnswer::Silent),
            // Says nothing about the manager.
            Outcome::NotSent => None,
        };
    }
}
