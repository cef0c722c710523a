//! Who prevails: honest nodes of a job beside one or several that claim everything.

use super::*;

/// A job whose honest nodes (from 1) have four ranks each and send each other the same, as in a ring of all.
fn job(nodes: i64) -> ContestedJob {
    let mut job = ContestedJob::default();
    for node in 1..=nodes {
        let first = 4 * (i32::try_from(node).unwrap() - 1);
        job.claims.insert(node, NodeClaim { ranks: (first..first + 4).collect(), is_silent: false });
    }
    for node in 1..=nodes {
        let others = (1..=nodes).filter(|other| *other != node);
        let peers: Vec<i32> = others.flat_map(|other| job.claims[&other].ranks.clone()).collect();
        job.sent.extend(peers.into_iter().map(|peer| ((node, peer), 1000.0)));
    }
    job
}

/// A node claims all ranks and makes up what it sent.
fn claim_everything(job: &mut ContestedJob, hostile: i64, made_up: f64) {
    let rivals: Vec<i64> = job.claims.keys().copied().collect();
    let ranks: BTreeSet<i32> = job.claims.values().flat_map(|claim| claim.ranks.clone()).collect();
    job.sent.extend(ranks.iter().map(|rank| ((hostile, *rank), made_up)));
    job.pairs.extend(rivals.into_iter().map(|rival| (rival.min(hostile), rival.max(hostile))));
    job.claims.insert(hostile, NodeClaim { ranks, is_silent: false });
}

#[test]
fn one_that_claims_a_job_of_two_nodes_is_overruled_by_their_traffic() {
    let mut of_two = job(2);
    claim_everything(&mut of_two, 9, 5.0);
    assert_eq!(of_two.overruled(&of_two.pairs.clone()), BTreeSet::from([9]));
    // Claiming the ranks of one of them only, it does not know what the other one sent.
    let mut of_two = job(2);
    let ranks = of_two.claims[&1].ranks.clone();
    of_two.claims.insert(9, NodeClaim { ranks, is_silent: false });
    of_two.sent.extend((4..8).map(|rank| ((9, rank), 5.0)));
    of_two.pairs.insert((1, 9));
    assert_eq!(of_two.overruled(&of_two.pairs.clone()), BTreeSet::from([9]));
}

#[test]
fn ten_that_claim_everything_blank_no_job_of_eight_nodes() {
    for hostile in [1, 3, 10] {
        let mut of_eight = job(8);
        for one in 0..hostile {
            claim_everything(&mut of_eight, 100 + one, 5.0);
        }
        assert_eq!(of_eight.overruled(&of_eight.pairs.clone()), (100..100 + hostile).collect(), "{hostile}");
    }
}

#[test]
fn a_job_of_one_node_stays_contested_until_its_rival_contests_others_too() {
    let mut of_one = job(1);
    claim_everything(&mut of_one, 9, 5.0);
    assert_eq!(of_one.overruled(&of_one.pairs.clone()), BTreeSet::new());
    let elsewhere = BTreeSet::from([(1, 9), (2, 9), (3, 9)]);
    assert_eq!(of_one.overruled(&elsewhere), BTreeSet::from([9]));
    // Three that contest among themselves are no witnesses: they may be one person's.
    let among_themselves = BTreeSet::from([(1, 9), (1, 10), (1, 11), (9, 10), (9, 11), (10, 11)]);
    assert_eq!(of_one.overruled(&among_themselves), BTreeSet::new());
}

#[test]
fn a_node_that_went_silent_gives_way() {
    let mut of_one = job(1);
    claim_everything(&mut of_one, 9, 0.0);
    of_one.claims.get_mut(&1).unwrap().is_silent = true;
    assert_eq!(of_one.overruled(&of_one.pairs.clone()), BTreeSet::from([1]));
}
