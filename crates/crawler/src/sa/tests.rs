//! The client against a scripted administrator.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::transport::{Arrival, Destination, Message, Transport, TransportError};
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use throughline_infiniband::key::Key;
use throughline_infiniband::mad::sa::rmpp::{
    FLAG_ACTIVE, FLAG_FIRST, FLAG_LAST, Header, TYPE_ACK, TYPE_DATA,
};
use throughline_infiniband::mad::sa::{
    DATA_BYTES, HEADER_BYTES, METHOD_GET_TABLE, METHOD_REPORT, METHOD_REPORT_RESP, NodeRecord, Query, trap,
};
use throughline_infiniband::mad::{MAD_BYTES, Mad};

static GO: AtomicBool = AtomicBool::new(false);

/// What the administrator does with each MAD that it gets.
type Script = Box<dyn FnMut(&Mad, &mut VecDeque<Vec<u8>>) + Send>;

/// A transport with a clock of its own: waiting costs no time.
struct Scripted {
    script: Script,
    arriving: VecDeque<Vec<u8>>,
    sent: Arc<Mutex<Vec<(Mad, Destination)>>>,
    start: Instant,
    elapsed: Duration,
}

impl Transport for Scripted {
    fn send(&mut self, mad: &Mad, to: Destination, _timeout: Duration) -> Result<(), TransportError> {
        self.sent.lock().unwrap().push((*mad, to));
        (self.script)(mad, &mut self.arriving);
        Ok(())
    }

    fn now(&self) -> Instant {
        self.start + self.elapsed
    }

    fn receive(&mut self, _mad: &mut Mad, _wait: Duration) -> Result<Arrival, TransportError> {
        unreachable!("only messages are taken")
    }

    fn receive_message(&mut self, message: &mut Message, wait: Duration) -> Result<Arrival, TransportError> {
        match self.arriving.pop_front() {
            Some(bytes) => {
                *message = Message { bytes, from_lid: 1, from_service_level: 3 };
                Ok(Arrival::Reply)
            }
            None => {
                self.elapsed += wait;
                Ok(Arrival::Nothing)
            }
        }
    }
}

type Sent = Arc<Mutex<Vec<(Mad, Destination)>>>;

fn client(script: impl FnMut(&Mad, &mut VecDeque<Vec<u8>>) + Send + 'static) -> (Client, Sent) {
    let sent = Sent::default();
    let transport = Scripted {
        script: Box::new(script),
        arriving: VecDeque::new(),
        sent: sent.clone(),
        start: Instant::now(),
        elapsed: Duration::ZERO,
    };
    (Client::new(Box::new(transport), 1, 3, Settings::default()), sent)
}

/// The answer to a request: its headers with another method, a stride in bytes and these data.
fn answer(request: &Mad, stride: usize, data: &[u8]) -> Vec<u8> {
    let mut message = request[..HEADER_BYTES].to_vec();
    message[3] |= 0x80;
    message[44..46].copy_from_slice(&((stride / 8) as u16).to_be_bytes());
    message.extend_from_slice(data);
    message
}

fn with_status(request: &Mad, status: u16) -> Vec<u8> {
    let mut message = answer(request, 0, &[]);
    message[4..6].copy_from_slice(&status.to_be_bytes());
    message
}

#[test]
fn whole_tables_are_taken_apart() {
    let (mut client, sent) = client(|mad, arriving| {
        let records: Vec<u8> = (0..1000_u16)
            .flat_map(|lid| {
                let mut record = [0; 112];
                record[..2].copy_from_slice(&lid.to_be_bytes());
                record
            })
            .collect();
        let mut message = answer(mad, 112, &records);
        message[26] = FLAG_ACTIVE | FLAG_FIRST;
        message[25] = TYPE_DATA;
        message[31] = 1;
        arriving.push_back(message);
    });
    let records = client.table(&Query::all(attribute::NODE), &GO).unwrap();
    let lids: Vec<u16> = records.decoded(NodeRecord::decode).map(|record| record.lid).collect();
    assert_eq!(lids, (0..1000).collect::<Vec<_>>());
    let (mad, to) = sent.lock().unwrap()[0];
    assert_eq!(mad[3], METHOD_GET_TABLE);
    assert_eq!(to, Destination::Lid { lid: 1, service_level: 3 });
}

#[test]
fn segments_are_put_together_and_acknowledged() {
    let data: Vec<u8> = (0..10_000).map(|byte| byte as u8).collect();
    let whole = data.clone();
    let mut acknowledged = 0;
    let (mut client, sent) = client(move |mad, arriving| {
        let count = whole.len().div_ceil(DATA_BYTES);
        let window = match Header::read(mad) {
            Header { kind: TYPE_ACK, segment, length_or_window, .. } => {
                acknowledged = segment as usize;
                length_or_window as usize
            }
            _ => 1,
        };
        for number in acknowledged + 1..=window.min(count) {
            // A segment is lost the first time round: the acknowledgement of another one brings it back.
            let chunk = &whole[(number - 1) * DATA_BYTES..whole.len().min(number * DATA_BYTES)];
            let mut segment = answer(mad, 8, chunk);
            segment[3] = METHOD_GET_TABLE | 0x80;
            segment.resize(MAD_BYTES, 0);
            let mut bytes: Mad = segment.try_into().unwrap();
            let first = if number == 1 { FLAG_FIRST } else { 0 };
            let last = if number == count { FLAG_LAST } else { 0 };
            let header = Header {
                version: 1,
                kind: TYPE_DATA,
                flags: FLAG_ACTIVE | first | last,
                status: 0,
                segment: number as u32,
                length_or_window: if number == count { chunk.len() as u32 + 20 } else { 0 },
            };
            header.write(&mut bytes);
            arriving.push_back(bytes.to_vec());
        }
    });
    let records = client.table(&Query::all(attribute::LINK), &GO).unwrap();
    assert_eq!(records.iter().flatten().copied().collect::<Vec<u8>>(), data);
    let acks = sent.lock().unwrap().iter().filter(|(mad, _)| Header::read(mad).kind == TYPE_ACK).count();
    assert_eq!(acks, 2, "the first segment, and the last one");
    assert_eq!(client.stats().timeouts, 0);
}

#[test]
fn answers_that_are_cut_are_told() {
    let (mut client, _) = client(|mad, arriving| {
        let mut message = answer(mad, 112, &[0; DATA_BYTES]);
        message[26] = FLAG_ACTIVE;
        arriving.push_back(message);
    });
    let error = client.table(&Query::all(attribute::NODE), &GO).unwrap_err();
    assert_eq!(error, SaError::Cut { attribute: attribute::NODE });
}

#[test]
fn silence_busyness_and_refusals_end() {
    let (mut silent, sent) = client(|_, _| {});
    let query = Query::of_lid(attribute::NODE, 5);
    let error = silent.get(&query, &GO).unwrap_err();
    assert_eq!(error, SaError::Silent { attribute: attribute::NODE, lid: 1, attempts: 3 });
    assert!(error.to_string().contains("LID 1 does not answer NodeRecord"), "{error}");
    assert_eq!(sent.lock().unwrap().len(), 3);
    assert_eq!((silent.stats().timeouts, silent.stats().retries), (1, 2));

    let mut requests = 0;
    let (mut busy, _) = client(move |mad, arriving| {
        requests += 1;
        arriving.push_back(if requests < 20 { with_status(mad, 1) } else { answer(mad, 0, &[9; 200]) });
    });
    assert_eq!(busy.get(&query, &GO).unwrap().unwrap(), [9; 200]);
    assert_eq!(busy.stats().timeouts, 0);

    let (mut none, _) = client(|mad, arriving| arriving.push_back(with_status(mad, 0x0300)));
    assert_eq!(none.get(&query, &GO).unwrap(), None);
    assert_eq!(none.table(&query, &GO).unwrap().iter().count(), 0);
    let (mut denied, _) = client(|mad, arriving| arriving.push_back(with_status(mad, 0x0700)));
    let error = denied.get(&query, &GO).unwrap_err().to_string();
    assert!(error.contains("refuses NodeRecord: the request is denied"), "{error}");
    let (mut nobody, _) = client(|_, _| {});
    nobody.set_manager(0, 0);
    assert_eq!(nobody.get(&query, &GO).unwrap_err(), SaError::NoManager);
    assert_eq!(nobody.get(&query, &AtomicBool::new(true)).unwrap_err(), SaError::NoManager);
}

#[test]
fn late_and_foreign_answers_are_not_mistaken() {
    let mut first = None;
    let (mut client, _) = client(move |mad, arriving| match first.take() {
        None => first = Some(answer(mad, 0, &[1; 200])),
        Some(late) => {
            arriving.push_back(late);
            let mut foreign = answer(mad, 0, &[2; 200]);
            foreign[17] = 0x38;
            arriving.push_back(foreign);
            arriving.push_back(vec![1, 2, 3]);
            arriving.push_back(answer(mad, 0, &[3; 200]));
        }
    });
    let record = client.get(&Query::of_lid(attribute::NODE, 5), &GO).unwrap().unwrap();
    assert_eq!(record, [3; 200]);
    assert_eq!(client.stats().unexpected, 3);
}

#[test]
fn many_queries_are_asked_side_by_side() {
    let mut waiting: Vec<Vec<u8>> = Vec::new();
    let (mut client, _) = client(move |mad, arriving| {
        waiting.push(answer(mad, 0, &mad[HEADER_BYTES..HEADER_BYTES + 2]));
        // Nothing comes before a whole window is there, and then backwards.
        if waiting.len() == Settings::default().window {
            arriving.extend(waiting.drain(..).rev());
        }
    });
    let queries: Vec<Query> = (0..64).map(|lid| Query::of_lid(attribute::NODE, lid)).collect();
    let mut found = vec![0; queries.len()];
    let mut done = |index: usize, record: Result<Option<&[u8]>, SaError>| {
        let record = record.unwrap().unwrap();
        assert_eq!(u16::from_be_bytes([record[0], record[1]]), index as u16);
        found[index] += 1;
    };
    client.get_many(&queries, &GO, &mut done).unwrap();
    assert!(found.iter().all(|count| *count == 1));
}

fn report(number: u16, lid: u16) -> Vec<u8> {
    let mut message = vec![0; MAD_BYTES];
    message[..4].copy_from_slice(&[1, 3, 2, METHOD_REPORT]);
    message[8..16].copy_from_slice(&[9; 8]);
    message[17] = 2;
    message[HEADER_BYTES] = 0x81;
    message[HEADER_BYTES + 3] = 2;
    message[HEADER_BYTES + 4..HEADER_BYTES + 6].copy_from_slice(&number.to_be_bytes());
    message[HEADER_BYTES + 10..HEADER_BYTES + 12].copy_from_slice(&lid.to_be_bytes());
    message
}

#[test]
fn reports_are_answered_and_kept() {
    let (mut client, sent) = client(|mad, arriving| {
        if mad[3] == 2 {
            let subscribed = answer(mad, 0, &mad[HEADER_BYTES..]);
            let mut subscribed = subscribed;
            subscribed[3] = 0x81;
            // The Report overtakes the confirmation.
            arriving.push_back(report(trap::LINK_STATE, 7));
            arriving.push_back(subscribed);
            arriving.push_back(report(trap::LINK_STATE, 8));
        }
    });
    client.subscribe(None, &GO).unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| client.report(Duration::from_millis(5)).unwrap()).collect();
    let lids: Vec<_> = taken.iter().map(|report| report.notice.subject).collect();
    use throughline_infiniband::mad::sa::Subject::Lid;
    assert_eq!(lids, [Lid { lid: 7, port: None }, Lid { lid: 8, port: None }]);
    let sent = sent.lock().unwrap();
    let answers: Vec<_> = sent.iter().filter(|(mad, _)| mad[3] == METHOD_REPORT_RESP).collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0].0[8..16], [9; 8], "the sender's transaction");
    assert_eq!(client.stats().reports, 2);
}

#[test]
fn members_are_asked_without_a_key_where_it_is_wrong() {
    let (mut client, _) = client(|mad, arriving| {
        // As opensm: a wrong key is not answered.
        if mad[36..44] == [0; 8] {
            let mut message = answer(mad, 56, &[0; 112]);
            message[31] = 1;
            arriving.push_back(message);
        }
    });
    let found = groups(&mut client, Key::new(5), &GO).unwrap();
    assert_eq!((found.members.len(), found.is_trusted), (2, false));
}
