//! The rates of a fabric port are the same everywhere: in the crawler's memory, in the SQL function, in the rows of
//! minutes and in what the JSON API is made of. On recorded counters and on random ones.

use std::collections::BTreeMap;
use std::time::Duration;

use throughline_infiniband::mad::{ClassPortInfo, Counters, NodeKind, PMA_DATA_BYTES, PortCounterSet};
use throughline_infiniband::reading::PortReading;
use throughline_infiniband::reading::rates::rates;
use throughline_infiniband::reading::thin::Thinner;
use throughline_infiniband::records::samples;
use throughline_query::links;
use throughline_query::load::{self, Round, Window};
use throughline_query::time::Grid;
use throughline_sample::Guid;
use throughline_sample::row_rules::DEFAULT;
use throughline_sample::wire::{Batch, Coverage, RowRules};
use throughline_store::{Retention, Writer, make_rollups, testing};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::batches::{PREFIX, SECOND, START, SWITCH, entry};

/// Begin of all readings: a whole minute.
const BEGIN: i64 = START / SECOND / 60 * 60 * SECOND;
/// Speed of the link, bytes a second.
const SPEED: u64 = 1_000_000_000;
/// Longer than anything here is old.
const ALWAYS: Duration = Duration::from_secs(50 * 365 * 24 * 3600);

/// Bytes that a network interface of a busy machine had sent and received, read once a second in sysfs: nanoseconds,
/// bytes, bytes.
const RECORDED: &str = include_str!("rates/recorded.csv");

/// Time since the beginning in nanoseconds, epoch, words of four bytes sent and received.
type Point = (i64, i64, [u64; 2]);

/// A time between two readings, seconds since the beginning, and bytes a second sent and received in it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: f64,
    to: f64,
    rates: [f64; 2],
}

impl Piece {
    /// Bytes in the part of it from one time to another.
    fn bytes(&self, from: f64, to: f64, direction: usize) -> f64 {
        (self.to.min(to) - self.from.max(from)).max(0.0) * self.rates[direction]
    }
}

fn recorded() -> Vec<Point> {
    let numbers = |line: &str| -> [i64; 3] {
        let all: Vec<i64> = line.split(',').map(|number| number.parse().unwrap()).collect();
        all.try_into().unwrap()
    };
    let lines: Vec<[i64; 3]> = RECORDED.lines().map(numbers).collect();
    let begin = lines[0][0];
    let words = |bytes: i64| u64::try_from(bytes).unwrap() / 4;
    // The database has microseconds.
    let point = |line: &[i64; 3]| ((line[0] - begin) / 1000 * 1000, 0, [words(line[1]), words(line[2])]);
    lines.iter().map(point).collect()
}

/// Twenty minutes: idle and busy times, uneven intervals, silence, counters that are cleared, and one whose bytes wrap where
/// the database's counters do.
fn random() -> Vec<Point> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |bound: u64| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    };
    let (mut time, mut epoch, mut load) = (0, 0, 0);
    let mut words = [(1 << 61) - 1_000_000, below(1 << 40)];
    let mut points = Vec::new();
    while time < 1200 * SECOND {
        let pause = match below(200) {
            0 => 76_000 + below(100_000),
            1..12 => 200 + below(3_000),
            _ => 1_000,
        };
        if below(15) == 0 {
            load = below(3) * below(250_000);
        }
        time += i64::try_from(pause).unwrap() * 1_000_000;
        words = words.map(|words| words + load * pause);
        if below(100) == 0 {
            (epoch, words) = (time, [below(9), below(9)]);
        }
        points.push((time, epoch, words));
    }
    points
}

fn reading(&(time, epoch, words): &Point) -> PortReading {
    let info = ClassPortInfo { capabilities: 0x1200, ..ClassPortInfo::default() };
    let mut data = [0; PMA_DATA_BYTES];
    data[8..16].copy_from_slice(&words[0].to_be_bytes());
    data[16..24].copy_from_slice(&words[1].to_be_bytes());
    let mut counters = Counters::default();
    let taken = counters.decode(PortCounterSet::Extended, &data, &info).unwrap();
    PortReading {
        rate_bytes_per_second: Some(SPEED),
        time: BEGIN + time,
        epoch: BEGIN + epoch,
        counters,
        fresh: taken.metrics,
        was_requested: true,
        ..PortReading::new(0, Guid(SWITCH), NodeKind::Switch, 1, 3)
    }
}

/// What the crawler makes of its readings in memory; across silence nothing.
fn in_memory(readings: &[PortReading]) -> Vec<Piece> {
    let seconds = |reading: &PortReading| (reading.time - BEGIN) as f64 / 1e9;
    let piece = |pair: &[PortReading]| {
        let made = rates(&pair[0], &pair[1])?;
        let rates = [made.transmit_bytes_per_second?, made.receive_bytes_per_second?];
        (made.seconds <= DEFAULT.largest_gap_seconds).then(|| Piece {
            from: seconds(&pair[0]),
            to: seconds(&pair[1]),
            rates,
        })
    };
    readings.windows(2).filter_map(piece).collect()
}

/// A sum of doubles, and the same in another order; minutes have single precision.
fn same(one: f64, other: f64, precision: f64) -> bool {
    (one - other).abs() <= precision * one.abs().max(other.abs()).max(1e3)
}

/// Each row of the function against the readings in the time that it stands for. Returns the readings as far as rows stand
/// for them: the last idle readings before silence, or of all, have no row yet.
async fn compare_function(client: &Client, pieces: &[Piece]) -> Vec<Piece> {
    let sql = "SELECT extract(epoch FROM time - to_timestamp($1))::float8, interval_seconds, transmit_bytes_per_second, \
                      receive_bytes_per_second, transmit_utilisation, is_above_speed \
               FROM public.ib_port_rates(to_timestamp($1), to_timestamp($1 + 3600))";
    let sql = sql.replace("$1", &format!("{}", BEGIN / SECOND));
    let mut known = Vec::new();
    for row in client.query(&sql, &[]).await.unwrap() {
        let (time, seconds): (f64, f64) = (row.get(0), row.get(1));
        let within = pieces.iter().filter(|piece| piece.to > time - seconds && piece.from < time);
        known.extend(within.map(|piece| Piece {
            from: piece.from.max(time - seconds),
            to: piece.to.min(time),
            ..*piece
        }));
        for direction in 0..2 {
            let expected: f64 = pieces.iter().map(|piece| piece.bytes(time - seconds, time, direction)).sum();
            let bytes = row.get::<_, f64>(2 + direction) * seconds;
            assert!(same(expected, bytes, 1e-5), "{time} {seconds}: {expected} {bytes}");
        }
        let share = row.get::<_, f64>(2) / SPEED as f64;
        assert!((share - row.get::<_, f64>(4)).abs() < 1e-9, "{time}: {share}");
        let above = row.get::<_, f64>(2).max(row.get::<_, f64>(3)) > SPEED as f64;
        assert_eq!(above, row.get::<_, bool>(5), "{time}");
    }
    known
}

/// Each row of the minutes against the readings' parts in it; rows of one minute are those of its epochs.
async fn compare_minutes(client: &Client, pieces: &[Piece]) {
    let sql = format!(
        "SELECT extract(epoch FROM time)::float8 - {}, seconds::float8, transmit_bytes_per_second::float8, \
                receive_bytes_per_second::float8 FROM internal.ib_port_minutes WHERE seconds > 0",
        BEGIN / SECOND
    );
    let mut minutes: BTreeMap<i64, [f64; 3]> = BTreeMap::new();
    for row in client.query(&sql, &[]).await.unwrap() {
        let seconds: f64 = row.get(1);
        let minute = minutes.entry(row.get::<_, f64>(0).round() as i64).or_default();
        let bytes = [row.get::<_, f64>(2) * seconds, row.get::<_, f64>(3) * seconds, seconds];
        minute.iter_mut().zip(bytes).for_each(|(sum, more)| *sum += more);
    }
    assert!(minutes.len() > 2, "{minutes:?}");
    for (from, [sent, received, seconds]) in minutes {
        let (from, to) = (from as f64, from as f64 + 60.0);
        let sum = |of: &dyn Fn(&Piece) -> f64| pieces.iter().map(of).sum::<f64>();
        let expected = [sum(&|piece| piece.bytes(from, to, 0)), sum(&|piece| piece.bytes(from, to, 1))];
        let known = sum(&|piece| (piece.to.min(to) - piece.from.max(from)).max(0.0));
        assert!((known - seconds).abs() < 1e-3, "{from}: {known} {seconds}");
        assert!(same(expected[0], sent, 1e-4) && same(expected[1], received, 1e-4), "{from}: {expected:?}");
    }
}

/// What the API makes of a window that ends with a reading, wherever no silence and no clear is in it.
async fn compare_load(client: &Client, pieces: &[Piece]) -> usize {
    let mut compared = 0;
    for piece in pieces.iter().step_by(7) {
        let (from, to) = (piece.to - 10.0, piece.to);
        let within: f64 = pieces.iter().map(|piece| (piece.to.min(to) - piece.from.max(from)).max(0.0)).sum();
        if (within - 10.0).abs() > 1e-6 {
            continue;
        }
        let at = BEGIN / 1_000_000 + (piece.to * 1e3).ceil() as i64;
        let window = Window { at, is_latest: false, seconds: 10.0 };
        let readings = load::readings(client, &[1], &window).await.unwrap();
        // The port was read at the end of the window, whether that made a row or not.
        let round = Round { time: at, elapsed_seconds: 0.0, expected: 1, read: 1, failed: 0 };
        let made = readings[0].rates(&window, Some(&round));
        let [Some(_), Some(_)] = [made.transmit, made.receive] else {
            // One row of an epoch has no rate.
            assert_eq!(readings[0].interval, None, "{piece:?}: {readings:?}");
            continue;
        };
        // Up to the newest row, until it is so old that the port must have stood still since.
        let (age, interval) = (readings[0].age, readings[0].interval.unwrap_or_default());
        let end = if age > 1.5 * interval { to } else { to - age };
        for (direction, rate) in [made.transmit, made.receive].into_iter().enumerate() {
            let bytes: f64 = pieces.iter().map(|piece| piece.bytes(from, end, direction)).sum();
            // The window begins up to a millisecond later.
            let most = pieces.iter().map(|piece| piece.rates[direction]).fold(1.0, f64::max);
            let difference = (bytes / (end - from) - rate.unwrap()).abs();
            assert!(difference <= most * 1e-3, "{piece:?} {direction}: {bytes} {rate:?} {age} {interval}");
        }
        compared += 1;
    }
    compared
}

#[tokio::test]
async fn crawler_function_minutes_and_api_make_the_same_rates() {
    for (name, points) in [("recorded", recorded()), ("random", random())] {
        let readings: Vec<PortReading> = points.iter().map(reading).collect();
        let pieces = in_memory(&readings);
        let database = testing::database().await;
        let mut writer = Writer::new(database.clone());
        let mut thinner = Thinner::new(true, 0);
        let (spool, mut left_out) = (Uuid::new_v4(), 0);
        for (sequence, one) in (1..).zip(&readings) {
            let (batches, left) = samples(std::slice::from_ref(one), |_| None, &mut thinner);
            left_out += left;
            for batch in batches {
                let batch = Batch { fabric: throughline_store::testing::fabric(PREFIX), ..batch };
                writer.write(&[entry(spool, sequence, batch)]).await.unwrap();
            }
        }
        assert!(left_out > 10, "{name}: idle times have no rows: {left_out}");
        let mut client = database.connect().await.unwrap();
        let known = compare_function(&client, &pieces).await;
        let time = |pieces: &[Piece]| pieces.iter().map(|piece| piece.to - piece.from).sum::<f64>();
        let (rows, readings) = (time(&known), time(&pieces));
        assert!(rows > 0.8 * readings && rows <= readings + 1e-3, "{name}: {rows} of {readings} s");
        assert!(compare_load(&client, &pieces).await > 3, "{name}");
        while make_rollups(&mut client, &Retention::for_all(ALWAYS), Duration::from_secs(60))
            .await
            .unwrap()
            .is_behind
        {}
        compare_minutes(&client, &known).await;
    }
}

/// A crawler that reads each port every five minutes and reports so, and one that does not report it.
#[tokio::test]
async fn the_series_of_a_link_bridge_the_gaps_that_its_crawler_reports() {
    for (gap, known) in [(Some(660.0), 10), (None, 0)] {
        let rules =
            |largest_gap_seconds| RowRules { heartbeat_seconds: 60.0, largest_gap_seconds, quiet_bytes: 0 };
        let round = Coverage {
            time: BEGIN,
            source: "mad".to_owned(),
            row_rules: gap.map(rules),
            ..Coverage::default()
        };
        let points = [(0, 0, [0, 0]), (300 * SECOND, 0, [75_000, 0]), (600 * SECOND, 0, [150_000, 0])];
        let readings: Vec<PortReading> = points.iter().map(reading).collect();
        let database = testing::database().await;
        let mut writer = Writer::new(database.clone());
        let (spool, mut thinner) = (Uuid::new_v4(), Thinner::new(true, 0));
        for (sequence, one) in (1..).zip(&readings) {
            let (batches, _) = samples(std::slice::from_ref(one), |_| None, &mut thinner);
            let batch = batches.into_iter().next().unwrap();
            let batch = Batch {
                fabric: throughline_store::testing::fabric(PREFIX),
                coverage: vec![round.clone()],
                ..batch
            };
            writer.write(&[entry(spool, sequence, batch)]).await.unwrap();
        }
        let client = database.connect().await.unwrap();
        let grid = Grid { from: BEGIN / 1_000_000, step: 60_000, steps: 10 };
        let series = links::series(&client, &[1], &grid).await.unwrap();
        let sent = series.get(&1).map(|series| series.out.clone()).unwrap_or_default();
        let rates: Vec<f64> = sent.into_iter().flatten().collect();
        assert_eq!(rates, vec![1000.0; known], "{gap:?}");
    }
}
