//! What each verdict says of the plainest case, and that it is silent just beside it.

use throughline_verdicts::evidence::{Contribution, Evidence, Link, LinkWindow, OpenCall, Peers, Rank};
use throughline_verdicts::{Confidence, Kind, Verdict, judge};

fn ranks(count: u32, mpi_seconds: f64) -> Evidence {
    let rank = |rank| Rank {
        rank,
        host: format!("n{}", rank / 2),
        observed_seconds: 200.0,
        mpi_seconds,
        ..Rank::default()
    };
    Evidence {
        job: "4711".into(),
        is_running: true,
        seconds: 200.0,
        world_size: count,
        ranks: (0..count).map(rank).collect(),
        ..Evidence::default()
    }
}

fn of(kind: Kind, evidence: &Evidence) -> Option<Verdict> {
    judge(evidence).into_iter().find(|one| one.kind == kind)
}

fn barrier(rank: u32, seconds: f64) -> OpenCall {
    OpenCall {
        rank,
        operation: "barrier".into(),
        comm: Some("MPI_COMM_WORLD".into()),
        seconds,
        ..OpenCall::default()
    }
}

#[test]
fn three_of_four_wait_for_one_that_died() {
    let mut evidence = ranks(4, 150.0);
    evidence.open_calls = (0..3).map(|rank| barrier(rank, 138.0)).collect();
    assert_eq!(of(Kind::Hung, &evidence), None, "the last one may come");
    (evidence.ranks[3].has_ended, evidence.ranks[3].ending) = (true, Some("lost".into()));
    let verdict = of(Kind::Hung, &evidence).unwrap();
    assert_eq!(
        verdict.observation,
        "Ranks 0, 1 and 2 are in MPI_Barrier for 138 s on MPI_COMM_WORLD; rank 3 died (n1) and will not come."
    );
    assert_eq!(verdict.confidence, Confidence::Certain);
    evidence.open_calls.iter_mut().for_each(|call| call.seconds = 29.0);
    assert_eq!(of(Kind::Hung, &evidence), None);
}

#[test]
fn a_rank_that_sleeps_is_missed_and_one_that_computes_is_awaited() {
    let mut evidence = ranks(4, 150.0);
    evidence.open_calls = (0..3).map(|rank| barrier(rank, 60.0)).collect();
    evidence.ranks[3].recent_cpu_share = Some(0.9);
    assert_eq!(of(Kind::Hung, &evidence), None);
    evidence.ranks[3].recent_cpu_share = Some(0.0);
    let verdict = of(Kind::Hung, &evidence).unwrap();
    assert!(
        verdict.observation.ends_with("rank 3 on n1 is not in MPI and uses no core."),
        "{}",
        verdict.observation
    );
    assert_eq!(verdict.confidence, Confidence::Likely);
    // Ranks that were never seen may be anywhere.
    evidence.world_size = 5;
    assert_eq!(of(Kind::Hung, &evidence), None);
}

fn link(own: f64) -> Link {
    let windows = (0..20)
        .map(|window| LinkWindow {
            from_ms: window * 10_000,
            seconds: 10.0,
            counted: 1e10,
            own: vec![Contribution {
                name: "alltoall".into(),
                bytes: own,
                low: own,
                high: own,
                ..Contribution::default()
            }],
            ..LinkWindow::default()
        })
        .collect();
    Link { name: "leaf1[5] → spine1[2]".into(), bytes_per_second: 1.25e9, windows, ..Link::default() }
}

#[test]
fn a_link_with_fewer_lanes_is_slow_where_the_job_uses_it() {
    let mut evidence = ranks(4, 20.0);
    evidence.links = vec![Link { peers: Some(Peers { bytes_per_second: 5e9, as_slow: 0 }), ..link(5e9) }];
    let verdict = of(Kind::SlowLink, &evidence).unwrap();
    assert_eq!(
        verdict.observation,
        "leaf1[5] → spine1[2] on its way runs at 1.2 GB/s, 25 % of what links of its kind do (5.0 GB/s)."
    );
    evidence.links = vec![Link { peers: Some(Peers { bytes_per_second: 1.25e9, as_slow: 0 }), ..link(5e9) }];
    assert_eq!(of(Kind::SlowLink, &evidence), None);
    evidence.links = vec![Link { peers: Some(Peers { bytes_per_second: 5e9, as_slow: 0 }), ..link(1e7) }];
    assert_eq!(of(Kind::SlowLink, &evidence), None, "it hardly uses it");
    evidence.links = vec![Link { peers: Some(Peers { bytes_per_second: 5e9, as_slow: 2 }), ..link(5e9) }];
    assert_eq!(of(Kind::SlowLink, &evidence), None, "built of two speeds");
}

#[test]
fn errors_count_by_packets() {
    let mut evidence = ranks(4, 20.0);
    let with = |errors, packets| Link { errors: Some(errors), packets: Some(packets), ..link(5e9) };
    evidence.links = vec![with(5_000, 1_000_000)];
    assert!(of(Kind::SlowLink, &evidence).is_some());
    evidence.links = vec![with(5_000, 10_000_000_000)];
    assert_eq!(of(Kind::SlowLink, &evidence), None);
    evidence.links = vec![with(20, 1_000)];
    assert_eq!(of(Kind::SlowLink, &evidence), None);
}

#[test]
fn nothing_found_says_what_communication_takes_and_what_is_not_known() {
    let all = judge(&ranks(4, 20.0));
    assert_eq!(all.len(), 1);
    assert_eq!(
        all[0].observation,
        "Nothing found that slows it down. Communication takes 10 % of the ranks' time. Not known: what of it is waiting, the links \
         on its way, whether ranks wait for cores."
    );
    assert_eq!(all[0].confidence, Confidence::Likely);
    let short = Evidence { seconds: 1.0, ..ranks(4, 0.1) };
    assert_eq!(judge(&short), []);
}

#[test]
fn the_job_that_sent_nothing_worth_saying_is_neither_victim_nor_culprit() {
    let mut evidence = ranks(4, 150.0);
    evidence.links = vec![link(19_000.0)];
    evidence.links[0].windows.iter_mut().for_each(|window| window.counted = 1.25e10);
    let kinds: Vec<Kind> = judge(&evidence).into_iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [Kind::NothingFound]);
}
