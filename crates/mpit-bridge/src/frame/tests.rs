//! The golden frames, and frames that are wrong.

use super::*;
use crate::welcome::frame;
use crate::welcome::{Tracing, Welcome};
use proptest::prelude::*;

/// Bytes of a golden frame.
fn golden(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn field<'a>(fields: &[Field<'a>], tag: u16) -> &'a [u8] {
    fields.iter().find(|field| field.0 == tag).unwrap().1
}

#[test]
fn golden_hello() {
    let bytes = golden(include_str!("../../protocol/golden/hello.hex"));
    let (header, frame) = decode(&bytes).unwrap();
    assert_eq!(header, Header { sequence: 0, monotonic: 5_000_000_000, realtime: 1_700_000_000_000_000_000 });
    let Frame::Hello(fields) = frame else { panic!("{frame:?}") };
    assert_eq!(number(field(&fields, 2)), Ok(2));
    assert_eq!(number(field(&fields, 3)), Ok(4));
    assert_eq!(number(field(&fields, 4)), Ok(1_699_999_990_000_000_000));
    assert_eq!(field(&fields, 6), b"Open MPI v4.1.4");
    assert_eq!(fields.iter().filter(|field| field.0 == 8).count(), 2);
    assert_eq!(field(&fields, 9), b"hydra node1:4000 0");
}

#[test]
fn golden_operations() {
    let bytes = golden(include_str!("../../protocol/golden/ops.hex"));
    let allreduce = Cell {
        operation: 17,
        size_class_bytes: 8192,
        region: 3,
        algorithm: 2,
        algorithm_source: AlgorithmSource::Observed,
        calls: 10,
        bytes: 81_920,
        elapsed_nanoseconds: 123_456,
        longest_nanoseconds: 20_000,
        least_nanoseconds: None,
        wait_nanoseconds: None,
        received_bytes: None,
    };
    let irecv = Cell {
        operation: 10,
        size_class_bytes: 0,
        region: 0,
        algorithm: 0,
        algorithm_source: AlgorithmSource::None,
        calls: 3,
        bytes: 0,
        elapsed_nanoseconds: 999,
        longest_nanoseconds: 500,
        least_nanoseconds: None,
        wait_nanoseconds: Some(77),
        received_bytes: Some(0),
    };
    let unknown = AlgorithmSource::Unknown;
    let later = Cell { calls: 11, algorithm: 0, algorithm_source: unknown, ..allreduce };
    let expected = Frame::Ops(vec![
        Bin { end: 4_800_000_000, cells: vec![allreduce, irecv] },
        Bin { end: 4_900_000_000, cells: vec![later] },
    ]);
    assert_eq!(decode(&bytes).unwrap().1, expected);
    assert_eq!(crate::operation_name(17), Some("allreduce"));
    assert_eq!(crate::operation_name(131), Some("waitall"));
}

#[test]
fn golden_peers() {
    let bytes = golden(include_str!("../../protocol/golden/peers.hex"));
    let peers = vec![
        Peer { peer: 0, kind: PeerKind::Logical, bytes: 8192, messages: 1 },
        Peer { peer: 3, kind: PeerKind::Wire, bytes: u64::MAX >> 1, messages: 12 },
        Peer { peer: 2, kind: PeerKind::Read, bytes: 4096, messages: 5 },
    ];
    assert_eq!(decode(&bytes).unwrap().1, Frame::Peers(4_950_000_000, peers));
}

#[test]
fn golden_names() {
    let bytes = golden(include_str!("../../protocol/golden/names.hex"));
    let names = vec![
        Name::Region(3, "solve é".into()),
        Name::Algorithm(2, "recursivedoubling".into()),
        Name::Communicator(5, "rows".into(), 8, Some(1)),
        Name::Communicator(6, "bridge".into(), 4, None),
        Name::Setting("coll_tuned_allreduce_algorithm".into(), "3".into()),
    ];
    assert_eq!(decode(&bytes).unwrap().1, Frame::Names(4_950_000_000, names));
}

#[test]
fn golden_regions() {
    let bytes = golden(include_str!("../../protocol/golden/regions.hex"));
    let region = Region {
        number: 3,
        visits: 4,
        elapsed_nanoseconds: 5_000,
        own_nanoseconds: 3_000,
        mpi_calls: 7,
        mpi_nanoseconds: 2_000,
    };
    assert_eq!(decode(&bytes).unwrap().1, Frame::Regions(4_950_000_000, vec![region]));
    let bytes = golden(include_str!("../../protocol/golden/paths.hex"));
    let path = Region {
        number: 2,
        visits: 1,
        elapsed_nanoseconds: 4_000,
        own_nanoseconds: 3_500,
        mpi_calls: 6,
        mpi_nanoseconds: 1_500,
    };
    assert_eq!(decode(&bytes).unwrap().1, Frame::Paths(4_950_000_000, vec![path]));
    // Names of paths came later than the golden frame of names: kind 5, number 2, in path 1.
    let mut body = bytes[..40].to_vec();
    body[6] = 8;
    body.extend([5, 0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'a']);
    let length = u32::try_from(body.len()).unwrap();
    body[8..12].copy_from_slice(&length.to_le_bytes());
    let names = vec![Name::Path(2, "a".into(), 1)];
    assert_eq!(decode(&body).unwrap().1, Frame::Names(4_950_000_000, names));
}

#[test]
fn golden_traffic() {
    use crate::traffic_frame::{CollectiveKey, Root, Run, TrafficKind};
    let bytes = golden(include_str!("../../protocol/golden/traffic.hex"));
    let all = vec![
        Traffic { peer: 3, operation: 87, kind: TrafficKind::Read, bytes: 4096, messages: 2 },
        Traffic { peer: 1, operation: 17, kind: TrafficKind::Wire, bytes: u64::MAX >> 1, messages: 9 },
    ];
    assert_eq!(decode(&bytes).unwrap().1, Frame::Traffic(4_950_000_000, all));
    let bytes = golden(include_str!("../../protocol/golden/groups.hex"));
    let run = |start, stride, count| Run { start, stride, count };
    let runs = vec![run(9, -3, 4), run(u32::MAX, 0, 2)];
    let parts = vec![
        GroupPart { number: 7, generation: 2, size: 6, rank: Some(1), first: 0, runs },
        GroupPart { number: 8, generation: 1, size: 100, rank: None, first: 50, runs: vec![run(50, 1, 50)] },
    ];
    assert_eq!(decode(&bytes).unwrap().1, Frame::Groups(parts));
    let bytes = golden(include_str!("../../protocol/golden/own_groups.hex"));
    let own =
        GroupPart { number: 8, generation: 1, size: 3, rank: Some(2), first: 0, runs: vec![run(5, 2, 3)] };
    assert_eq!(decode(&bytes).unwrap().1, Frame::OwnGroups(vec![own]));
    let bytes = golden(include_str!("../../protocol/golden/collectives.hex"));
    let root = Root::Member(5);
    let bcast = CollectiveKey { group: 7, operation: 15, size_class: 14, algorithm: 4, root };
    let barrier = CollectiveKey { group: 8, operation: 128, size_class: 0, algorithm: 0, root: Root::None };
    let all = vec![
        Collective { key: bcast, calls: 3, bytes: 24_576 },
        Collective { key: barrier, calls: 4, bytes: 0 },
    ];
    assert_eq!(decode(&bytes).unwrap().1, Frame::Collectives(4_950_000_000, all));
}

#[test]
fn golden_open_calls() {
    use crate::open_frame::{OpenCall, OpenCalls, OpenOn};
    let bytes = golden(include_str!("../../protocol/golden/open.hex"));
    let hung = OpenCall {
        operation: 131,
        thread: 2,
        oldest_request: 10,
        start: 4_200_000_000,
        on: OpenOn::Unnamed,
        comm_size: None,
        peer: None,
        is_from_any: false,
        tag: None,
        requests: 2,
        pending_requests: 3,
        oldest_peer: None,
        oldest_tag: Some(12),
    };
    let bcast = OpenCall {
        operation: 15,
        thread: 0,
        oldest_request: 0,
        start: -7,
        on: OpenOn::World,
        comm_size: Some(4),
        peer: Some(3),
        is_from_any: false,
        tag: None,
        requests: 0,
        pending_requests: 0,
        oldest_peer: None,
        oldest_tag: None,
    };
    let expected = OpenCalls { threads: 3, threads_to_come: 1, calls: vec![hung, bcast] };
    assert_eq!(decode(&bytes).unwrap().1, Frame::Open(4_950_000_000, expected));
}

#[test]
fn golden_account() {
    use crate::account_frame::Account;
    let bytes = golden(include_str!("../../protocol/golden/account.hex"));
    let account = Account {
        time: 4_950_000_000,
        tid: 4712,
        began: 1_000_000_000,
        open: Some(4_900_000_000),
        in_mpi: 700_000_000,
        read_time: 4_890_000_000,
        read_cpu: 3_100_000_000,
        read_queued: 250_000_000,
        off_outside: 600_000_000,
        off_inside: 90_000_000,
        queued_outside: 200_000_000,
        queued_inside: 50_000_000,
    };
    assert_eq!(decode(&bytes).unwrap().1, Frame::Account(account));
}

#[test]
fn names_are_of_one_line_and_bounded() {
    let entry = |kind: u16, text: &[u8]| {
        let length = u16::try_from(text.len()).unwrap();
        let head = [kind.to_le_bytes(), length.to_le_bytes()].concat();
        let body = [&5_i64.to_le_bytes()[..], &head, &[1, 0, 0, 0], &[0; 8], text].concat();
        decode(&frame(8, 1, 2, 3, &body)).map(|read| format!("{:?}", read.1))
    };
    assert_eq!(entry(1, b"a\nb\xff").unwrap(), "Names(5, [Region(1, \"a\u{fffd}b\u{fffd}\")])");
    assert_eq!(entry(9, b"of a newer shim").unwrap(), "Names(5, [])");
    assert_eq!(entry(1, b""), Err(Malformed::Body));
    assert_eq!(entry(2, &[b'x'; 256]), Err(Malformed::Body));
    assert_eq!(entry(4, b"no value"), Err(Malformed::Body));
}

#[test]
fn golden_variables() {
    let bytes = golden(include_str!("../../protocol/golden/pvars.hex"));
    let variable = Variable { name: "queue_size".into(), class: "size", elements: vec![(1, 3.0), (5, 0.0)] };
    assert_eq!(decode(&bytes).unwrap().1, Frame::Pvars(4_950_000_000, vec![variable]));
}

#[test]
fn golden_status_and_bye() {
    let bytes = golden(include_str!("../../protocol/golden/status.hex"));
    let (_, Frame::Status(fields)) = decode(&bytes).unwrap() else { panic!() };
    assert_eq!(
        fields.iter().map(|field| number(field.1).unwrap()).collect::<Vec<_>>(),
        [10, 20, 30, 40, 50, 60, 70, 80]
    );
    let bytes = golden(include_str!("../../protocol/golden/bye.hex"));
    let (header, Frame::Bye(fields)) = decode(&bytes).unwrap() else { panic!() };
    assert_eq!(header.sequence, 5);
    assert_eq!(number(field(&fields, 32)), Ok(1));
}

#[test]
fn golden_welcome() {
    let welcome = Welcome {
        bin_milliseconds: Some(50),
        push_milliseconds: Some(500),
        variables: Some(vec!["one".into(), "two".into()]),
        peer_bytes: Some(4096),
        wire: Some(true),
        trace: Some(Tracing::Requested),
        trace_records_per_second: Some(50_000),
        trace_records_of_job: Some(20_000_000),
    };
    let bytes = welcome.encode(7, 5_000_000_000, 1_700_000_000_000_000_000);
    assert_eq!(bytes, golden(include_str!("../../protocol/golden/welcome.hex")));
    assert_eq!(decode(&bytes), Err(Malformed::Type), "a rank may not say it");
}

#[test]
fn each_error_has_its_reason() {
    let good = golden(include_str!("../../protocol/golden/ops.hex"));
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        decode(&bytes).unwrap_err()
    };
    assert_eq!(decode(&[]), Err(Malformed::Short));
    assert_eq!(decode(&good[..31]), Err(Malformed::Short));
    assert_eq!(decode(&good[..good.len() - 1]), Err(Malformed::Length));
    assert_eq!(decode(&vec![0; FRAME_BYTES + 1]), Err(Malformed::TooLong));
    assert_eq!(changed(0, b'X'), Malformed::Magic);
    assert_eq!(changed(4, 9), Malformed::Version);
    assert_eq!(changed(40, 200), Malformed::Body, "more cells than there are bytes");
    assert_eq!(changed(50, 64), Malformed::Body, "a size class beyond 63 bits");
    assert_eq!(changed(56, 5), Malformed::Body, "a source of algorithms that there is not");
    assert_eq!(number(&[0; 9]), Err(Malformed::Field));
    assert_eq!(number(&[]), Err(Malformed::Field));
}

#[test]
fn shares_of_the_least_time_are_of_the_elapsed_time() {
    let bytes = golden(include_str!("../../protocol/golden/ops_least.hex"));
    let Frame::Ops(bins) = decode(&bytes).unwrap().1 else { panic!("not OPS") };
    let cell = &bins[0].cells[0];
    assert_eq!((cell.elapsed_nanoseconds, cell.least_nanoseconds), (5000, Some(1250)));
}

#[test]
fn samples_are_read() {
    let bytes = golden(include_str!("../../protocol/golden/samples.hex"));
    let Frame::Samples(samples) = decode(&bytes).unwrap().1 else { panic!("not SAMPLES") };
    let root = crate::traffic_frame::Root::Member(5);
    let key = crate::CollectiveKey { group: 7, operation: 15, size_class: 14, algorithm: 4, root };
    assert_eq!(samples, [Sample { key, level: 3, call: 377, nanoseconds: 81_500 }]);
}

#[test]
fn unknown_types_are_distinguished() {
    let mut bytes = golden(include_str!("../../protocol/golden/ops.hex"));
    bytes[6] = 99;
    assert_eq!(decode(&bytes).unwrap().1, Frame::Unknown(99));
}

#[test]
fn names_of_variables_are_checked() {
    let mut bytes = golden(include_str!("../../protocol/golden/pvars.hex"));
    let at = bytes.windows(5).position(|window| window == b"queue").unwrap();
    bytes[at] = b'\n';
    assert_eq!(decode(&bytes), Err(Malformed::Body));
}

proptest! {
    #[test]
    fn anything_is_read_or_refused(
        kind in 0_u16..24,
        body in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let _ = decode(&frame(kind, 1, 2, 3, &body));
        let _ = decode(&body);
    }
}
