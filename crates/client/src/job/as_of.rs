//! As of when figures of a running job are, for people.

use crate::text::{clean, clock};
use throughline_api::jobs::AsOf;

/// Most nodes that are named.
const NODES_SHOWN: usize = 3;

/// `as of 14:02:30 UTC`, and which nodes are behind.
#[must_use]
pub fn words(at: &AsOf) -> String {
    let node = |one: &throughline_api::jobs::NodeBehind| {
        let name = clean(&one.node, 64);
        one.time_ms
            .map_or_else(|| format!("nothing of {name} yet"), |time| format!("{name} as of {}", clock(time)))
    };
    let mut parts = vec![format!("as of {}", clock(at.time_ms))];
    parts.extend(at.behind.iter().take(NODES_SHOWN).map(node));
    if at.behind.len() > NODES_SHOWN {
        parts.push(format!("{} more nodes behind", at.behind.len() - NODES_SHOWN));
    }
    parts.join(", ")
}

/// The same after a comma; nothing where figures are final.
#[must_use]
pub fn suffix(at: Option<&AsOf>) -> String {
    at.map_or_else(String::new, |at| format!(", {}", words(at)))
}

/// The same where a figure is of another time than those beside it.
#[must_use]
pub fn unless_same(at: Option<&AsOf>, beside: Option<&AsOf>) -> String {
    at.filter(|at| Some(*at) != beside).map_or_else(String::new, |at| format!(" ({})", words(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::jobs::NodeBehind;

    #[test]
    fn who_is_behind_is_named() {
        let behind = |node: &str, time_ms| NodeBehind { node: node.into(), time_ms };
        let at = |behind| AsOf { time_ms: 1_767_225_750_000, behind };
        assert_eq!(words(&at(Vec::new())), "as of 2026-01-01 00:02:30 UTC");
        assert_eq!(
            suffix(Some(&at(vec![behind("n2", Some(1_767_225_600_000)), behind("n3", None)]))),
            ", as of 2026-01-01 00:02:30 UTC, n2 as of 2026-01-01 00:00:00 UTC, nothing of n3 yet"
        );
        let many = at((0..9).map(|n| behind(&n.to_string(), None)).collect());
        assert!(words(&many).ends_with("nothing of 2 yet, 6 more nodes behind"));
        assert_eq!((suffix(None), unless_same(Some(&many), Some(&many))), (String::new(), String::new()));
        assert!(unless_same(Some(&many), None).starts_with(" (as of 2026"));
    }
}
