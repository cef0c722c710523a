//! Bytes of subnet administration as opensm sends them, RMPP by a scripted sender, and anything at all.
#![allow(clippy::unwrap_used)]

use super::rmpp::{FLAG_ACTIVE, FLAG_FIRST, FLAG_LAST, Header, Receiver, Step, TYPE_DATA, WINDOW};
use super::*;
use crate::mad::MAD_BYTES;
use proptest::prelude::*;

/// Segments of a message with these data, as the kernel's RMPP makes them.
fn segments(data: &[u8]) -> Vec<Mad> {
    let chunks: Vec<&[u8]> = if data.is_empty() { vec![&[]] } else { data.chunks(DATA_BYTES).collect() };
    let count = chunks.len();
    let segment = |(number, chunk): (usize, &&[u8])| {
        let mut mad = [0; MAD_BYTES];
        header(&mut mad, METHOD_GET_TABLE_RESP, attribute::NODE, 7);
        mad[HEADER_BYTES..HEADER_BYTES + chunk.len()].copy_from_slice(chunk);
        let (is_first, is_last) = (number == 0, number + 1 == count);
        let first = if is_first { FLAG_FIRST } else { 0 };
        let last = if is_last { FLAG_LAST } else { 0 };
        let length = match (is_first, is_last) {
            (_, true) => chunk.len() + 20,
            (true, false) => data.len() + 20 * count,
            _ => 0,
        };
        let rmpp = Header {
            version: 1,
            kind: TYPE_DATA,
            flags: FLAG_ACTIVE | first | last,
            status: 0,
            segment: number as u32 + 1,
            length_or_window: length as u32,
        };
        rmpp.write(&mut mad);
        mad
    };
    chunks.iter().enumerate().map(segment).collect()
}

#[test]
fn segments_become_a_message() {
    for length in [0, 1, 199, 200, 201, 400, 100_001] {
        let data: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        let mut receiver = Receiver::new(1 << 20);
        let sent = segments(&data);
        let mut acknowledged = 0;
        for (number, segment) in sent.iter().enumerate() {
            let step = receiver.take(segment);
            if number + 1 == sent.len() {
                assert_eq!(step, Step::Complete);
            } else if step == Step::Acknowledge {
                let mut mad = [0; MAD_BYTES];
                receiver.acknowledge(&mut mad, segment);
                let header = Header::read(&mad);
                assert_eq!(
                    (header.segment, header.length_or_window),
                    (number as u32 + 1, number as u32 + 1 + WINDOW)
                );
                assert_eq!(mad[3], METHOD_GET_TABLE, "an acknowledgement is no answer");
                acknowledged += 1;
            } else {
                assert_eq!(step, Step::Wait);
            }
        }
        assert_eq!(acknowledged, if sent.len() > 1 { 1 + (sent.len() - 2) / WINDOW as usize } else { 0 });
        // A repetition of the end is acknowledged again.
        assert_eq!(receiver.take(sent.last().unwrap()), Step::Acknowledge);
        let message = receiver.into_message();
        assert_eq!(message[HEADER_BYTES..], data);
        assert_eq!(Answer::read(&message).unwrap().transaction(), 7);
    }
}

#[test]
fn lost_and_repeated_segments_are_asked_for_again() {
    let data = vec![5; 1000];
    let sent = segments(&data);
    let mut receiver = Receiver::new(1 << 20);
    assert_eq!(receiver.take(&sent[0]), Step::Acknowledge);
    assert_eq!(receiver.take(&sent[2]), Step::Acknowledge, "out of order");
    let mut mad = [0; MAD_BYTES];
    receiver.acknowledge(&mut mad, &sent[2]);
    assert_eq!(Header::read(&mad).segment, 1, "the last good one");
    assert_eq!(receiver.take(&sent[0]), Step::Acknowledge, "repeated");
    for segment in &sent[1..4] {
        assert_eq!(receiver.take(segment), Step::Wait);
    }
    assert_eq!(receiver.take(&sent[4]), Step::Complete);
    assert_eq!(receiver.into_message()[HEADER_BYTES..], data);
}

#[test]
fn long_messages_and_nonsense_are_aborted() {
    let sent = segments(&[1; 600]);
    let mut receiver = Receiver::new(HEADER_BYTES + 500);
    assert_eq!(receiver.take(&sent[0]), Step::Acknowledge);
    assert_eq!(receiver.take(&sent[1]), Step::Wait);
    assert_eq!(receiver.take(&sent[2]), Step::Abort(rmpp::STATUS_UNSPECIFIED));
    let mut wrong = sent[1];
    wrong[26] |= FLAG_FIRST;
    assert_eq!(Receiver::new(1 << 20).take(&wrong), Step::Abort(rmpp::STATUS_INCONSISTENT));
    let mut stopped = sent[0];
    stopped[25] = rmpp::TYPE_STOP;
    assert_eq!(Receiver::new(1 << 20).take(&stopped), Step::Stopped);
}

#[test]
fn cut_and_whole_messages_are_told_apart() {
    let mut cut = [0; MAD_BYTES];
    header(&mut cut, METHOD_GET_TABLE_RESP, attribute::NODE, 7);
    cut[26] = FLAG_ACTIVE;
    assert!(Answer::read(&cut).unwrap().is_cut());
    assert!(!Answer::read(&cut[..120]).unwrap().is_cut(), "what fits is whole");
    let sent = segments(&[1; 600]);
    assert!(!Answer::read(&sent[0]).unwrap().is_cut());
    assert!(sent.iter().all(|segment| Header::read(segment).is_segment(MAD_BYTES)));
    let only = &segments(&[1; 100])[0];
    assert!(!Header::read(only).is_segment(MAD_BYTES), "one segment is the message");
    assert!(!Header::read(&sent[0]).is_segment(MAD_BYTES + 1), "put together already");
}

#[test]
fn requests_are_laid_out_as_specified() {
    let mut mad = [0xAA; MAD_BYTES];
    let query = Query::of_lid(attribute::PORT_INFO, 0x1234).with(1, 2, &[9]);
    build_get(&mut mad, &query, true, 0x0102_0304_0506_0708, 0xCAFE);
    assert_eq!(mad[..4], [1, 3, 2, 0x12]);
    assert_eq!(mad[12..20], [0, 0, 0xCA, 0xFE, 0, 0x12, 0, 0]);
    assert_eq!(mad[36..44], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(mad[48..56], [0, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(mad[56..60], [0x12, 0x34, 9, 0]);
    assert!(mad[60..].iter().all(|byte| *byte == 0));
    assert_eq!(query.with(2, 63, &[1, 2]), query, "beyond the template");

    let inform = InformInfo { subscribe: true, number: None, queue_pair: 0 }.query().template;
    assert_eq!(inform[16..18], [0xFF, 0xFF]);
    assert_eq!(inform[22..28], [1, 1, 0xFF, 0xFF, 0xFF, 0xFF]);
    assert_eq!(inform[28..36], [0, 0, 0, 19, 0, 0xFF, 0xFF, 0xFF]);
    assert!(InformInfo::is_subscribed(&inform));
    assert!(!InformInfo::is_subscribed(&[1; 8]));
}

#[test]
fn notices_name_their_subject() {
    let mut data = [0; 80];
    data[0] = 0x84;
    data[3] = 4;
    data[5] = 64;
    data[16..32].copy_from_slice(&0xfe80_0000_0000_0000_0002_c903_0000_0001_u128.to_be_bytes());
    let notice = Notice::decode(&data).unwrap();
    assert_eq!((notice.number, notice.producer, notice.severity), (64, Producer::Manager, 4));
    assert_eq!(notice.guid().unwrap().0, 0x0002_c903_0000_0001);
    data = [0; 80];
    data[0] = 0x81;
    data[3] = 2;
    data[5] = 128;
    data[10..12].copy_from_slice(&[0, 17]);
    let notice = Notice::decode(&data).unwrap();
    assert_eq!(notice.subject, Subject::Lid { lid: 17, port: None });
    data[5] = 131;
    data[12..15].copy_from_slice(&[0, 18, 5]);
    assert_eq!(Notice::decode(&data).unwrap().subject, Subject::Lid { lid: 18, port: Some(5) });
    data[0] = 0;
    assert_eq!(Notice::decode(&data).unwrap().subject, Subject::Unknown, "a vendor's own");
}

#[test]
fn reports_are_answered_with_themselves() {
    let mut report = [0; MAD_BYTES];
    header(&mut report, METHOD_REPORT, attribute::NOTICE, 9);
    report[8] = 0x77; // The upper half of the transaction ID is the sender's.
    report[100] = 5;
    let mut mad = [0; MAD_BYTES];
    assert!(build_report_response(&mut mad, &report));
    assert_eq!(mad[3], METHOD_REPORT_RESP);
    report[3] = METHOD_REPORT_RESP;
    assert_eq!(mad, report);
    assert!(!build_report_response(&mut mad, &report), "an answer is not answered");
    assert!(!build_report_response(&mut mad, &report[..20]));
}

#[test]
fn statuses_speak() {
    assert_eq!(Status::DENIED.text(), "the request is denied");
    assert_eq!(Status::NO_RECORDS.to_string(), "there is no such record (status 0x0300)");
    assert_eq!(Status(0x000C).text(), "the method is not supported for this attribute");
    assert!(Status(0x0001).is_busy());
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = NodeRecord::decode(&bytes);
        let _ = PortInfoRecord::decode(&bytes);
        let _ = SwitchInfoRecord::decode(&bytes);
        let _ = LinkRecord::decode(&bytes);
        let _ = ForwardingBlock::decode(&bytes);
        let _ = MulticastBlock::decode(&bytes);
        let _ = SmInfoRecord::decode(&bytes);
        let _ = McMember::decode(&bytes);
        let _ = PathRecord::decode(&bytes);
        let _ = Notice::decode(&bytes);
        let _ = InformInfo::is_subscribed(&bytes);
        let mut receiver = Receiver::new(300);
        receiver.take(&bytes);
        let mut mad = [0; MAD_BYTES];
        receiver.acknowledge(&mut mad, &bytes);
        build_report_response(&mut mad, &bytes);
        if let Some(answer) = Answer::read(&bytes) {
            prop_assert!(answer.records().all(|record| !record.is_empty()));
            let _ = (answer.is_cut(), answer.status().to_string(), answer.key());
        }
    }
}
