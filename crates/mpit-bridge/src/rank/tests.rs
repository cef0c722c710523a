//! Frames of one rank and the records that come of them.

use super::*;
use crate::accounts::Accounts;
use crate::frame::{AlgorithmSource, Region};
use crate::hello::Hello;
use crate::identity::Identity;
use crate::jobs::Jobs;
use crate::process::Process;
use crate::quota::QuotaLimits;
use crate::trace::{Kind, Record, Trace};
use std::time::Instant;

const NOW: Moment = Moment { monotonic: 5_000_100_000, utc: 1_700_000_000_000_000_000 };

fn rank() -> Rank {
    Rank::new(&member(), header(0), NOW, judges(QuotaLimits::default()))
}

fn member() -> Member {
    let hello = Hello {
        rank: 2,
        world_size: 4,
        epoch: NOW.utc - 10_000_000_000,
        library: "Open MPI v4.1.4".into(),
        ..Hello::default()
    };
    let identity = Identity { job_key: "slurm:5.0".into(), ..Identity::default() };
    let process = Process { pid: 42, uid: 7, command: "./a".into(), ..Process::default() };
    Member::new(identity, hello, process, "n1", NOW.utc)
}

fn judges(limits: QuotaLimits) -> Judges {
    let counters = Arc::<Counters>::default();
    let quotas = Quotas::new(limits, 16, Accounts::default(), counters.clone());
    let (user, variables) = (quotas.user(7, Instant::now()), AllowList::new(None));
    Judges { counters, quotas, user, variables, window: WindowLimits::default() }
}

fn header(sequence: u32) -> Header {
    Header { sequence, monotonic: 5_000_000_000, realtime: 0 }
}

fn cell(operation: u16) -> Cell {
    Cell {
        operation,
        size_class_bytes: 8192,
        region: 0,
        algorithm: 0,
        algorithm_source: AlgorithmSource::Unknown,
        calls: 10,
        bytes: u64::MAX,
        elapsed_nanoseconds: 5,
        longest_nanoseconds: 3,
        least_nanoseconds: Some(2),
        wait_nanoseconds: None,
        received_bytes: Some(4),
    }
}

#[test]
fn bins_become_records_with_utc() {
    let mut rank = rank();
    let bins = vec![Bin { end: 4_900_000_000, cells: vec![cell(17), cell(127)] }];
    let batch = rank.take(header(1), Frame::Ops(bins), NOW).unwrap();
    let bin = &batch.mpi_ops[0];
    assert_eq!(bin.time, NOW.utc - 100_000_000, "ends where the sender's clock says");
    assert_eq!((bin.epoch, bin.rank, bin.job_key.as_str()), (NOW.utc - 10_000_000_000, 2, "slurm:5.0"));
    assert_eq!(bin.cells.len(), 1, "operation 127 is not known");
    assert_eq!(bin.cells[0].operation, "allreduce");
    assert_eq!(bin.cells[0].bytes, u64::MAX >> 1, "fits a signed column");
    assert_eq!(rank.counters.status().unknown_operations, 1);
}

#[test]
fn numbers_get_the_names_that_were_reported() {
    let mut rank = rank();
    let names = vec![
        Name::Region(1, "solve".into()),
        Name::Algorithm(1, "ring".into()),
        Name::Communicator(4, "rows".into(), 2, Some(0)),
        Name::Setting("coll".into(), "3".into()),
    ];
    let reported = rank.take(header(1), Frame::Names(5_000_000_000, names), NOW).unwrap();
    let (comm, setting) = (&reported.job_comms[0], &reported.job_settings[0]);
    assert_eq!((comm.rank, comm.comm, comm.name.as_str(), comm.rank_in_comm), (2, 4, "rows", Some(0)));
    assert_eq!((setting.name.as_str(), setting.value.as_str()), ("coll", "3"));

    let ring = Cell { region: 1, algorithm: 1, algorithm_source: AlgorithmSource::Observed, ..cell(17) };
    let cells = vec![ring, Cell { region: 2, ..ring }, Cell { algorithm: 2, ..ring }, cell(17)];
    let bins = vec![Bin { end: 4_900_000_000, cells }];
    let cells = rank.take(header(2), Frame::Ops(bins), NOW).unwrap().mpi_ops.remove(0).cells;
    assert_eq!(cells.len(), 2, "what nobody named is left out and counted");
    let (first, second) = (&cells[0], &cells[1]);
    assert_eq!((&*first.region, &*first.algorithm, &*first.algorithm_source), ("solve", "ring", "observed"));
    assert_eq!((&*second.region, &*second.algorithm, &*second.algorithm_source), ("", "", "unknown"));
    assert_eq!((first.wait_nanoseconds, first.received_bytes), (None, Some(4)));

    let region = |number| Region {
        number,
        visits: 2,
        elapsed_nanoseconds: 9,
        own_nanoseconds: 8,
        mpi_calls: 3,
        mpi_nanoseconds: 5,
    };
    let frame = Frame::Regions(4_900_000_000, vec![region(1), region(7)]);
    let regions = rank.take(header(3), frame, NOW).unwrap().mpi_regions.remove(0);
    assert_eq!((regions.cells.len(), &*regions.cells[0].region, regions.cells[0].visits), (1, "solve", 2));
    assert_eq!(rank.counters.status().unknown_names, 3);

    let paths = vec![
        Name::Path(1, "a/b".into(), 0),
        Name::Path(2, r"c\".into(), 1),
        // In itself, in a path that comes later, and in one that never came.
        Name::Path(3, "d".into(), 3),
        Name::Path(4, "d".into(), 5),
        Name::Path(5, "d".into(), 4),
    ];
    let refused = rank.counters.status().unknown_names;
    rank.take(header(4), Frame::Names(5_000_000_000, paths), NOW).unwrap();
    assert_eq!(rank.counters.status().unknown_names, refused + 3);
    let frame = Frame::Paths(4_900_000_000, vec![region(2), region(1), region(3)]);
    let paths = rank.take(header(5), frame, NOW).unwrap().mpi_regions.remove(0);
    let texts: Vec<&str> = paths.paths.iter().map(|path| &*path.path).collect();
    assert_eq!((texts, paths.cells.len()), (vec![r"a\/b/c\\", r"a\/b"], 0));
    assert_eq!((paths.paths[0].own_nanoseconds, paths.paths[0].mpi_nanoseconds), (8, 5));
    assert_eq!(rank.counters.status().unknown_names, refused + 4);
}

#[test]
fn a_path_is_no_longer_than_the_database_takes() {
    let mut rank = rank();
    let names = (1..=9).map(|number| Name::Path(number, "r".repeat(250), number - 1)).collect();
    rank.take(header(1), Frame::Names(5_000_000_000, names), NOW).unwrap();
    let path = |number: u16| rank.names.path(number).map(|text| text.len());
    assert_eq!((path(7), path(8)), (Some(7 * 250 + 6), None));
}

#[test]
fn names_are_bounded() {
    let mut rank = rank();
    let names = (1..=1025).map(|number| Name::Region(number, "r".into())).collect();
    rank.take(header(1), Frame::Names(5_000_000_000, names), NOW).unwrap();
    assert_eq!(rank.counters.status().unknown_names, 1);
}

#[test]
fn a_time_namespace_does_not_move_the_time() {
    let far = Header { monotonic: 900_000_000_000_000, ..header(1) };
    let mut rank = Rank::new(&member(), far, NOW, judges(QuotaLimits::default()));
    let bins = vec![Bin { end: far.monotonic - 50_000_000, cells: vec![cell(17)] }];
    let batch = rank.take(far, Frame::Ops(bins), NOW).unwrap();
    assert_eq!(batch.mpi_ops[0].time, NOW.utc - 50_000_000);
}

#[test]
fn peers_lie_in_the_world() {
    let mut rank = rank();
    let peer = |peer| Peer { peer, kind: PeerKind::Logical, bytes: 1, messages: 1 };
    let wire = Peer { kind: PeerKind::Wire, ..peer(3) };
    let read = Peer { kind: PeerKind::Read, ..peer(2) };
    let all = vec![peer(0), wire, read, peer(3)];
    let good = rank.take(header(1), Frame::Peers(5_000_000_000, all), NOW).unwrap();
    let reported: Vec<_> =
        good.mpi_peers.iter().map(|row| (&*row.kind, &*row.source, row.cells.len())).collect();
    assert_eq!(reported, [("logical", "pmpi", 2), ("read", "pmpi", 1), ("wire", "pml", 1)]);
    let bad = rank.take(header(2), Frame::Peers(5_000_000_000, vec![peer(4)]), NOW);
    assert_eq!(bad, Err(Malformed::Rank));
}

#[test]
fn values_that_are_no_numbers_are_absent() {
    let mut rank = rank();
    let variable = Variable {
        name: "q".into(),
        class: "size",
        elements: vec![(0, f64::NAN), (1, 4.0), (2, f64::INFINITY)],
    };
    let batch = rank.take(header(1), Frame::Pvars(5_000_000_000, vec![variable]), NOW).unwrap();
    assert_eq!(batch.mpi_pvars.len(), 1);
    assert_eq!((batch.mpi_pvars[0].element, batch.mpi_pvars[0].value), (1, 4.0));
}

#[test]
fn gaps_in_the_sequence_are_lost_frames() {
    let mut rank = rank();
    let status = || Frame::Status(Vec::new());
    for sequence in [1, 2, 5] {
        rank.take(header(sequence), status(), NOW).unwrap();
    }
    assert_eq!(rank.counters.status().lost_frames, 2);
    rank.take(header(0), status(), NOW).unwrap();
    assert_eq!(rank.counters.status().lost_frames, 2, "backwards is no gap");
}

#[test]
fn figures_of_the_shim_are_added_once() {
    let mut rank = rank();
    let number = |value: u64| value.to_le_bytes();
    let (three, five) = (number(3), number(5));
    rank.take(header(1), Frame::Status(vec![(2, &three[..])]), NOW).unwrap();
    rank.take(header(2), Frame::Status(vec![(2, &five[..]), (77, &five[..])]), NOW).unwrap();
    assert_eq!(rank.counters.status().unknown_messages, 5);
}

#[test]
fn endings() {
    let mut clean = rank();
    assert_eq!(clean.ended(), None);
    let one = 1_u32.to_le_bytes();
    clean.take(header(1), Frame::Bye(vec![(32, &one[..])]), NOW).unwrap();
    assert_eq!(clean.ended(), Some("clean"));
    let late = clean.take(header(2), Frame::Status(Vec::new()), NOW);
    assert_eq!(late, Err(Malformed::Order), "nothing follows a goodbye");

    let mut exit = rank();
    let two = 2_u32.to_le_bytes();
    exit.take(header(1), Frame::Bye(vec![(32, &two[..])]), NOW).unwrap();
    assert_eq!(exit.ended(), Some("lost"), "exit without MPI_Finalize");
}

#[test]
fn an_impossible_epoch_is_replaced() {
    let hello = Hello { world_size: 1, epoch: 5, ..Hello::default() };
    let member = Member::new(Identity::default(), hello, Process::default(), "n1", NOW.utc);
    assert_eq!(member.start, NOW.utc);
}

/// Attacks 1 and 2: a record of another time is left out alone.
#[test]
fn times_outside_the_window_are_rejected_record_by_record() {
    const SECOND: i64 = 1_000_000_000;
    let mut rank = rank();
    let ahead = 5 * SECOND + 121 * SECOND;
    let bin = |end| Bin { end, cells: vec![cell(17)] };
    let bins =
        vec![bin(5 * SECOND), bin(ahead), bin(5 * SECOND - 3601 * SECOND), bin(i64::MAX), bin(4 * SECOND)];
    let taken = rank.take(header(1), Frame::Ops(bins), NOW).unwrap().mpi_ops;
    assert_eq!(taken.len(), 2);
    let status = rank.counters.status();
    assert_eq!(
        (status.rejected_for(Rejection::TimeFuture), status.rejected_for(Rejection::TimePast)),
        (2, 1)
    );
    let peer = Peer { peer: 1, kind: PeerKind::Logical, bytes: 1, messages: 1 };
    let region = Name::Region(1, "r".into());
    let setting = Name::Setting("a".into(), "b".into());
    let far = rank.take(header(2), Frame::Names(i64::MAX, vec![region, setting]), NOW).unwrap();
    assert_eq!(far, Batch::default());
    assert!(rank.names.region(1).is_some(), "what a number means has no time");
    let far = rank.take(header(3), Frame::Peers(ahead, vec![peer]), NOW).unwrap();
    assert_eq!(far, Batch::default());
    let variable = Variable { name: "q".into(), class: "size", elements: vec![(0, 1.0)] };
    let far = rank.take(header(4), Frame::Pvars(ahead, vec![variable]), NOW).unwrap();
    assert_eq!(far, Batch::default());
    assert_eq!(rank.counters.status().rejected_for(Rejection::TimeFuture), 5);
}

/// What is rejected of a trace shows as a gap in its numbers.
#[test]
fn traces_are_judged_record_by_record() {
    let mut rank = rank();
    let record = |start| Record {
        kind: Kind::Call,
        start,
        end: start,
        comm: 0,
        bytes: 0,
        peer: None,
        tag: 0,
        sequence: None,
        operation: 17,
        thread: 0,
        region: 0,
    };
    let (good, late) = (record(4_000_000_000), record(4_000_000_000_000));
    let records = vec![good, good, late, good, late];
    let batch = rank.take(header(1), Frame::Trace(Trace { number: 10, records }), NOW).unwrap();
    let runs: Vec<_> = batch.mpi_traces.iter().map(|run| (run.number, run.records.len())).collect();
    assert_eq!(runs, [(10, 2), (13, 1)]);
    let unstorable = Trace { number: u64::MAX - 1, records: vec![good] };
    assert!(rank.take(header(2), Frame::Trace(unstorable), NOW).unwrap().mpi_traces.is_empty());
    assert_eq!(rank.counters.status().rejected_for(Rejection::Number), 1);
    // A rank reports once how many records there were, as that passes all limits.
    let end = Record { kind: Kind::End, bytes: 21, ..good };
    for (sequence, taken) in [(3, 2), (4, 0)] {
        let trace = Trace { number: 19, records: vec![good, end, good, end] };
        let batch = rank.take(header(sequence), Frame::Trace(trace), NOW).unwrap();
        assert_eq!(batch.mpi_traces.iter().map(|run| run.records.len()).sum::<usize>(), taken);
    }
    assert_eq!(rank.counters.status().rejected_for(Rejection::Number), 1 + 2 + 4);
}

#[test]
fn numbers_that_no_column_holds_are_rejected() {
    let mut rank = rank();
    let names = vec![
        Name::Communicator(u32::MAX, "x".into(), 2, Some(0)),
        Name::Communicator(1, "x".into(), u32::MAX, None),
        Name::Communicator(2, "x".into(), 2, Some(2)),
        Name::Communicator(3, "x".into(), 2, Some(1)),
        Name::Setting(String::new(), "v".into()),
    ];
    let batch = rank.take(header(1), Frame::Names(5_000_000_000, names), NOW).unwrap();
    assert_eq!((batch.job_comms.len(), batch.job_settings.len()), (1, 0));
    let variable = Variable { name: "q".into(), class: "size", elements: vec![(0, 1.0), (u32::MAX, 1.0)] };
    let batch = rank.take(header(2), Frame::Pvars(5_000_000_000, vec![variable]), NOW).unwrap();
    assert_eq!(batch.mpi_pvars.len(), 1);
    let status = rank.counters.status();
    assert_eq!((status.rejected_for(Rejection::Number), status.rejected_for(Rejection::Name)), (4, 1));
}

#[test]
fn names_are_a_share_of_the_user() {
    let judges = judges(QuotaLimits { name_bytes: 2000, ..QuotaLimits::default() });
    let mut rank = Rank::new(&member(), header(0), NOW, judges.clone());
    let names = (1..=100).map(|number| Name::Region(number, "r".repeat(52))).collect();
    rank.take(header(1), Frame::Names(5_000_000_000, names), NOW).unwrap();
    assert_eq!(rank.counters.status().rejected_for(Rejection::Quota), 90, "half of it are ten names");
    assert!(judges.user.over.is_over());
    drop(rank);
    let mut again = Rank::new(&member(), header(0), NOW, judges);
    let one = vec![Name::Region(1, "r".repeat(52))];
    again.take(header(1), Frame::Names(5_000_000_000, one), NOW).unwrap();
    assert!(again.names.region(1).is_some(), "given back with the rank");
}

#[test]
fn a_start_is_held_against_the_kernel() {
    let hour = 3_600_000_000_000;
    let start = |age, epoch| {
        let process = Process { age_nanoseconds: age, ..Process::default() };
        let hello = Hello { world_size: 1, epoch, ..Hello::default() };
        Member::new(Identity::default(), hello, process, "n1", NOW.utc).start
    };
    assert_eq!(start(Some(30 * hour), NOW.utc - 29 * hour), NOW.utc - 29 * hour);
    assert_eq!(start(Some(30 * hour), NOW.utc - 31 * hour), NOW.utc, "before its process");
    assert_eq!(start(None, NOW.utc - hour / 2), NOW.utc - hour / 2);
    assert_eq!(start(None, NOW.utc - 400 * hour), NOW.utc);
    assert_eq!(start(Some(hour), NOW.utc + hour), NOW.utc, "ahead");
}

#[test]
fn what_a_shim_counts_itself_is_counted_once_over_all_its_connections() {
    let judges = judges(QuotaLimits::default());
    let mut jobs = Jobs::default();
    let mut connect = |number| {
        let mut member = member();
        jobs.join(&member, number);
        member.status = jobs.status("slurm:5.0", &member.key()).unwrap();
        Rank::new(&member, header(0), NOW, judges.clone())
    };
    let unknown = |messages: u64| (2, messages.to_le_bytes());
    let report = |rank: &mut Rank, messages| {
        let (tag, data) = unknown(messages);
        rank.take(header(1), Frame::Status(vec![(tag, &data)]), NOW).unwrap();
    };
    report(&mut connect(1), 32);
    let mut again = connect(2);
    report(&mut again, 32);
    assert_eq!(judges.counters.status().unknown_messages, 32, "the sum of before, once more");
    report(&mut again, 40);
    assert_eq!(judges.counters.status().unknown_messages, 40);
}
