//! The golden frames of trace mode, and bodies that are wrong.

use super::*;
use crate::frame::{Frame, decode};
use proptest::prelude::*;

fn golden(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

const SEND: Record = Record {
    kind: Kind::Send,
    start: 4_700_000_000,
    end: 4_700_001_500,
    comm: 0x0123_4567_89ab_cdef,
    bytes: 4096,
    peer: Some(3),
    tag: 17,
    sequence: Some(41),
    operation: 1,
    thread: 0,
    region: 2,
};

#[test]
fn golden_trace() {
    let bytes = golden(include_str!("../../protocol/golden/trace.hex"));
    let wait = Record {
        kind: Kind::Call,
        start: 4_700_002_000,
        end: 4_700_902_000,
        comm: 0,
        bytes: 0,
        peer: None,
        tag: 0,
        sequence: None,
        operation: 131,
        thread: 1,
        region: 0,
    };
    let expected = Trace { number: 1_000_000_000_000, records: vec![SEND, wait] };
    assert_eq!(decode(&bytes).unwrap().1, Frame::Trace(expected));
}

#[test]
fn golden_clock() {
    let bytes = golden(include_str!("../../protocol/golden/clock.hex"));
    let point = |time, offset| Point { time, offset, uncertainty: 6_001, round_trip: 12_000 };
    let points = vec![point(4_600_000_000, -50_000_000), point(4_700_000_000, 50_000_123)];
    assert_eq!(decode(&bytes).unwrap().1, Frame::Clock(Comparisons { number: 7, points }));
}

#[test]
fn what_has_no_meaning_is_absent() {
    let sent = SEND.to_wire("send", "solve");
    assert_eq!((sent.peer, sent.tag, sent.sequence, sent.nanoseconds), (Some(3), Some(17), Some(41), 1500));
    let waited = Record { kind: Kind::Call, peer: None, ..SEND }.to_wire("wait", "");
    assert_eq!((waited.kind.as_str(), waited.peer, waited.tag, waited.sequence), ("call", None, None, None));
}

#[test]
fn impossible_records_are_refused() {
    let body = |start: i64, end: i64, kind: u16| {
        let mut body = [0; 8 + RECORD_BYTES];
        body[8..16].copy_from_slice(&start.to_le_bytes());
        body[16..24].copy_from_slice(&end.to_le_bytes());
        body[54..56].copy_from_slice(&kind.to_le_bytes());
        trace(&body)
    };
    assert_eq!(body(5, 9, 1).unwrap().records.len(), 1);
    assert_eq!(body(9, 5, 1).unwrap().records[0].end, 9);
    for (start, end, kind) in [(5, 9, 0), (5, 9, 7), (-1, 9, 1), (0, i64::MAX, 1), (i64::MAX, i64::MIN, 1)] {
        assert_eq!(body(start, end, kind), Err(Malformed::Body), "{start} {end} {kind}");
    }
    assert_eq!(trace(&[0; 8 + RECORD_BYTES + 1]), Err(Malformed::Body));
    assert_eq!(trace(&[0; 7]), Err(Malformed::Body));
    assert_eq!(trace(&[0; 8]).unwrap().records, []);
    assert_eq!(comparisons(&[0xff; 8 + POINT_BYTES]), Err(Malformed::Body));
}

proptest! {
    #[test]
    fn anything_is_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        for record in trace(&body).map(|trace| trace.records).unwrap_or_default() {
            prop_assert!(record.end >= record.start && record.start >= 0);
            let _ = record.to_wire("send", "");
        }
        for point in comparisons(&body).map(|all| all.points).unwrap_or_default() {
            prop_assert!(point.uncertainty >= 0 && point.time.checked_add(point.offset).is_some());
        }
    }
}
