//! Thinning on readings written by hand.

use super::*;
use crate::mad::{ClassPortInfo, NodeKind, PMA_DATA_BYTES, PortCounterSet};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_790_000_000 * SECOND;

/// A port's reading at a second: words sent, symbol errors.
fn reading(port: u8, second: i64, words: u64, symbol: u16) -> PortReading {
    let info = ClassPortInfo { capabilities: 0x1200, ..ClassPortInfo::default() };
    let mut counters = Counters::default();
    let mut data = [0; PMA_DATA_BYTES];
    data[8..16].copy_from_slice(&words.to_be_bytes());
    let extended = counters.decode(PortCounterSet::Extended, &data, &info).unwrap();
    let mut data = [0; PMA_DATA_BYTES];
    data[4..6].copy_from_slice(&symbol.to_be_bytes());
    let classic = counters.decode(PortCounterSet::Classic, &data, &info).unwrap();
    PortReading {
        rate_bytes_per_second: Some(1_000_000_000),
        link_lanes: Some(4),
        time: START + second * SECOND,
        epoch: START,
        counters,
        fresh: extended.metrics | classic.metrics,
        was_requested: true,
        ..PortReading::new(0, Guid(7), NodeKind::Switch, port, 3)
    }
}

/// Second, words and whether it is one before a change, of each row.
fn rows(thinner: &mut Thinner, readings: &[PortReading]) -> Vec<(i64, u64, bool)> {
    let mut rows = Vec::new();
    thinner.rows(readings, |_, row| {
        rows.push(((row.time - START) / SECOND, row.counters.raw(0).unwrap(), row.is_before));
    });
    rows
}

#[test]
fn a_burst_is_not_smeared_over_the_gap() {
    let mut thinner = Thinner::new(true, 0);
    let mut written = Vec::new();
    for second in 0..50 {
        let words = if second < 30 { 100 } else { 100_000 };
        written.extend(rows(&mut thinner, &[reading(1, second, words, 0)]));
    }
    let heartbeats: Vec<_> = written.iter().filter(|row| ![0, 29, 30].contains(&row.0)).collect();
    assert!(heartbeats.len() <= 1, "{written:?}");
    assert!(written.contains(&(0, 100, false)));
    assert!(written.contains(&(29, 100, true)) || written.contains(&(29, 100, false)), "{written:?}");
    assert!(written.contains(&(30, 100_000, false)));
}

#[test]
fn every_minute_has_a_row_of_every_port() {
    let mut thinner = Thinner::new(true, DEFAULT_QUIET_BYTES);
    let ports = 40;
    let mut last = vec![0; ports + 1];
    let mut total = 0;
    for second in (0..600).step_by(5) {
        // Each reading moves a little data on the port: what the crawler itself sends.
        let readings: Vec<_> =
            (1..=ports as u8).map(|port| reading(port, second, second as u64 * 30, 0)).collect();
        thinner.rows(&readings, |_, row| {
            let port = usize::from(row.port.port);
            let now = (row.time - START) / SECOND;
            assert!(now == 0 || now > last[port], "in order, each once");
            assert!(now - last[port] <= 60, "port {port}: {} then {now}", last[port]);
            last[port] = now;
            total += 1;
        });
    }
    assert!(last[1..].iter().all(|last| *last >= 595 - 60), "{last:?}");
    // 10 minutes: one at each heartbeat, and one or two for the data that adds up.
    assert!(total < ports * 14, "{total} rows of {}", ports * 120);
}

#[test]
fn an_error_is_never_quiet() {
    let mut thinner = Thinner::new(true, DEFAULT_QUIET_BYTES);
    rows(&mut thinner, &[reading(1, 0, 0, 0)]);
    let one = |second, words, symbol| [reading(1, second, words, symbol)];
    let mut quiet = Vec::new();
    for second in 1..4 {
        quiet.extend(rows(&mut thinner, &one(second, 5, 0)));
    }
    assert!(quiet.len() <= 2, "at most a heartbeat: {quiet:?}");
    let after = rows(&mut thinner, &one(4, 6, 1));
    assert!(after.contains(&(4, 6, false)), "{after:?}");
    assert!(rows(&mut thinner, &one(5, 6 + 20_000, 1)).contains(&(5, 20_006, false)), "80,000 bytes");
}

#[test]
fn a_gap_ends_with_what_was_known() {
    let mut thinner = Thinner::new(true, 0);
    rows(&mut thinner, &[reading(1, 0, 9, 0)]);
    let mut until = Vec::new();
    for second in 1..3 {
        until.extend(rows(&mut thinner, &[reading(1, second, 9, 0)]));
    }
    let mut unread = reading(1, 3, 9, 0);
    (unread.fresh, unread.failure) = (0, Some("timeout"));
    let mut at_gap = rows(&mut thinner, &[unread]);
    until.append(&mut at_gap);
    assert_eq!(until.last().map(|row| row.0), Some(2), "the last reading before the gap: {until:?}");
    assert_eq!(rows(&mut thinner, &[reading(1, 4, 9, 0)]), [(4, 9, false)], "and the first after it");
}

#[test]
fn switched_off_it_leaves_nothing_out() {
    let mut thinner = Thinner::new(false, 0);
    for second in 0..3 {
        assert_eq!(rows(&mut thinner, &[reading(1, second, 9, 0)]), [(second, 9, false)]);
    }
    let mut not_due = reading(1, 3, 9, 0);
    not_due.was_requested = false;
    assert_eq!(rows(&mut thinner, &[not_due]), []);
}

#[test]
fn a_new_epoch_and_a_new_speed_are_changes() {
    let mut thinner = Thinner::new(true, 0);
    rows(&mut thinner, &[reading(1, 0, 9, 0)]);
    let mut cleared = reading(1, 1, 9, 0);
    cleared.epoch += 1;
    assert_eq!(rows(&mut thinner, &[cleared]), [(1, 9, false)]);
    let mut slower = reading(1, 2, 9, 0);
    slower.epoch = cleared.epoch;
    slower.rate_bytes_per_second = Some(1);
    assert_eq!(rows(&mut thinner, &[slower]), [(2, 9, false)]);
    // A port that was not there gets its first row; the other one keeps its state.
    let mut same = slower;
    same.time += SECOND;
    let written = rows(&mut thinner, &[same, reading(2, 3, 1, 0)]);
    assert!(written.contains(&(3, 1, false)), "{written:?}");
}

/// Of a port that sends 1,000 words a second: its reading at a second, with a reply that took so many milliseconds.
fn slow(second: i64, milliseconds: u64) -> PortReading {
    let words = second.unsigned_abs() * 1000;
    PortReading { took: Duration::from_millis(milliseconds), ..reading(1, second, words, 0) }
}

#[test]
fn rows_are_a_hundred_times_as_far_apart_as_replies_took() {
    for is_on in [true, false] {
        let mut thinner = Thinner::new(is_on, 0);
        let mut at = |second, milliseconds| {
            let rows = rows(&mut thinner, &[slow(second, milliseconds)]);
            rows.into_iter().map(|row| row.0).collect::<Vec<_>>()
        };
        let slowly: Vec<_> = (0..=10).flat_map(|second| at(second, 30)).collect();
        assert_eq!(slowly, [0, 3, 6, 9]);
        let fast: Vec<_> = (11..16).flat_map(|second| at(second, 2)).collect();
        assert_eq!(fast, [12, 13, 14, 15], "the row of 9 is one of those");
        // No row is farther away than a heartbeat, and where the clock was set back nothing is.
        let slowest: Vec<_> = (16..140).flat_map(|second| at(second, 900)).collect();
        assert_eq!(slowest, [75, 135]);
        assert_eq!(at(20, 900), [20]);
    }
}

#[test]
fn what_is_held_back_is_not_lost() {
    let mut thinner = Thinner::new(true, 0);
    rows(&mut thinner, &[slow(0, 30)]);
    assert_eq!(rows(&mut thinner, &[slow(1, 30)]), []);
    let cleared = PortReading { epoch: START + 2, ..slow(2, 30) };
    assert_eq!(rows(&mut thinner, &[cleared]), [(1, 1000, true), (2, 2000, false)]);
    let next = PortReading { epoch: START + 2, ..slow(3, 30) };
    assert_eq!(rows(&mut thinner, &[next]), []);
    let unread = |second| PortReading { fresh: 0, failure: Some("timeout"), ..slow(second, 0) };
    assert_eq!(rows(&mut thinner, &[unread(4)]), [], "it may come back");
    assert_eq!(rows(&mut thinner, &[unread(5)]), [(3, 3000, true)]);
    assert_eq!(rows(&mut thinner, &[unread(6)]), []);
}

#[test]
fn what_is_read_more_rarely_is_written_without_data_where_that_is_held_back() {
    let mut thinner = Thinner::new(true, 0);
    let symbol = 1_u64 << counter_index(&metric::SYMBOL_ERROR).unwrap();
    let mut at = |second, is_rare| {
        let all = slow(second, 30);
        let port = PortReading { fresh: if is_rare { all.fresh } else { all.fresh & TRAFFIC }, ..all };
        let mut rows = Vec::new();
        thinner.rows(&[port], |_, row| {
            let has = |mask| row.counters.only(mask).raw(mask.trailing_zeros() as usize).is_some();
            rows.push((row.time - START - second * SECOND, has(1), has(symbol)));
        });
        rows
    };
    assert_eq!(at(0, false), [(0, true, false)]);
    assert_eq!(at(1, true), [(MICROSECOND, false, true)]);
    assert_eq!(at(2, false), []);
    assert_eq!(at(3, false), [(0, true, false)]);
    assert_eq!(at(6, true), [(0, true, true)]);
}
