//! Commands that only report: what happened, who is there.

use crate::world::World;
use std::fmt::Write;

pub(super) fn stats(world: &World) -> String {
    let c = &world.counts;
    format!(
        "received {}\nanswered {}\nlost {}\nunreachable {}\nsilent {}\noverflowed {}\nkey_refused {}\n\
         reports_answered {}\nmalformed {}\n",
        c.received,
        c.answered,
        c.lost,
        c.unreachable,
        c.silent,
        c.overflowed,
        c.key_refused,
        c.reports_answered,
        c.malformed
    )
}

pub(super) fn nodes(world: &World) -> String {
    let mut text = String::new();
    for node in world.fabric.nodes.iter().filter(|node| !node.is_removed) {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{} lid {} \"{}\"", node.id, node.lid(), node.description);
    }
    text
}

pub(super) fn groups(world: &World) -> String {
    let mut text = String::new();
    for group in &world.fabric.groups {
        let members = group.ends(&world.fabric).len();
        // Writing to a String can't fail.
        let _ = writeln!(text, "{:#x} {:032x} {members} members", group.mlid, group.mgid);
    }
    text
}
