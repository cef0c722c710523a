//! Where the ranks of two jobs ran: what differs of their nodes, CPUs, GPUs and adapter ports.

use crate::text::{clean, count};
use std::collections::BTreeMap;
use throughline_api::jobs::JobRanks;

/// Longest list of a rank's CPUs, GPUs or ports in a sentence.
const LIST_CHARACTERS: usize = 40;

/// One kind of place: its name, and where each rank was. A rank whose place is not known is left out.
type Places = (&'static str, BTreeMap<i32, String>);

fn places(ranks: &JobRanks) -> [Places; 4] {
    let columns = &ranks.ranks;
    let all = |of: &dyn Fn(usize) -> Option<String>| {
        let known = columns.rank.iter().enumerate().filter_map(|(place, rank)| Some((*rank, of(place)?)));
        known.collect()
    };
    let list = |lists: &[Option<Vec<String>>], place: usize| {
        let mut names = lists.get(place)?.clone()?;
        names.sort();
        Some(if names.is_empty() { "none".to_owned() } else { names.join(" ") })
    };
    [
        ("nodes", all(&|place| ranks.hosts.get(*columns.host.get(place)?).cloned())),
        ("CPUs", all(&|place| columns.cpus.get(place)?.clone())),
        ("GPUs", all(&|place| list(&columns.gpus, place))),
        ("adapter ports", all(&|place| list(&columns.ports, place))),
    ]
}

/// A sentence for each kind of place in which ranks of both differ.
pub fn differences(a: &JobRanks, b: &JobRanks) -> Vec<String> {
    places(a).into_iter().zip(places(b)).filter_map(|((kind, a), (_, b))| difference(kind, &a, &b)).collect()
}

fn difference(kind: &str, a: &BTreeMap<i32, String>, b: &BTreeMap<i32, String>) -> Option<String> {
    let both: Vec<_> = a.iter().filter_map(|(rank, of_a)| Some((rank, of_a, b.get(rank)?))).collect();
    let differing: Vec<_> = both.iter().filter(|(_, a, b)| a != b).collect();
    let (rank, of_a, of_b) = differing.first()?;
    Some(format!(
        "The {kind} of {} of {} differ: rank {rank} had {} in A, {} in B.",
        differing.len(),
        count(both.len() as u64, "rank"),
        clean(of_a, LIST_CHARACTERS),
        clean(of_b, LIST_CHARACTERS),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_api::jobs::RankColumns;

    fn ranks(host: &str, cpus: [&str; 2], gpus: Option<&str>) -> JobRanks {
        let columns = RankColumns {
            rank: vec![0, 1],
            host: vec![0, 0],
            cpus: cpus.map(|cpus| Some(cpus.to_owned())).into(),
            gpus: vec![gpus.map(|gpu| vec![gpu.to_owned()]), Some(vec![])],
            ports: vec![None, None],
            ..RankColumns::default()
        };
        JobRanks { job_key: "j".into(), hosts: vec![host.into()], ranks: columns, as_of: None }
    }

    #[test]
    fn what_differs_is_named_with_an_example() {
        let a = ranks("n1", ["0-7", "8-15"], Some("GPU-a"));
        assert_eq!(differences(&a, &a), [""; 0]);
        let b = ranks("n1", ["0-7", "0-7"], None);
        // Of one GPU it is not known in B.
        assert_eq!(differences(&a, &b), ["The CPUs of 1 of 2 ranks differ: rank 1 had 8-15 in A, 0-7 in B."]);
        let c = ranks("n2", ["0-7", "8-15"], Some("GPU-b"));
        assert_eq!(
            differences(&a, &c),
            [
                "The nodes of 2 of 2 ranks differ: rank 0 had n1 in A, n2 in B.",
                "The GPUs of 1 of 2 ranks differ: rank 0 had GPU-a in A, GPU-b in B."
            ]
        );
    }
}
