//! Blocks of readings: with them every request has the answer that rows give, to the last bit; what comes late, what is
//! dropped, what is damaged, and upkeep that is killed.
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::batches::{PREFIX, SECOND, START, entry, port_sample};
use throughline_query::Horizons;
use throughline_query::history::{
    BlockCache, HistoryError, HistoryQuery, Range, Samples, Series, Take, Thinning, families,
};
use throughline_sample::catalogue::{SYMBOL_ERROR, TRANSMIT_DATA_BYTES};
use throughline_sample::wire::Batch;
use throughline_store::{
    ChunksEncoded, Database, Error, Retention, apply_retention, encode_chunks, make_rollups, testing,
};
use tokio_postgres::Client;
use uuid::Uuid;

/// Begin of all readings here, a whole hour.
const BEGIN: i64 = START / SECOND / 3600 * 3600;
const HOUR: i64 = 3600;
/// Longer than anything here is old.
const ALWAYS: Duration = Duration::from_secs(50 * 365 * 24 * 3600);
const PATIENCE: Duration = Duration::from_secs(600);

const BYTES: &str = "infiniband_switch_port_transmit_data_bytes_total";
const LINKS: &str = "throughline_nvlink_transmit_bytes_total";

/// By labels: times and the bits of values.
type Answers = BTreeMap<String, Vec<(i64, u64)>>;

struct Taken {
    all: Answers,
    /// Chunks that came as they are.
    chunks: usize,
    takes_chunks: bool,
}

impl Take for Taken {
    async fn take(&mut self, series: &Series, samples: &Samples) -> Result<(), HistoryError> {
        let mut points = samples.points().to_vec();
        if self.takes_chunks {
            points.clear();
            for chunk in samples.chunks() {
                let before = points.len();
                chunk.unpack(&mut points).unwrap();
                assert_eq!((points[before].0, points.last().unwrap().0), (chunk.first, chunk.last));
                assert!(points.len() - before <= 720);
                self.chunks += 1;
            }
        }
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "times rise");
        let points = points.into_iter().map(|(time, value)| (time, value.to_bits())).collect();
        self.all.insert(format!("{:?}", series.labels), points);
        Ok(())
    }
}

async fn request(
    (database, cache): (&Database, &BlockCache),
    name: &str,
    range: Range,
    thinning: Thinning,
    takes_chunks: bool,
) -> Result<(Answers, u64), HistoryError> {
    let client = database.connect_reader().await.unwrap();
    let family = families().iter().find(|family| family.name == name).unwrap();
    let horizons = Horizons::read(&client).await.unwrap();
    let limit = 10_000_000;
    let request =
        HistoryQuery { family, range, thinning, limit, horizons, cache, patience: PATIENCE, takes_chunks };
    let series = request.series(&client, &[]).await.unwrap();
    let mut taken = Taken { all: Answers::new(), chunks: 0, takes_chunks };
    let read = request.read(&client, &series, &mut taken).await?;
    Ok((taken.all, read))
}

/// The second of the two requests has blocks in memory.
async fn answer(database: &Database, name: &str, range: Range) -> Answers {
    answers_with((database, &no_cache()), name, range).await
}

async fn answers_with(from: (&Database, &BlockCache), name: &str, range: Range) -> Answers {
    let whole = request(from, name, range, Thinning::None, false).await.unwrap();
    let chunks = request(from, name, range, Thinning::None, true).await.unwrap();
    assert_eq!(whole, chunks, "both forms have the same samples and count the same");
    whole.0
}

fn no_cache() -> BlockCache {
    BlockCache::new(16 << 20)
}

/// All of `hours` from the beginning.
fn hours(from: i64, to: i64) -> Range {
    Range { from: (BEGIN + from * HOUR) * 1000, to: (BEGIN + to * HOUR) * 1000 }
}

/// What upkeep does, with blocks wanted from the beginning.
async fn minutes_made(database: &Database) {
    let mut client = database.connect().await.unwrap();
    make_rollups(&mut client, &Retention::for_all(ALWAYS), PATIENCE).await.unwrap();
    let begin =
        format!("UPDATE minute_state SET blocks_until = coalesce(blocks_until, to_timestamp({BEGIN}))");
    client.batch_execute(&begin).await.unwrap();
}

async fn blocks_made(database: &Database) -> Result<ChunksEncoded, Error> {
    encode_chunks(&mut database.connect().await.unwrap(), &Retention::for_all(ALWAYS), PATIENCE).await
}

async fn count(client: &Client, what: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM {what}"), &[]).await.unwrap().get(0)
}

/// xorshift64*: good enough to choose, and the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> i64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound).cast_signed()
    }
}

/// Three hours of a counter: busy each second, standing still at a row a minute (over the borders of hours too), silence,
/// beginnings from 0, two readings in one millisecond. Times in microseconds since the beginning.
fn readings(random: &mut Random) -> Vec<(i64, i64)> {
    let (mut all, mut time, mut value) = (Vec::new(), random.below(60_000_000), random.below(1 << 50));
    while time < 3 * HOUR * 1_000_000 {
        let near_border = (time / 1_000_000 + 120) % HOUR < 240;
        let is_still = near_border || random.below(4) == 0;
        for _ in 0..random.below(40) + 1 {
            time += if is_still { 60_000_000 - random.below(3_000) } else { 4_999_000 + random.below(2_000) };
            value = match random.below(50) {
                0 => random.below(1000),
                _ if is_still => value,
                _ => value + random.below(1 << 30),
            };
            all.push((time, value));
        }
        match random.below(12) {
            0 => time += 80_000_000 + random.below(400_000_000),
            1 => all.push((time + 300, value + 1)),
            _ => {}
        }
    }
    all
}

/// Ports of a switch, of a host, and two GPUs with links that two sources read, of which one began later.
async fn seed(database: &Database) {
    let mut random = Random(17);
    let mut sql = format!(
        "INSERT INTO subnet (prefix) VALUES ('0x1');
         INSERT INTO ib_node_key (subnet_id, guid) VALUES (1, '0x2');
         INSERT INTO ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, valid_from)
         VALUES (1, '0x2', 'switch', 's', 1, 1, 1, '0x2', 1, to_timestamp({BEGIN}));
         INSERT INTO ib_port_key (ib_node_id, port) SELECT 1, n FROM generate_series(1, 30) n;
         INSERT INTO node_key (name) VALUES ('n1'); INSERT INTO gpu_key (uuid) VALUES ('GPU-1'), ('GPU-2');
         INSERT INTO host_port_key (node_id, device, port) VALUES (1, 'mlx5_0', 1);
         INSERT INTO gpu (gpu_id, node_id, uuid, index, name, pci_bus_id, link_count, source, valid_from)
         SELECT id, 1, uuid, id, 'H200', '', 4, 'nvml', to_timestamp({BEGIN}) FROM gpu_key;
         INSERT INTO gpu_link (gpu_id, link, active, remote_type, remote_pci_bus_id, valid_from)
         SELECT id, link, true, 'switch', '', to_timestamp({BEGIN}) FROM gpu_key, generate_series(0, 3) link;"
    );
    let time = |time: i64| format!("to_timestamp({BEGIN}) + {time} * INTERVAL '1 us'");
    let mut insert = |table: &str, columns: &str, rows: Vec<String>| {
        _ = write!(
            sql,
            "INSERT INTO {table} (time, epoch, {columns}) VALUES {} ON CONFLICT DO NOTHING;",
            rows.join(",")
        );
    };
    for port in 1..=30 {
        let rows = readings(&mut random).into_iter().enumerate().map(|(place, (at, value))| {
            // Errors are read more rarely.
            let errors = if place % 12 == 0 { (place / 100).to_string() } else { "NULL".to_owned() };
            format!("({}, 'epoch', {port}, 'mad', {value}, {errors}, {})", time(at), 1000 + place / 50)
        });
        let columns = "port_id, source, transmit_data_bytes, symbol_error, rate_bytes_per_second";
        insert("ib_port_counters", columns, rows.collect());
    }
    let rows = readings(&mut random);
    let rows = rows.iter().map(|(at, value)| format!("({}, 'epoch', 1, 'sysfs', {value})", time(*at)));
    insert("host_port_counters", "host_port_id, source, port_data_received_bytes", rows.collect());
    for (gpu, source) in [(1, "dcgm"), (1, "nvml"), (2, "dcgm")] {
        let rows =
            readings(&mut random).into_iter().filter(|(at, _)| source == "dcgm" || *at > 5_000_000_000);
        let rows = rows.map(|(at, value)| {
            format!("({}, 'epoch', {gpu}, '{source}', '{{{value},NULL,7}}', '{{1,1}}')", time(at))
        });
        insert("nvlink_counters", "gpu_id, source, transmit_bytes, up", rows.collect());
    }
    database.connect().await.unwrap().batch_execute(&sql).await.unwrap();
}

const ASKED: [&str; 6] = [
    BYTES,
    "infiniband_switch_port_symbol_error_total",
    "infiniband_switch_port_rate_bytes_per_second",
    "node_infiniband_port_data_received_bytes_total",
    LINKS,
    "throughline_nvlink_up",
];

#[tokio::test]
async fn every_answer_is_that_of_rows() {
    let database = testing::database().await;
    seed(&database).await;
    let mut random = Random(5);
    let mut ranges =
        vec![hours(-1, 5), hours(1, 2), Range { from: hours(1, 1).from, to: hours(2, 2).to - 1 }];
    ranges.extend((0..12).map(|_| {
        let from = hours(0, 0).from + random.below(3 * 3_600_000);
        Range { from, to: from + random.below(2 * 3_600_000) }
    }));
    let mut rows = Vec::new();
    for name in ASKED {
        for range in &ranges {
            rows.push(answer(&database, name, *range).await);
        }
    }
    assert!(rows[0].len() == 30 && rows[0].values().all(|points| points.len() > 500), "{:?}", rows[0].len());
    minutes_made(&database).await;
    let made = blocks_made(&database).await.unwrap();
    assert!(!made.is_behind && made.samples > 30_000, "{made:?}");
    let client = database.connect().await.unwrap();
    assert_eq!(count(&client, "block_wanted").await, 0);
    let compare = async |what: &str| {
        let mut expected = rows.iter();
        for name in ASKED {
            for range in &ranges {
                assert_eq!(
                    answer(&database, name, *range).await,
                    *expected.next().unwrap(),
                    "{what}: {name} {range:?}"
                );
            }
        }
    };
    compare("blocks").await;
    // Some are not made, and an hour in the middle of others.
    let holes = format!(
        "DELETE FROM ib_port_blocks WHERE port_id % 3 = 0; DELETE FROM nvlink_blocks WHERE time = to_timestamp({BEGIN} + 3600);
         DELETE FROM ib_port_blocks WHERE port_id % 7 = 0 AND time = to_timestamp({BEGIN} + 3600)"
    );
    client.batch_execute(&holes).await.unwrap();
    compare("blocks and rows").await;
    // Thinned, both sides of a fall are there.
    for name in [BYTES, LINKS] {
        for interval in [15_000, 59_000] {
            let thinned =
                request((&database, &no_cache()), name, hours(0, 3), Thinning::Every(interval), true)
                    .await
                    .unwrap()
                    .0;
            let whole = answer(&database, name, hours(0, 3)).await;
            for (labels, points) in &whole {
                assert_eq!(increase(&thinned[labels]), increase(points), "{name} {labels}");
            }
        }
    }
}

/// What Prometheus makes of a counter's samples: a fall is a beginning from 0. In whole numbers, which add up.
fn increase(points: &[(i64, u64)]) -> i128 {
    let values: Vec<i128> = points.iter().map(|(_, bits)| f64::from_bits(*bits) as i128).collect();
    values.windows(2).map(|pair| if pair[1] >= pair[0] { pair[1] - pair[0] } else { pair[1] }).sum()
}

/// Readings of some ports each 5 s.
fn batch(ports: &[u32], seconds: impl Iterator<Item = i64> + Clone) -> Batch {
    let base = BEGIN - START / SECOND;
    let sample = |port, second: i64| {
        let value = u64::try_from(second * 100 + i64::from(port)).unwrap();
        port_sample(port, base + second, base, &[(&TRANSMIT_DATA_BYTES, value), (&SYMBOL_ERROR, 3)])
    };
    let samples = ports.iter().flat_map(|port| seconds.clone().map(|second| sample(*port, second))).collect();
    Batch { subnet_prefix: PREFIX, ib_ports: samples, ..Batch::default() }
}

/// A switch with two ports and the readings of two hours, in a database; the writer goes on with what is late.
struct Site {
    database: Database,
    cache: BlockCache,
    writer: throughline_store::Writer,
    sequence: u64,
}

impl Site {
    async fn new() -> Site {
        let database = testing::database().await;
        let writer = throughline_store::Writer::new(database.clone());
        let mut site = Site { database, cache: no_cache(), writer, sequence: 0 };
        let whole = (0..2 * HOUR).step_by(5).filter(|second| !(4000..4600).contains(second));
        site.write(batch(&[1, 2], whole)).await;
        let client = site.database.connect().await.unwrap();
        let node = format!(
            "INSERT INTO ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, valid_from)
             SELECT id, guid, 'switch', 's', 1, 1, 1, guid, 1, to_timestamp({BEGIN}) FROM ib_node_key"
        );
        client.batch_execute(&node).await.unwrap();
        site
    }

    async fn write(&mut self, batch: Batch) {
        self.sequence += 1;
        let outcome = self.writer.write(&[entry(Uuid::from_u128(7), self.sequence, batch)]).await.unwrap();
        assert_eq!(outcome.quarantined, 0);
    }

    /// Samples of each port in the two hours. Who has blocks in memory and who has none are returned the same.
    async fn answer(&self) -> Vec<usize> {
        let first = answer(&self.database, BYTES, hours(0, 2)).await;
        assert_eq!(answers_with((&self.database, &self.cache), BYTES, hours(0, 2)).await, first);
        first.values().map(Vec::len).collect()
    }

    /// The same by the one server that requests again and again.
    async fn answer_again(&self) -> Vec<usize> {
        answers_with((&self.database, &self.cache), BYTES, hours(0, 2)).await.values().map(Vec::len).collect()
    }
}

#[tokio::test]
async fn what_comes_late_is_seen_at_once_and_packed_again() {
    let mut site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    minutes_made(&site.database).await;
    assert_eq!(site.answer().await, [1320, 1320]);
    let made = blocks_made(&site.database).await.unwrap();
    assert_eq!((made.blocks, made.samples), (4, 4 * 1320));
    assert_eq!(site.answer().await, [1320, 1320]);

    // At each step the answer has all of it: noted, then without a block, then packed.
    site.write(batch(&[2], (4000..4600).step_by(5))).await;
    assert_eq!(count(&client, "minute_late").await, 1);
    assert_eq!(site.answer().await, [1320, 1440]);
    minutes_made(&site.database).await;
    assert_eq!((count(&client, "minute_late").await, count(&client, "block_wanted").await), (0, 1));
    assert_eq!(site.answer().await, [1320, 1440]);
    let again = blocks_made(&site.database).await.unwrap();
    assert_eq!(
        (again.blocks, again.samples),
        (1, 2 * 720),
        "of the other port and hour nothing was made again"
    );
    assert_eq!(site.answer().await, [1320, 1440]);
    // It is the blocks that answer.
    client.batch_execute("DELETE FROM ib_port_counters").await.unwrap();
    assert_eq!(site.answer().await, [1320, 1440]);
}

#[tokio::test]
async fn a_counter_at_its_end_is_shown_as_pages_show_it() {
    const ERRORS: &str = "infiniband_switch_port_symbol_error_total";
    const FULL: &str = "infiniband_switch_port_symbol_error_saturated";
    let mut site = Site::new().await;
    // Behind the last reading of the second hour.
    let base = BEGIN - START / SECOND;
    let mut full = port_sample(1, base + 2 * HOUR - 2, base, &[(&TRANSMIT_DATA_BYTES, 1 << 40)]);
    full.saturated = vec![SYMBOL_ERROR.id];
    let time = full.time / 1_000_000;
    site.write(Batch { subnet_prefix: PREFIX, ib_ports: vec![full], ..Batch::default() }).await;
    let newest = async |name: &str| -> Vec<(i64, f64)> {
        let series = answer(&site.database, name, hours(0, 2)).await.into_values();
        series.filter_map(|points| points.last().map(|(time, bits)| (*time, f64::from_bits(*bits)))).collect()
    };
    let by_rows = newest(ERRORS).await;
    assert_eq!(by_rows.first(), Some(&(time, 65_535.0)), "not absent: its alerts must not resolve");
    assert_eq!(newest(FULL).await, [(time, 1.0)]);
    minutes_made(&site.database).await;
    blocks_made(&site.database).await.unwrap();
    assert_eq!(newest(ERRORS).await, by_rows);
    assert_eq!(newest(FULL).await, [(time, 1.0)]);
}

#[tokio::test]
async fn what_was_read_answers_from_memory_while_it_holds() {
    let site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    minutes_made(&site.database).await;
    blocks_made(&site.database).await.unwrap();
    assert_eq!(site.answer().await, [1320, 1320]);
    // Nothing but marks is left to be read.
    let gone = "DELETE FROM ib_port_blocks WHERE metric > 0; DELETE FROM ib_port_counters";
    client.batch_execute(gone).await.unwrap();
    assert_eq!(site.answer_again().await, [1320, 1320]);
    assert!(
        answer(&site.database, BYTES, hours(0, 2)).await.is_empty(),
        "who has none in memory finds nothing"
    );
    // One is made anew, of readings that are gone: all of its port is read again, and nothing of the other one.
    let want = format!("INSERT INTO block_wanted VALUES ('ib_port_blocks', to_timestamp({BEGIN}), 1)");
    client.batch_execute(&want).await.unwrap();
    blocks_made(&site.database).await.unwrap();
    assert_eq!(site.answer_again().await, [1320]);
    // Without a mark there is no block.
    client.batch_execute("DELETE FROM ib_port_blocks WHERE metric = 0 AND port_id = 2").await.unwrap();
    assert!(site.answer_again().await.is_empty());
}

#[tokio::test]
async fn readings_of_a_whole_day_that_come_late_touch_each_of_its_hours() {
    let mut site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    site.write(batch(&[1], (20 * HOUR..20 * HOUR + 60).step_by(5))).await;
    minutes_made(&site.database).await;
    blocks_made(&site.database).await.unwrap();
    site.write(batch(&[2], (2 * HOUR - 30..9 * HOUR).step_by(30))).await;
    minutes_made(&site.database).await;
    let touched = "SELECT array_agg(extract(epoch FROM time)::bigint ORDER BY time) FROM block_wanted";
    let touched: Vec<i64> = client.query_one(touched, &[]).await.unwrap().get(0);
    assert_eq!(touched, (1..9).map(|hour| BEGIN + hour * HOUR).collect::<Vec<_>>());
    let before = answer(&site.database, BYTES, hours(0, 24)).await;
    blocks_made(&site.database).await.unwrap();
    assert_eq!(answer(&site.database, BYTES, hours(0, 24)).await, before);
}

#[tokio::test]
async fn upkeep_that_is_killed_leaves_nothing_wrong_and_the_next_one_goes_on() {
    let mut site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    minutes_made(&site.database).await;
    /// Ends whoever waits for this lock.
    async fn killed(client: &mut Client, table: &str, work: impl Future<Output = bool> + Send + 'static) {
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute(&format!("LOCK TABLE {table} IN EXCLUSIVE MODE")).await.unwrap();
        let work = tokio::spawn(work);
        let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks \
                    WHERE NOT granted AND relation = $1::text::regclass";
        while transaction.query_one(kill, &[&table]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(work.await.unwrap(), "it was killed");
        transaction.rollback().await.unwrap();
    }
    let mut holder = site.database.connect().await.unwrap();
    let database = site.database.clone();
    killed(&mut holder, "ib_port_blocks", async move { blocks_made(&database).await.is_err() }).await;
    assert_eq!(count(&client, "ib_port_blocks").await, 0);
    assert_eq!(count(&client, "block_wanted").await, 4);
    assert_eq!(site.answer().await, [1320, 1320]);
    assert_eq!(blocks_made(&site.database).await.unwrap().blocks, 4);

    // While blocks of late readings are forgotten.
    site.write(batch(&[1, 2], (4000..4600).step_by(5))).await;
    let database = site.database.clone();
    killed(&mut holder, "ib_port_blocks", async move {
        let mut client = database.connect().await.unwrap();
        make_rollups(&mut client, &Retention::for_all(ALWAYS), PATIENCE).await.is_err()
    })
    .await;
    assert_eq!(count(&client, "minute_late").await, 2, "the notes are there still");
    assert_eq!(site.answer().await, [1440, 1440]);
    minutes_made(&site.database).await;
    assert_eq!(blocks_made(&site.database).await.unwrap().blocks, 2);
    client.batch_execute("DELETE FROM ib_port_counters").await.unwrap();
    assert_eq!(site.answer().await, [1440, 1440]);
}

#[tokio::test]
async fn blocks_go_with_their_readings_and_answer_no_longer_than_they() {
    let site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    minutes_made(&site.database).await;
    blocks_made(&site.database).await.unwrap();
    // Readings went by a policy, blocks are to follow.
    let drop = format!("SELECT drop_chunks('ib_port_counters', older_than => to_timestamp({BEGIN} + 3600))");
    client.query(&drop, &[]).await.unwrap();
    let mixed = site.answer().await;
    assert!(mixed[0] < 700, "an hour of minutes and one of readings: {mixed:?}");
    client.batch_execute("DELETE FROM ib_port_blocks").await.unwrap();
    assert_eq!(site.answer().await, mixed);
    // What is older than retention keeps readings is neither made again nor retained.
    let want = format!(
        "INSERT INTO block_wanted SELECT 'ib_port_blocks', to_timestamp({BEGIN}), id FROM ib_port_key"
    );
    client.batch_execute(&want).await.unwrap();
    let short = Retention::for_all(Duration::from_secs(3600));
    let made = encode_chunks(&mut site.database.connect().await.unwrap(), &short, PATIENCE).await.unwrap();
    assert_eq!((made.blocks, count(&client, "ib_port_blocks").await), (0, 0));
    client.batch_execute(&want).await.unwrap();
    blocks_made(&site.database).await.unwrap();
    assert!(count(&client, "ib_port_blocks").await > 0);
    apply_retention(&client, &short, None).await.unwrap();
    let mut policies =
        count(&client, "timescaledb_information.jobs WHERE hypertable_name = 'ib_port_blocks'").await;
    if policies == 0 {
        policies = i64::from(count(&client, "ib_port_blocks").await == 0);
    }
    assert_eq!(policies, 1, "dropped, or to be dropped by the database");
}

#[tokio::test]
async fn a_damaged_block_is_reported_with_a_remedy_that_helps() {
    let site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    minutes_made(&site.database).await;
    blocks_made(&site.database).await.unwrap();
    for damage in
        ["set_byte(samples, 40, 1 + get_byte(samples, 40) % 255)", "substr(samples, 1, 100)", "''", "NULL"]
    {
        let damaged = format!(
            "UPDATE ib_port_blocks SET samples = {damage} WHERE metric = {} AND port_id = 1 AND time = to_timestamp({BEGIN})",
            TRANSMIT_DATA_BYTES.id
        );
        client.batch_execute(&damaged).await.unwrap();
        let error = request((&site.database, &no_cache()), BYTES, hours(0, 2), Thinning::None, true)
            .await
            .unwrap_err()
            .to_string();
        let remedy = error.split_once("damaged; ").unwrap().1.split_once(" has its").unwrap().0;
        assert!(
            error.contains("ib_port_blocks")
                && remedy.starts_with("DELETE FROM ib_port_blocks WHERE port_id = 1"),
            "{error}"
        );
        client.batch_execute(remedy).await.unwrap();
        assert_eq!(site.answer().await, [1320, 1320]);
        client
            .batch_execute(&format!(
                "INSERT INTO block_wanted VALUES ('ib_port_blocks', to_timestamp({BEGIN}), 1)"
            ))
            .await
            .unwrap();
        assert_eq!(blocks_made(&site.database).await.unwrap().blocks, 1);
    }
}
