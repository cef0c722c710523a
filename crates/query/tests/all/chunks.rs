//! Blocks of readings: with them every request has the answer that rows give, to the last bit.

mod changes;
mod exported;
pub mod moved;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::batches::{PREFIX, SECOND, START, entry, port_sample};
use throughline_query::Horizons;
use throughline_query::history::{
    BlockCache, HistoryError, HistoryQuery, Range, RangeWindows, Samples, Series, SeriesSink, Thinning,
    families,
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
pub type Answers = BTreeMap<String, Vec<(i64, u64)>>;

struct Taken {
    all: Answers,
    /// Chunks that came as they are.
    chunks: usize,
    takes_chunks: bool,
}

impl SeriesSink for Taken {
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

pub async fn answers_with(from: (&Database, &BlockCache), name: &str, range: Range) -> Answers {
    let whole = request(from, name, range, Thinning::None, false).await.unwrap();
    let chunks = request(from, name, range, Thinning::None, true).await.unwrap();
    assert_eq!(whole, chunks, "both forms have the same samples and count the same");
    whole.0
}

pub fn no_cache() -> BlockCache {
    BlockCache::new(16 << 20)
}

/// All of `hours` from the beginning.
fn hours(from: i64, to: i64) -> Range {
    Range { from: (BEGIN + from * HOUR) * 1000, to: (BEGIN + to * HOUR) * 1000 }
}

/// What upkeep does, with blocks wanted from the beginning.
pub async fn minutes_made(database: &Database) {
    let mut client = database.connect().await.unwrap();
    make_rollups(&mut client, &Retention::for_all(ALWAYS), PATIENCE).await.unwrap();
    let begin = format!(
        "UPDATE internal.minute_state SET blocks_until = coalesce(blocks_until, to_timestamp({BEGIN}))"
    );
    client.batch_execute(&begin).await.unwrap();
}

pub async fn blocks_made(database: &Database) -> Result<ChunksEncoded, Error> {
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

/// Ports of a switch, of a host, and two GPUs with links that two sources read; one source began later.
async fn seed(database: &Database) {
    let mut random = Random(17);
    let mut sql = format!(
        "INSERT INTO internal.fabric (name, guids) VALUES ('0x1', ARRAY['0x1']);
         INSERT INTO internal.ib_node_key (fabric_id, guid) VALUES (1, '0x2');
         INSERT INTO internal.ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, valid_from)
         VALUES (1, '0x2', 'switch', 's', 1, 1, 1, '0x2', 1, to_timestamp({BEGIN}));
         INSERT INTO internal.ib_port_key (ib_node_id, port) SELECT 1, n FROM generate_series(1, 30) n;
         INSERT INTO internal.node_key (name) VALUES ('n1'); INSERT INTO internal.gpu_key (node_id, uuid) VALUES (1, 'GPU-1'), (1, 'GPU-2');
         INSERT INTO internal.host_port_key (node_id, device, port) VALUES (1, 'mlx5_0', 1);
         INSERT INTO internal.gpu (gpu_id, node_id, uuid, index, name, pci_bus_id, link_count, source, valid_from)
         SELECT id, 1, uuid, id, 'H200', '', 4, 'nvml', to_timestamp({BEGIN}) FROM internal.gpu_key;
         INSERT INTO internal.gpu_link (gpu_id, link, active, remote_type, remote_pci_bus_id, valid_from)
         SELECT id, link, true, 'switch', '', to_timestamp({BEGIN}) FROM internal.gpu_key, generate_series(0, 3) link;"
    );
    let time = |time: i64| format!("to_timestamp({BEGIN}) + {time} * INTERVAL '1 us'");
    let mut insert = |table: &str, columns: &str, rows: Vec<String>| {
        _ = write!(
            sql,
            "INSERT INTO internal.{table} (time, epoch, {columns}) VALUES {} ON CONFLICT DO NOTHING;",
            rows.join(",")
        );
    };
    for port in 1..=30 {
        let rows = readings(&mut random).into_iter().enumerate().map(|(place, (at, value))| {
            // Errors are read more rarely.
            let errors = if place % 12 == 0 { (place / 100).to_string() } else { "NULL".to_owned() };
            // Few packets are multicast, and some readings have no count of packets.
            let packets = if place % 40 == 7 { "NULL".to_owned() } else { (value / 7 + 40).to_string() };
            let unicast = if place % 40 == 7 || port % 5 == 0 && place % 9 == 0 {
                "NULL".to_owned()
            } else {
                (value / 7 + 40 - (place as i64 / 3) % 40).to_string()
            };
            let others = format!("{errors}, {}, {packets}, {unicast}", 1000 + place / 50);
            format!("({}, 'epoch', {port}, 'mad', {value}, {others})", time(at))
        });
        let columns = "port_id, source, transmit_data_bytes, symbol_error, rate_bytes_per_second, transmit_packets, \
                       unicast_transmit_packets";
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
        let rows =
            readings(&mut random).into_iter().filter(|(at, _)| source == "dcgm" || *at > 5_000_000_000);
        let rows = rows.enumerate().map(|(place, (at, value))| {
            let received = if place % 30 == 4 { "NULL".to_owned() } else { (value / 3).to_string() };
            format!("({}, 'epoch', {gpu}, '{source}', {value}, {received})", time(at))
        });
        insert("gpu_pcie_counters", "gpu_id, source, transmit_bytes, receive_bytes", rows.collect());
    }
    database.connect().await.unwrap().batch_execute(&sql).await.unwrap();
}

const QUERIED: [&str; 8] = [
    BYTES,
    "infiniband_switch_port_unicast_transmit_packets_total",
    "infiniband_switch_port_symbol_error_total",
    "infiniband_switch_port_rate_bytes_per_second",
    "node_infiniband_port_data_received_bytes_total",
    LINKS,
    "throughline_nvlink_up",
    "throughline_pcie_transmit_bytes_total",
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
    for name in QUERIED {
        for range in &ranges {
            rows.push(answer(&database, name, *range).await);
        }
    }
    assert!(rows[0].len() == 30 && rows[0].values().all(|points| points.len() > 500), "{:?}", rows[0].len());
    minutes_made(&database).await;
    let made = blocks_made(&database).await.unwrap();
    assert!(!made.is_behind && made.samples > 30_000, "{made:?}");
    let client = database.connect().await.unwrap();
    assert_eq!(count(&client, "internal.block_wanted").await, 0);
    let compare = async |what: &str| {
        let mut expected = rows.iter();
        for name in QUERIED {
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
        "DELETE FROM internal.ib_port_blocks WHERE port_id % 3 = 0; DELETE FROM internal.nvlink_blocks WHERE time = to_timestamp({BEGIN} + 3600);
         DELETE FROM internal.ib_port_blocks WHERE port_id % 7 = 0 AND time = to_timestamp({BEGIN} + 3600)"
    );
    client.batch_execute(&holes).await.unwrap();
    compare("blocks and rows").await;
    // Thinned, both sides of a fall are there.
    for name in [BYTES, LINKS] {
        for length in [60_000, 239_000] {
            let windows = RangeWindows::new(hours(0, 3), 15_000, length).unwrap();
            let thinning = Thinning::Increase(windows);
            let thinned =
                request((&database, &no_cache()), name, hours(0, 3), thinning, true).await.unwrap().0;
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
