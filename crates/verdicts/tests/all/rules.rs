//! What each verdict says of the plainest case, and that it is silent just beside it.

use throughline_verdicts::account::{OffReasons, RankTimes};
use throughline_verdicts::evidence::{
    Contribution, Evidence, Link, LinkWindow, OpenCall, OperationWaiting, Peers, Rank, Waiting,
};
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
    evidence.open_calls.iter_mut().for_each(|call| call.seconds = 9.0);
    assert_eq!(of(Kind::Hung, &evidence), None);
}

#[test]
fn who_was_killed_with_the_others_did_not_die_first() {
    let mut evidence = ranks(4, 150.0);
    evidence.is_running = false;
    evidence.open_calls = (0..3).map(|rank| OpenCall { has_ended: true, ..barrier(rank, 138.0) }).collect();
    for (rank, ended) in evidence.ranks.iter_mut().zip([5_000, 5_010, 5_020, 4_900]) {
        (rank.has_ended, rank.ending, rank.ended_ms) = (true, Some("lost".into()), Some(ended));
    }
    assert_eq!(of(Kind::Hung, &evidence), None, "a launcher ended them all");
    evidence.ranks[3].ended_ms = Some(1_000);
    assert!(of(Kind::Hung, &evidence).unwrap().observation.contains("rank 3 died"));
}

fn message(rank: u32, operation: &str, peer: u32) -> OpenCall {
    OpenCall { operation: operation.into(), peer: Some(peer), ..barrier(rank, 12.0) }
}

#[test]
fn calls_that_may_move_data_are_no_hang() {
    let mut evidence = ranks(2, 150.0);
    evidence.open_calls = vec![message(0, "recv", 1), message(1, "recv", 0)];
    assert_eq!(of(Kind::Hung, &evidence).unwrap().confidence, Confidence::Certain);
    evidence.open_calls = vec![message(0, "ssend", 1), message(1, "ssend", 0)];
    assert!(of(Kind::Hung, &evidence).is_some());
    evidence.open_calls = vec![message(0, "send", 1), message(1, "recv", 0)];
    assert_eq!(of(Kind::Hung, &evidence), None, "one message, of many bytes");
    evidence.open_calls.iter_mut().for_each(|call| call.seconds = 31.0);
    assert_eq!(of(Kind::Hung, &evidence).unwrap().confidence, Confidence::Likely, "or two of different tags");
    evidence.open_calls = (0..2).map(|rank| OpenCall { comm_size: Some(2), ..barrier(rank, 12.0) }).collect();
    assert_eq!(of(Kind::Hung, &evidence), None, "all are there");
    evidence.open_calls[1].operation = "allreduce".into();
    assert_eq!(of(Kind::Hung, &evidence).unwrap().confidence, Confidence::Certain, "different collectives");
    evidence.open_calls[1].operation = "bcast".into();
    assert_eq!(of(Kind::Hung, &evidence), None, "its root may be in the next one");
    evidence.open_calls = vec![message(0, "recv", 1), OpenCall { pending_requests: 1, ..barrier(1, 12.0) }];
    assert_eq!(of(Kind::Hung, &evidence), None, "a message may be on its way");
    evidence.open_calls[1].pending_requests = 0;
    assert!(of(Kind::Hung, &evidence).is_some());
    evidence.open_calls =
        (0..2).map(|rank| OpenCall { operation: "waitall".into(), ..barrier(rank, 12.0) }).collect();
    assert_eq!(of(Kind::Hung, &evidence), None, "perhaps a large exchange");
    evidence.open_calls.iter_mut().for_each(|call| call.seconds = 31.0);
    assert_eq!(of(Kind::Hung, &evidence).unwrap().confidence, Confidence::Likely);
}

#[test]
fn both_ends_of_a_deadlock_are_named() {
    let mut evidence = ranks(2, 150.0);
    let tagged = |rank, operation, peer, tag| OpenCall { tag: Some(tag), ..message(rank, operation, peer) };
    evidence.open_calls = vec![tagged(0, "send", 1, 11), tagged(1, "recv", 0, 12)];
    let verdict = of(Kind::Hung, &evidence).unwrap();
    assert_eq!(
        verdict.observation,
        "Rank 0 is in MPI_Send to rank 1 with tag 11 for 12.0 s on MPI_COMM_WORLD, rank 1 is in MPI_Recv from rank 0 with tag 12 \
         for 12.0 s on MPI_COMM_WORLD; no rank is left outside, so none of them can return."
    );
    assert_eq!(verdict.confidence, Confidence::Certain);
    evidence.open_calls[1].tag = Some(11);
    assert_eq!(of(Kind::Hung, &evidence), None, "a message of many bytes");
    evidence.open_calls[1].tag = None;
    assert_eq!(of(Kind::Hung, &evidence), None, "it takes any tag");

    // Each waits for a request of its own.
    let waits = |rank, peer| OpenCall {
        operation: "wait".into(),
        requests: 1,
        pending_requests: 1,
        oldest_request: Some("irecv".into()),
        oldest_peer: Some(peer),
        oldest_tag: Some(5),
        comm: None,
        ..barrier(rank, 12.0)
    };
    evidence.open_calls = vec![waits(0, 1), waits(1, 0)];
    let verdict = of(Kind::Hung, &evidence).unwrap();
    assert!(
        verdict
            .observation
            .starts_with("Rank 0 is in MPI_Wait for a message from rank 1 with tag 5 for 12.0 s")
    );
    assert_eq!(verdict.confidence, Confidence::Certain);
    evidence.open_calls[1].pending_requests = 2;
    assert_eq!(of(Kind::Hung, &evidence), None, "the other one may be a send");

    // Who tests in vain may also do something else, some time.
    for call in &mut evidence.open_calls {
        (call.operation, call.is_counted) = ("test".into(), true);
        (call.pending_requests, call.seconds) = (1, 29.0);
    }
    assert_eq!(of(Kind::Hung, &evidence), None);
    evidence.open_calls.iter_mut().for_each(|call| call.seconds = 31.0);
    let verdict = of(Kind::Hung, &evidence).unwrap();
    assert!(
        verdict
            .observation
            .starts_with("Rank 0 calls MPI_Test in vain for 31.0 s for a message from rank 1 with")
    );
    assert_eq!(verdict.confidence, Confidence::Likely);
}

#[test]
fn who_has_a_thread_outside_of_mpi_is_no_rank_that_waits() {
    let mut evidence = ranks(2, 150.0);
    evidence.open_calls = vec![message(0, "recv", 1), message(1, "recv", 0)];
    assert_eq!(of(Kind::Hung, &evidence).unwrap().confidence, Confidence::Certain);
    evidence.open_calls[0].threads_elsewhere = 1;
    assert_eq!(of(Kind::Hung, &evidence), None, "a thread computes, and may send");
    evidence.open_calls[0].threads_elsewhere = 0;
    evidence.open_calls.push(OpenCall { seconds: 1.0, ..message(0, "recv", 1) });
    assert_eq!(of(Kind::Hung, &evidence), None, "another one came just now");
    evidence.open_calls[2].seconds = 11.0;
    let verdict = of(Kind::Hung, &evidence).unwrap();
    assert!(
        verdict.observation.starts_with("Rank 0 is in MPI_Recv from rank 1 for 12.0 s on"),
        "{verdict:?}"
    );
}

#[test]
fn a_thread_that_has_not_called_mpi_yet_may_do_so() {
    let mut evidence = ranks(2, 150.0);
    evidence.open_calls = vec![message(0, "recv", 1), message(1, "recv", 0)];
    evidence.open_calls[1].threads_to_come = 3;
    evidence.open_calls.iter_mut().for_each(|call| call.seconds = 119.0);
    assert_eq!(of(Kind::Hung, &evidence), None);
    evidence.open_calls.iter_mut().for_each(|call| call.seconds = 121.0);
    let verdict = of(Kind::Hung, &evidence).unwrap();
    assert_eq!(verdict.confidence, Confidence::Likely);
    assert!(verdict.observation.ends_with("unless a thread does that has not called MPI yet."));
}

#[test]
fn parts_of_a_job_in_collectives_of_their_own_are_no_hang() {
    let mut evidence = ranks(4, 150.0);
    let of_part = |rank: u32, comm: Option<&str>, operation: &str| OpenCall {
        operation: operation.into(),
        comm: comm.map(Into::into),
        comm_size: Some(2),
        ..barrier(rank, 12.0)
    };
    // Rows of a grid, with names and without.
    for names in [[Some("row0"), Some("row1")], [None, None]] {
        evidence.open_calls =
            (0..4).map(|rank| of_part(rank, names[rank as usize / 2], "allreduce")).collect();
        assert_eq!(of(Kind::Hung, &evidence), None, "{names:?}");
    }
    // The second row waits for what the first one, which moves data, does next.
    evidence.open_calls[2].operation = "alltoall".into();
    evidence.open_calls[3].operation = "alltoall".into();
    assert_eq!(of(Kind::Hung, &evidence), None);
    evidence.open_calls = vec![of_part(0, Some("row0"), "allreduce"), of_part(1, Some("row0"), "barrier")];
    evidence.open_calls.extend([of_part(2, Some("row1"), "allreduce"), of_part(3, Some("row1"), "barrier")]);
    assert_eq!(of(Kind::Hung, &evidence).unwrap().confidence, Confidence::Certain, "none is whole");
}

#[test]
fn a_rank_that_sleeps_is_awaited_and_one_that_is_stopped_hangs() {
    let mut evidence = ranks(4, 150.0);
    evidence.open_calls = (0..3).map(|rank| barrier(rank, 60.0)).collect();
    evidence.ranks[3].recent_cpu_share = Some(0.9);
    assert_eq!((of(Kind::Hung, &evidence), of(Kind::Awaited, &evidence)), (None, None));
    evidence.ranks[3].recent_cpu_share = Some(0.0);
    assert_eq!(of(Kind::Hung, &evidence), None, "it may go on");
    let verdict = of(Kind::Awaited, &evidence).unwrap();
    assert_eq!(
        verdict.observation,
        "3 of 4 ranks have been in MPI for at least 60.0 s, and rank 3 on n1 is not in MPI and uses no core."
    );
    assert_eq!(verdict.confidence, Confidence::Likely);
    evidence.ranks[3].stopped_seconds = Some(12.0);
    let verdict = of(Kind::Hung, &evidence).unwrap();
    assert!(verdict.observation.ends_with("rank 3 on n1 is stopped by a signal."), "{}", verdict.observation);
    assert_eq!(verdict.confidence, Confidence::Certain);
    // Ranks that were never seen may be anywhere.
    evidence.ranks[3].stopped_seconds = None;
    evidence.world_size = 5;
    assert_eq!((of(Kind::Hung, &evidence), of(Kind::Awaited, &evidence)), (None, None));
}

#[test]
fn a_quota_is_no_shortage_of_cores() {
    let mut evidence = ranks(4, 50.0);
    for rank in &mut evidence.ranks {
        rank.times = Some(RankTimes {
            elapsed: 200.0,
            computing: 90.0,
            queued: 60.0,
            mpi: 50.0,
            ..RankTimes::default()
        });
    }
    assert!(of(Kind::Oversubscribed, &evidence).is_some() && of(Kind::Throttled, &evidence).is_none());
    for rank in &mut evidence.ranks {
        rank.times.as_mut().unwrap().throttled = 44.0;
    }
    let verdict = of(Kind::Throttled, &evidence).unwrap();
    assert_eq!(
        verdict.observation,
        "2 ranks on n1 could have run and were kept from it by a CPU quota for at least 22 % of their time (88.0 s of 400 s), and \
         another host is alike."
    );
    assert_eq!((verdict.confidence, of(Kind::Oversubscribed, &evidence)), (Confidence::Certain, None));
    // A part of a group of many, whose other waits have another cause.
    for rank in &mut evidence.ranks {
        rank.times.as_mut().unwrap().throttled = 14.0;
    }
    assert!(of(Kind::Oversubscribed, &evidence).is_some() && of(Kind::Throttled, &evidence).is_some());
}

/// Rank 3 is outside of MPI for 160 s, the others for 50 s; of that `off` in a file.
fn one_is_late(off: f64) -> Evidence {
    let mut evidence = ranks(4, 150.0);
    for rank in &mut evidence.ranks {
        let is_late = rank.rank == 3;
        let (outside, off) = if is_late { (160.0, off) } else { (50.0, 0.0) };
        rank.mpi_seconds = 200.0 - outside;
        rank.times = Some(RankTimes {
            elapsed: 200.0,
            computing: outside - off,
            off,
            found: OffReasons { file: 40, ..OffReasons::default() },
            mpi: 200.0 - outside,
            ..RankTimes::default()
        });
    }
    evidence
}

#[test]
fn who_is_late_computes_or_does_not() {
    let computes = one_is_late(0.0);
    assert_eq!(of(Kind::Awaited, &computes), None);
    let verdict = of(Kind::ImbalancedWork, &computes).unwrap();
    assert!(
        verdict.observation.contains("rank 3 on n1 computes for 160 s, the mean rank for 77.5 s"),
        "{verdict:?}"
    );
    let in_file = one_is_late(150.0);
    assert_eq!(of(Kind::ImbalancedWork, &in_file), None);
    let verdict = of(Kind::Awaited, &in_file).unwrap();
    assert!(
        verdict.observation.contains("off the processor for 150 s outside of MPI, in a file"),
        "{verdict:?}"
    );
    assert_eq!(verdict.confidence, Confidence::Certain);
    let both = judge(&one_is_late(55.0));
    let kinds: Vec<Kind> = both.iter().map(|one| one.kind).collect();
    assert!(kinds.contains(&Kind::Awaited) && kinds.contains(&Kind::ImbalancedWork), "{both:?}");
}

#[test]
fn a_master_that_only_receives_is_not_imbalanced() {
    let mut evidence = ranks(4, 4.0);
    (evidence.ranks[0].mpi_seconds, evidence.ranks[0].receive_seconds) = (190.0, 185.0);
    let waits = OperationWaiting { operation: "recv".into(), seconds: 186.0, ..OperationWaiting::default() };
    evidence.waiting = Some(Waiting { operations: vec![waits], ..Waiting::default() });
    assert_eq!((of(Kind::ImbalancedWork, &evidence), of(Kind::Waiting, &evidence)), (None, None));
    // On a loaded node the others wait for a core in their calls.
    for rank in &mut evidence.ranks[1..] {
        rank.mpi_seconds = 40.0;
    }
    assert!(of(Kind::ImbalancedWork, &evidence).is_some());
    for rank in &mut evidence.ranks {
        let mpi = rank.mpi_seconds;
        rank.times = Some(RankTimes { queued_in_mpi: 36.0, ..RankTimes::of(200.0, mpi, 0.0, 0.0) });
    }
    assert_eq!(of(Kind::ImbalancedWork, &evidence), None);
    // It works on what it receives, and has less to do.
    evidence.ranks[0].times = Some(RankTimes::of(200.0, 170.0, 0.0, 0.0));
    assert!(of(Kind::ImbalancedWork, &evidence).is_some());
    let mut collective = evidence.clone();
    collective.ranks[0].times = Some(RankTimes::of(200.0, 190.0, 0.0, 0.0));
    collective.ranks[0].receive_seconds = 20.0;
    assert!(of(Kind::ImbalancedWork, &collective).is_some(), "it waits at collectives");
}

#[test]
fn waiting_that_nothing_explains_is_not_nothing() {
    let mut evidence = ranks(4, 130.0);
    let waits = OperationWaiting {
        operation: "allreduce".into(),
        seconds: 500.0,
        low_seconds: 400.0,
        high_seconds: 510.0,
    };
    evidence.waiting = Some(Waiting { operations: vec![waits], ..Waiting::default() });
    let all = judge(&evidence);
    assert_eq!(all.iter().map(|one| one.kind).collect::<Vec<_>>(), [Kind::Waiting]);
    assert!(
        all[0]
            .observation
            .starts_with("Waiting for other ranks takes 62 % of the ranks' time (500 s of 800 s)"),
        "{all:?}"
    );
    evidence.waiting.as_mut().unwrap().operations[0].seconds = 10.0;
    assert_eq!(of(Kind::Waiting, &evidence), None);
    evidence.open_calls = vec![barrier(2, 16.0)];
    assert!(
        of(Kind::Waiting, &evidence)
            .unwrap()
            .observation
            .contains("Rank 2 has been in MPI_Barrier for 16.0 s, and nothing says why.")
    );
    assert_eq!(of(Kind::NothingFound, &evidence), None);
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
