//! Rows of one minute: the same as made one reading after the other, on random readings with gaps, jitter, counters that
//! begin anew and that wrap; what comes late is made again.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::batches::{PREFIX, SECOND, START, SWITCH, entry, port_sample};
use crate::columnstore::to_columns;
use throughline_sample::catalogue::{
    LINK_DOWNED, RECEIVE_DATA_BYTES, STORED_BITS, SYMBOL_ERROR, TRANSMIT_DATA_BYTES, TRANSMIT_WAIT,
    TRANSMIT_WAIT_TICK_BYTES,
};
use throughline_sample::wire::Batch;
use throughline_store::{Database, Retention, RollupsMade, Writer, apply_retention, make_rollups, testing};
use tokio_postgres::Client;
use uuid::Uuid;

/// Begin of all readings here, a whole minute.
const BEGIN: i64 = START / SECOND / 60 * 60;
/// Speed of all links here.
const SPEED: i64 = 1000;
/// Longer than anything here is old.
const ALWAYS: Duration = Duration::from_secs(50 * 365 * 24 * 3600);

/// A reading: milliseconds since the beginning, epoch, bytes sent and received.
#[derive(Clone, Copy, Debug)]
struct Reading {
    time: i64,
    epoch: i64,
    sent: Option<u64>,
    received: Option<u64>,
}

/// What a minute is made of, and what comes of it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Minute {
    seconds: f64,
    /// Mean, largest rate, share of busy time; sent, then received.
    sent: [Option<f64>; 3],
    received: [Option<f64>; 3],
    last: Option<(i64, Option<u64>, Option<u64>)>,
}

/// xorshift64*: good enough to choose, and the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }
}

fn stored(value: u64) -> i64 {
    (value & ((1 << STORED_BITS) - 1)).cast_signed()
}

/// Twenty minutes of a thing: idle and busy times, silence, counters that begin anew in the middle of a minute, one that
/// wraps, readings without one or both of the counters.
fn readings(random: &mut Random) -> Vec<Reading> {
    let (mut time, mut epoch, mut all) = (random.below(60_000).cast_signed(), 0, Vec::new());
    let mut at = [(1_u64 << STORED_BITS) - 200_000, random.below(1 << 40)];
    let mut load = 0;
    while time < 20 * 60_000 {
        let pause = match random.below(40) {
            0 => 76_000 + random.below(200_000),
            1 => 60_000 + random.below(15_000),
            2..10 => 500 + random.below(20_000),
            _ => 1_000,
        };
        if random.below(30) == 0 {
            (epoch, at) = (time, [random.below(9), random.below(9)]);
        }
        if random.below(10) == 0 {
            load = random.below(1200);
        }
        at = at.map(|value| value.wrapping_add(load * pause / 1000 + random.below(10)));
        time += pause.cast_signed();
        let known = |random: &mut Random, value| (random.below(20) > 0).then_some(value);
        let (sent, received) = (known(random, at[0]), known(random, at[1]));
        all.push(Reading { time, epoch, sent, received });
    }
    all
}

/// What a minute has of the time between two readings: seconds, rates of sent and received bytes.
type Part = (f64, Option<f64>, Option<f64>);

/// Straightforward: each pair of readings, each of its milliseconds' minute.
fn expected(readings: &[Reading]) -> BTreeMap<(i64, i64), Minute> {
    let mut minutes: BTreeMap<(i64, i64), Vec<Part>> = BTreeMap::new();
    let mut made: BTreeMap<(i64, i64), Minute> = BTreeMap::new();
    let known: Vec<&Reading> =
        readings.iter().filter(|reading| reading.sent.is_some() || reading.received.is_some()).collect();
    for (place, now) in known.iter().enumerate() {
        let minute = (now.time - 1).div_euclid(60_000);
        let last = Some((now.time, now.sent, now.received));
        made.entry((minute, now.epoch)).or_default().last = last;
        let before = known[..place].iter().rev().find(|before| before.epoch == now.epoch);
        let Some(before) = before.filter(|before| now.time - before.time <= 75_000) else { continue };
        let seconds = (now.time - before.time) as f64 / 1e3;
        let rate = |now: Option<u64>, before: Option<u64>| {
            let grown = stored(now?).wrapping_sub(stored(before?)) & i64::MAX;
            Some(grown as f64 / seconds)
        };
        let rates = (rate(now.sent, before.sent), rate(now.received, before.received));
        for minute in before.time.div_euclid(60_000)..=(now.time - 1).div_euclid(60_000) {
            let part = now.time.min((minute + 1) * 60_000) - before.time.max(minute * 60_000);
            made.entry((minute, now.epoch)).or_default();
            minutes.entry((minute, now.epoch)).or_default().push((part as f64 / 1e3, rates.0, rates.1));
        }
    }
    for (key, parts) in minutes {
        let minute = made.entry(key).or_default();
        minute.seconds = parts.iter().map(|part| part.0).sum();
        let of = |rate: fn(&Part) -> Option<f64>| {
            let known: Vec<(f64, f64)> =
                parts.iter().filter_map(|part| Some((part.0, rate(part)?))).collect();
            let seconds: f64 = known.iter().map(|(part, _)| part).sum();
            if known.is_empty() {
                return [None; 3];
            }
            let busy: f64 =
                known.iter().filter(|(_, rate)| *rate > 0.9 * SPEED as f64).map(|(part, _)| part).sum();
            let mean = known.iter().map(|(part, rate)| part * rate).sum::<f64>() / seconds;
            [Some(mean), known.iter().map(|(_, rate)| *rate).reduce(f64::max), Some(busy / seconds)]
        };
        minute.sent = of(|part| part.1);
        minute.received = of(|part| part.2);
    }
    made
}

fn is_close(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-5 * one.abs().max(1.0),
        (None, None) => true,
        _ => false,
    }
}

fn assert_same(reported: &BTreeMap<(i64, i64), Minute>, expected: &BTreeMap<(i64, i64), Minute>, what: &str) {
    let keys = |minutes: &BTreeMap<(i64, i64), Minute>| minutes.keys().copied().collect::<Vec<_>>();
    assert_eq!(keys(reported), keys(expected), "{what}");
    for (key, minute) in expected {
        let other = &reported[key];
        let pairs = minute.sent.iter().zip(&other.sent).chain(minute.received.iter().zip(&other.received));
        let is_same = is_close(Some(minute.seconds), Some(other.seconds))
            && pairs.into_iter().all(|(one, other)| is_close(*one, *other))
            && minute.last.map(|(time, sent, received)| (time, sent.map(stored), received.map(stored)))
                == other.last.map(|(time, sent, received)| (time, sent.map(stored), received.map(stored)));
        assert!(is_same, "{what}, minute {key:?}: {other:?} in place of {minute:?}");
    }
}

const TIME: &str = "to_timestamp($1::bigint / 1e3)";

async fn all_made(database: &Database) -> RollupsMade {
    let mut client = database.connect().await.unwrap();
    make_rollups(&mut client, &Retention::for_all(ALWAYS), Duration::from_secs(600)).await.unwrap()
}

/// Milliseconds since the beginning.
fn offset(time: SystemTime) -> i64 {
    i64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap() - BEGIN * 1000
}

/// Rows of minutes, by minute and epoch, with columns of the same meaning under other names.
async fn reported(client: &Client, query: &str) -> BTreeMap<(i64, i64), Minute> {
    let mut minutes = BTreeMap::new();
    for row in client.query(query, &[]).await.unwrap() {
        let real = |place: usize| row.get::<_, Option<f32>>(place).map(f64::from);
        let value = |place: usize| row.get::<_, Option<i64>>(place).map(i64::cast_unsigned);
        let last = row.get::<_, Option<SystemTime>>(9).map(|time| (offset(time), value(10), value(11)));
        let minute = Minute {
            seconds: real(2).unwrap(),
            sent: [3, 4, 5].map(real),
            received: [6, 7, 8].map(real),
            last,
        };
        let key = (offset(row.get(0)) / 60_000, offset(row.get(1)));
        assert!(minutes.insert(key, minute).is_none(), "{key:?} twice");
    }
    minutes
}

#[tokio::test]
async fn minutes_of_ports_are_what_is_made_of_one_reading_after_the_other() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client
        .batch_execute(
            "INSERT INTO internal.fabric (name, guids) VALUES ('0xfe80000000000000', ARRAY['0xfe80000000000000']);
             INSERT INTO internal.ib_node_key (fabric_id, guid) VALUES (1, '0x1');
             INSERT INTO internal.ib_port_key (ib_node_id, port) SELECT 1, n FROM generate_series(1, 3) n;
             INSERT INTO internal.node_key (name) VALUES ('n1');
             INSERT INTO internal.host_port_key (node_id, device, port) SELECT 1, 'mlx5_' || n, 1 FROM generate_series(1, 3) n",
        )
        .await
        .unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut all = BTreeMap::new();
    for port in 1..=3_i64 {
        let readings = readings(&mut random);
        for reading in &readings {
            let at = |time: i64| BEGIN * 1000 + time;
            for (table, id, columns) in [
                ("ib_port_counters", "port_id", "transmit_data_bytes, receive_data_bytes"),
                (
                    "host_port_counters",
                    "host_port_id",
                    "port_data_transmitted_bytes, port_data_received_bytes",
                ),
            ] {
                let insert = format!(
                    "INSERT INTO internal.{table} (time, {id}, epoch, source, {columns}, rate_bytes_per_second)
                     VALUES ({TIME}, $2, {}, 's', $4, $5, $6)",
                    TIME.replace("$1", "$3")
                );
                let (sent, received) = (reading.sent.map(stored), reading.received.map(stored));
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                    [&at(reading.time), &port, &at(reading.epoch), &sent, &received, &SPEED];
                client.execute(insert.as_str(), &values).await.unwrap();
            }
        }
        all.insert(port, readings);
    }
    let made = all_made(&database).await;
    assert!(made.minutes > 0 && made.rows > 60 && !made.is_behind, "{made:?}");
    assert_eq!(all_made(&database).await.rows, 0, "nothing new, nothing made");
    for (port, readings) in &all {
        let expected = expected(readings);
        assert!(
            expected.keys().zip(expected.keys().skip(1)).any(|(one, other)| one.0 == other.0),
            "two epochs"
        );
        for (table, id, columns) in [
            ("ib_port_minutes", "port_id", "transmit_data_bytes, receive_data_bytes"),
            ("host_port_minutes", "host_port_id", "port_data_transmitted_bytes, port_data_received_bytes"),
        ] {
            let query = format!(
                "SELECT time, epoch, seconds, transmit_bytes_per_second, transmit_peak_bytes_per_second,
                        transmit_busy_ratio, receive_bytes_per_second, receive_peak_bytes_per_second,
                        receive_busy_ratio, last_time, {columns} FROM internal.{table} WHERE {id} = {port}"
            );
            assert_same(&reported(&client, &query).await, &expected, &format!("{table} {port}"));
        }
    }
    // Readings that were left out of the minutes' making by a crash are made up for: as after one between both steps.
    client
        .batch_execute(
            "DELETE FROM internal.ib_port_minutes; UPDATE internal.minute_state SET made_until = NULL",
        )
        .await
        .unwrap();
    assert!(all_made(&database).await.rows > 60);
    let named = "SELECT count(*), (SELECT count(*) FROM internal.ib_port_minutes), max(transmit_busy_ratio), \
                 max(transmit_peak_utilisation) FROM internal.ib_port_minutes_named";
    let row = client.query_one(named, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1));
    assert!(row.get::<_, f32>(2) > 0.0 && row.get::<_, f64>(3) > 0.9, "{row:?}");
}

#[tokio::test]
async fn minutes_of_links_keep_their_place_and_their_source() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let gpu = "INSERT INTO internal.node_key (name) VALUES ('n1'); INSERT INTO internal.gpu_key (node_id, uuid) VALUES (1, 'GPU-1')";
    client.batch_execute(gpu).await.unwrap();
    let mut random = Random(11);
    let at = |time: i64| BEGIN * 1000 + time;
    let mut all = Vec::new();
    for source in ["nvml", "dcgm"] {
        // Link 1 is not there; link 2 is read in each row, link 0 in some.
        let link_2 = readings(&mut random);
        let link_0: Vec<Reading> = link_2
            .iter()
            .filter(|_| random.below(3) > 0)
            .map(|reading| Reading { sent: reading.received, received: reading.sent, ..*reading })
            .collect();
        for reading in &link_2 {
            let other = link_0.iter().find(|other| other.time == reading.time);
            let array =
                |one: Option<u64>, other: Option<u64>| [one.map(stored), None, other.map(stored)].to_vec();
            let sent = array(other.and_then(|other| other.sent), reading.sent);
            let received = array(other.and_then(|other| other.received), reading.received);
            let insert = format!(
                "INSERT INTO internal.nvlink_counters (time, gpu_id, epoch, source, transmit_bytes, receive_bytes,
                 speed_bytes_per_second) VALUES ({TIME}, 1, {}, $5, $3, $4, ARRAY[$6, NULL, $6]::bigint[])",
                TIME.replace("$1", "$2")
            );
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                [&at(reading.time), &at(reading.epoch), &sent, &received, &source, &SPEED];
            client.execute(insert.as_str(), &values).await.unwrap();
        }
        all.push((source, 0, link_0));
        all.push((source, 2, link_2));
    }
    assert!(all_made(&database).await.rows > 30);
    for (source, link, readings) in &all {
        let query = format!(
            "SELECT m.time, m.epoch, m.seconds[{e}], transmit_bytes_per_second[{e}], transmit_peak_bytes_per_second[{e}],
                    transmit_busy_ratio[{e}], receive_bytes_per_second[{e}], receive_peak_bytes_per_second[{e}],
                    receive_busy_ratio[{e}], CASE WHEN num_nonnulls(transmit_bytes[{e}], receive_bytes[{e}]) > 0
                    THEN TIMESTAMPTZ 'epoch' + INTERVAL '{BEGIN} seconds' END, transmit_bytes[{e}], receive_bytes[{e}]
             FROM internal.nvlink_minutes m WHERE source = '{source}'
               AND (m.seconds[{e}] > 0 OR num_nonnulls(transmit_bytes[{e}], receive_bytes[{e}]) > 0)",
            e = link + 1
        );
        let mut expected = expected(readings);
        // One time for all links of the row.
        expected.values_mut().for_each(|minute| {
            minute.last = minute.last.map(|(_, sent, received)| (0, sent, received));
        });
        assert_same(&reported(&client, &query).await, &expected, &format!("{source} link {link}"));
    }
    let views = "SELECT count(*) FILTER (WHERE link = 1), count(*) FILTER (WHERE link = 2), max(transmit_utilisation) \
                 FROM internal.nvlink_link_minutes";
    let row = client.query_one(views, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
    assert!(row.get::<_, i64>(1) > 10 && row.get::<_, f64>(2) > 0.5);
}

/// A port's readings, a steady rate of 100.
fn batch(port: u32, seconds: impl Iterator<Item = i64>) -> Batch {
    let base = BEGIN - START / SECOND;
    let sample = |second: i64| {
        let value = u64::try_from(second * 100).unwrap();
        port_sample(port, base + second, base, &[(&TRANSMIT_DATA_BYTES, value), (&RECEIVE_DATA_BYTES, 0)])
    };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_ports: seconds.map(sample).collect(),
        ..Batch::default()
    }
}

/// Known seconds of each minute of a port of the switch.
async fn seconds(client: &Client, port: i32) -> Vec<f32> {
    let query = "SELECT m.seconds FROM internal.ib_port_minutes m JOIN public.ib_port_named n ON n.port_id = m.port_id \
                 WHERE n.port = $1 AND n.guid = $2 AND m.seconds > 0 ORDER BY m.time";
    let guid = throughline_sample::Guid(SWITCH).to_string();
    client.query(query, &[&port, &guid]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn notes(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM internal.minute_late", &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn what_comes_late_is_made_again_and_only_that() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let (spool, mut writer) = (Uuid::from_u128(7), Writer::new(database.clone()));
    let mut sequence = 0;
    let mut write = async |batch| {
        sequence += 1;
        let outcome = writer.write(&[entry(spool, sequence, batch)]).await.unwrap();
        assert_eq!(outcome.quarantined, 0);
    };
    // Port 1 for ten minutes; port 2 too, but for the time from minute 3 to 6.
    write(batch(1, (0..601).step_by(5))).await;
    write(batch(2, (0..181).chain(360..601).filter(|second| second % 5 == 0))).await;
    assert_eq!(notes(&client).await, 0, "nothing is made yet: nothing is late");
    all_made(&database).await;
    assert_eq!(seconds(&client, 1).await, [60.0; 10]);
    assert_eq!(seconds(&client, 2).await, [60.0; 7]);
    client.batch_execute("UPDATE internal.ib_port_minutes SET errors = 77 WHERE seconds > 0").await.unwrap();

    to_columns(&client).await;
    write(batch(2, (185..360).step_by(5))).await;
    assert_eq!(notes(&client).await, 1, "one thing, one time: one note");
    let made = all_made(&database).await;
    assert_eq!((made.late, made.minutes), (1, 0));
    assert_eq!(seconds(&client, 2).await, [60.0; 10]);
    assert_eq!(notes(&client).await, 0);
    let kept = "SELECT count(*) FROM internal.ib_port_minutes m JOIN public.ib_port_named n USING (port_id) WHERE errors = 77 AND n.port = $1";
    let kept = async |port: i32| client.query_one(kept, &[&port]).await.unwrap().get::<_, i64>(0);
    assert_eq!(kept(1).await, 10, "of the other port nothing was made again");
    assert_eq!(kept(2).await, 3, "nor what the late readings have nothing to do with");

    // Readings beyond the retention: others of their minutes are gone.
    let mut upkeep = database.connect().await.unwrap();
    let week = Retention::default();
    apply_retention(&client, &week, None).await.unwrap();
    client.batch_execute("CALL internal.expire()").await.unwrap();
    write(batch(1, (2..600).step_by(5))).await;
    assert_eq!(notes(&client).await, 1);
    make_rollups(&mut upkeep, &week, Duration::from_secs(600)).await.unwrap();
    assert_eq!((notes(&client).await, kept(1).await), (0, 10));
}

#[tokio::test]
async fn what_is_read_once_a_minute_goes_from_one_reading_to_the_next() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let (spool, mut writer) = (Uuid::from_u128(7), Writer::new(database.clone()));
    let mut all = batch(1, (0..301).step_by(5));
    for (place, sample) in all.ib_ports.iter_mut().enumerate().filter(|(place, _)| place % 12 == 6) {
        let minute = u64::try_from(place / 12).unwrap();
        let values = sample.values.as_mut().unwrap();
        values.put(&TRANSMIT_WAIT, minute * 600);
        values.put(&TRANSMIT_WAIT_TICK_BYTES, 8);
        values.put(&SYMBOL_ERROR, minute * minute);
        values.put(&LINK_DOWNED, 1);
    }
    writer.write(&[entry(spool, 1, all)]).await.unwrap();
    all_made(&database).await;
    let query = "SELECT transmit_wait_bytes_per_second, errors FROM internal.ib_port_minutes WHERE seconds > 0 ORDER BY time";
    let rows = client.query(query, &[]).await.unwrap();
    let reported: Vec<(Option<f32>, Option<i64>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let of = |errors| (Some(80.0), errors);
    assert_eq!(reported, [of(None), of(Some(1)), of(Some(3)), of(Some(5)), of(Some(7))]);
}

#[tokio::test]
async fn who_writes_while_minutes_are_made_is_waited_for_or_noted() {
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    writer.write(&[entry(Uuid::from_u128(7), 1, batch(1, (0..301).step_by(5)))]).await.unwrap();
    assert_eq!(written_beside_upkeep(&database, 301).await, None);
}

#[tokio::test]
async fn minutes_of_what_is_written_first_after_days_are_made() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let mut writer = Writer::new(database.clone());
    writer.write(&[entry(Uuid::from_u128(7), 1, batch(1, (0..301).step_by(5)))]).await.unwrap();
    // Days later, as far as upkeep knows: there is no chunk of that time.
    let since = BEGIN - 3 * 86_400;
    let state = format!(
        "TRUNCATE internal.ib_port_counters; DELETE FROM internal.minute_late;
         UPDATE internal.minute_state SET made_until = to_timestamp({since}), noticed_until = to_timestamp({since})"
    );
    client.batch_execute(&state).await.unwrap();
    assert!(written_beside_upkeep(&database, 0).await.is_some());
}

/// Readings from a second on to the 600th by a writer that commits while upkeep waits for it; what it knew of minutes that are made.
async fn written_beside_upkeep(database: &Database, first: i64) -> Option<SystemTime> {
    let client = database.connect().await.unwrap();
    // A writer that is about to commit: it has read what is made.
    let mut slow = database.connect().await.unwrap();
    let transaction = slow.transaction().await.unwrap();
    let noticed = transaction.query_one("SELECT internal.minutes_noticed()", &[]).await.unwrap();
    let noticed = noticed.get::<_, Option<SystemTime>>(0);
    let insert = format!(
        "INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes)
         SELECT to_timestamp({BEGIN} + s), 1, to_timestamp({BEGIN}), 'mad', s * 100 FROM generate_series({first}, 600) s"
    );
    transaction.batch_execute(&insert).await.unwrap();
    let upkeep = tokio::spawn({
        let database = database.clone();
        async move { all_made(&database).await }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'";
    while client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    transaction.commit().await.unwrap();
    upkeep.await.unwrap();
    assert_eq!(seconds(&client, 1).await, [60.0; 10]);
    noticed
}

#[tokio::test]
async fn readings_wait_for_their_minutes_however_old_they_are() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let mut writer = Writer::new(database.clone());
    let expire = async || {
        apply_retention(&client, &Retention::default(), None).await.unwrap();
        client.batch_execute("CALL internal.expire()").await.unwrap();
        let rows = "SELECT count(*) FROM internal.ib_port_counters";
        client.query_one(rows, &[]).await.unwrap().get::<_, i64>(0)
    };
    // Upkeep was three minutes on when the machine fell asleep, for months.
    writer.write(&[entry(Uuid::from_u128(8), 1, batch(1, (0..601).step_by(5)))]).await.unwrap();
    let behind = format!("UPDATE internal.minute_state SET made_until = to_timestamp({BEGIN} + 180)");
    client.batch_execute(&behind).await.unwrap();
    assert_eq!(expire().await, 121);
    all_made(&database).await;
    assert_eq!(seconds(&client, 1).await, [60.0; 7]);
    // Two of them come only now, so the last minute that is made is made again.
    let missing = batch(1, [601, 661].into_iter());
    writer.write(&[entry(Uuid::from_u128(8), 2, missing)]).await.unwrap();
    assert_eq!(expire().await, 123);
    all_made(&database).await;
    assert_eq!(expire().await, 0);
    assert_eq!(seconds(&client, 1).await, [&[60.0; 8][..], &[1.0]].concat());

    // Nothing makes minutes any more.
    writer.write(&[entry(Uuid::from_u128(8), 3, batch(2, (0..601).step_by(5)))]).await.unwrap();
    client.batch_execute(&behind).await.unwrap();
    client.batch_execute("UPDATE internal.minute_state SET rounds_in_vain = 9999").await.unwrap();
    assert_eq!(expire().await, 121);
    client.batch_execute("UPDATE internal.minute_state SET rounds_in_vain = 10000").await.unwrap();
    assert_eq!(expire().await, 0);
}
