//! What ranks are in and have not returned from: the first thing to know of a job that hangs.

use crate::text::{clean, count, folded, seconds, thousands};
use throughline_api::jobs::OpenCalls;

/// Parts of the names of operations between two ranks.
const BETWEEN_TWO: [&str; 3] = ["send", "recv", "probe"];
/// Lines shown; all groups are in the JSON document.
const GROUPS_SHOWN: usize = 8;

/// `MPI_Barrier`.
pub fn mpi_name(operation: &str) -> String {
    let mut letters = operation.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    clean(&format!("MPI_{}{}", first.map_or(String::new(), String::from), letters.as_str()), 60)
}

/// A sentence for each group.
pub fn text(groups: &[OpenCalls], width: usize) -> String {
    let mut lines: Vec<String> =
        groups.iter().take(GROUPS_SHOWN).flat_map(|group| folded(&sentence(group), width)).collect();
    let more = groups.len().saturating_sub(GROUPS_SHOWN);
    if more > 0 {
        lines.push(format!("  and {} more (--json)", count(more as u64, "such call")));
    }
    lines.join("\n") + "\n"
}

fn sentence(group: &OpenCalls) -> String {
    let mut text = format!(
        "{}: {} {}{} for {}",
        ranks(group),
        match (group.have_ended, group.is_counted) {
            (true, _) => "ended in",
            (false, true) => "calling",
            (false, false) => "in",
        },
        mpi_name(&group.operation),
        if group.is_counted { " in vain" } else { "" },
        time(group),
    );
    match (&group.comm, group.comm_size) {
        (Some(comm), _) => text.push_str(&format!(" on {}", clean(comm, 60))),
        (None, Some(size)) => {
            text.push_str(&format!(" on a communicator of {}", thousands(size.unsigned_abs().into())))
        }
        (None, None) => {}
    }
    if !group.peers.is_empty() {
        let peers: Vec<String> = group.peers.iter().map(ToString::to_string).collect();
        text.push_str(&format!(", with rank {}", peers.join(", ")));
    }
    if !group.tags.is_empty() {
        let tags: Vec<String> = group.tags.iter().map(ToString::to_string).collect();
        text.push_str(&format!(", tag {}", tags.join(", ")));
    }
    if let Some(absent) = absent(group) {
        let size = thousands(group.comm_size.unwrap_or_default().unsigned_abs().into());
        let are = match (absent, group.have_ended) {
            (1, false) => "is",
            (_, false) => "are",
            (1, true) => "was",
            (_, true) => "were",
        };
        text.push_str(&format!("; {} of the {size} ranks there {are} not in it", thousands(absent)));
    }
    if group.pending_requests > 0 {
        let pending = count(group.pending_requests.unsigned_abs().into(), "request");
        text.push_str(&format!("; {pending} pending"));
        if let Some(oldest) = &group.oldest_request {
            text.push_str(&format!(", the oldest of {}{}", mpi_name(oldest), whom(group, oldest)));
        }
    }
    text
}

/// `from rank 1, tag 12`, of the oldest request.
fn whom(group: &OpenCalls, oldest: &str) -> String {
    let way = if oldest == "irecv" { "from" } else { "to" };
    let peer = group.oldest_peer.map_or_else(String::new, |peer| format!(" {way} rank {peer}"));
    peer + &group.oldest_tag.map_or_else(String::new, |tag| format!(", tag {tag}"))
}

/// Members of the communicator of a collective that are not in it, as far as their number is known.
fn absent(group: &OpenCalls) -> Option<u64> {
    let is_collective = BETWEEN_TWO.iter().all(|name| !group.operation.contains(name));
    let size = group.comm_size.map(|size| u64::from(size.unsigned_abs())).filter(|_| is_collective)?;
    size.checked_sub(group.ranks).filter(|absent| *absent > 0)
}

/// `rank 3`, `ranks 0, 1, 2`, `ranks 0, 1, 2, … (1,024 of the 1,025 there)`.
fn ranks(group: &OpenCalls) -> String {
    let list: Vec<String> = group.examples.iter().map(ToString::to_string).collect();
    let more = group.ranks > list.len() as u64;
    let all = list.join(", ") + if more { ", …" } else { "" };
    let noun = if group.ranks == 1 { "rank" } else { "ranks" };
    match group.comm_size.map(|size| u64::from(size.unsigned_abs())) {
        Some(size) if more => {
            format!("{noun} {all} ({} of the {} there)", thousands(group.ranks), thousands(size))
        }
        _ if more => format!("{noun} {all} ({})", thousands(group.ranks)),
        _ => format!("{noun} {all}"),
    }
}

/// `138 s`, or `12.0 s to 138 s` where they came at different times.
fn time(group: &OpenCalls) -> String {
    let (shortest, longest) = (seconds(group.shortest_seconds), seconds(group.longest_seconds));
    let differ = group.longest_seconds - group.shortest_seconds > 1.0;
    if differ { format!("{shortest} to {longest}") } else { longest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_what_since_when() {
        let barrier = OpenCalls {
            operation: "barrier".into(),
            comm: Some("MPI_COMM_WORLD".into()),
            comm_size: Some(4),
            ranks: 1,
            examples: vec![3],
            longest_seconds: 138.2,
            shortest_seconds: 138.2,
            ..OpenCalls::default()
        };
        let unknown = OpenCalls { comm_size: None, ..barrier.clone() };
        assert_eq!(text(&[unknown], 100), "  rank 3: in MPI_Barrier for 138 s on MPI_COMM_WORLD\n");
        assert!(sentence(&barrier).ends_with("on MPI_COMM_WORLD; 3 of the 4 ranks there are not in it"));
        let killed = OpenCalls { have_ended: true, ranks: 3, examples: vec![0, 1, 2], ..barrier.clone() };
        assert!(sentence(&killed).ends_with("; 1 of the 4 ranks there was not in it"));
        let all = OpenCalls { ranks: 4, ..barrier.clone() };
        assert!(!sentence(&all).contains("not in it"));
        let many =
            OpenCalls { ranks: 1024, comm_size: Some(1025), shortest_seconds: 12.0, ..barrier.clone() };
        assert_eq!(
            sentence(&many),
            "ranks 3, … (1,024 of the 1,025 there): in MPI_Barrier for 12.0 s to 138 s on MPI_COMM_WORLD; \
             1 of the 1,025 ranks there is not in it"
        );
        let receive = OpenCalls {
            operation: "recv".into(),
            comm: None,
            peers: vec![2],
            tags: vec![7],
            have_ended: true,
            examples: vec![0, 1],
            ranks: 2,
            ..barrier.clone()
        };
        assert_eq!(
            sentence(&receive),
            "ranks 0, 1: ended in MPI_Recv for 138 s on a communicator of 4, with rank 2, tag 7"
        );
        let wait = OpenCalls {
            operation: "waitall".into(),
            comm: None,
            comm_size: None,
            pending_requests: 2,
            oldest_request: Some("irecv".into()),
            oldest_peer: Some(1),
            oldest_tag: Some(12),
            ..barrier
        };
        assert_eq!(
            sentence(&wait),
            "rank 3: in MPI_Waitall for 138 s; 2 requests pending, the oldest of MPI_Irecv from rank 1, tag 12"
        );
        let tests =
            OpenCalls { operation: "test".into(), is_counted: true, pending_requests: 0, ..wait.clone() };
        assert_eq!(sentence(&tests), "rank 3: calling MPI_Test in vain for 138 s");
        assert_eq!(text(&vec![wait; 10], 100).lines().last().unwrap(), "  and 2 such calls more (--json)");
    }
}
