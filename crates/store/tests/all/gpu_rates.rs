//! Rates of GPUs in the database: the same increase as everywhere else in the program, on random sequences of counters that
//! wrap and begin anew; one source where several read the same link; nothing where nothing was read.

use std::collections::BTreeMap;

use throughline_sample::catalogue::{GPU_SOURCES, STORED_BITS, gpu_source_rank};
use throughline_sample::{increase, rate};
use throughline_store::testing;
use tokio_postgres::Client;

/// Pairs of readings of an ordinary run; `benches/gpu.sh` asks for a million by [`SEQUENCES_VARIABLE`].
const SEQUENCES: usize = 50_000;
const SEQUENCES_VARIABLE: &str = "THROUGHLINE_TEST_SEQUENCES";
/// Pairs of one query.
const PAIRS_OF_A_QUERY: usize = 50_000;

/// Two GPUs of one node.
const GPUS: &str = "
INSERT INTO internal.node_key (name) VALUES ('n1');
INSERT INTO internal.gpu_key (node_id, uuid) VALUES (1, 'GPU-1'), (1, 'GPU-2');
INSERT INTO internal.gpu (gpu_id, uuid, node_id, index, name, pci_bus_id, link_count, source, valid_from)
SELECT id, uuid, 1, id - 1, 'H200', '', 2, 'nvml', '2026-11-20' FROM internal.gpu_key;
";

/// xorshift64*: good enough to choose, and the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// As columns hold it.
fn stored(value: u64) -> i64 {
    (value & ((1 << STORED_BITS) - 1)).cast_signed()
}

#[tokio::test]
async fn a_counter_grows_by_the_same_in_the_database_and_here() {
    let number = std::env::var(SEQUENCES_VARIABLE).map_or(SEQUENCES, |number| number.parse().unwrap());
    let client = testing::database().await.connect_reader().await.unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut done = 0;
    while done < number {
        let pairs: Vec<(u64, u64)> = (0..PAIRS_OF_A_QUERY.min(number - done))
            .map(|_| {
                // Counters of any width and any growth; a third stands just below the end of a stored counter.
                let before =
                    if random.below(3) == 0 { u64::MAX >> 1 } else { random.next() >> random.below(64) };
                let before = before.wrapping_sub(random.below(3));
                let shift = random.below(64);
                (before, before.wrapping_add(random.next() >> shift))
            })
            .collect();
        let column =
            |of: fn(&(u64, u64)) -> u64| pairs.iter().map(|pair| stored(of(pair))).collect::<Vec<i64>>();
        let (before, after) = (column(|pair| pair.0), column(|pair| pair.1));
        let query = "SELECT array_agg(public.counter_increase(b, a) ORDER BY n), array_agg(public.counter_rate(b, a, 2) ORDER BY n) \
                     FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS p (b, a, n)";
        let row = client.query_one(query, &[&before, &after]).await.unwrap();
        let (grown, rates): (Vec<i64>, Vec<f64>) = (row.get(0), row.get(1));
        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
            let (before, after) = (before.cast_unsigned(), after.cast_unsigned());
            let expected = increase(before, after);
            assert_eq!(grown[at].cast_unsigned(), expected, "{before} to {after}");
            // Neither negative nor more than the width of a stored counter.
            assert!(grown[at] >= 0);
            assert_eq!(Some(rates[at]), rate(before, after, 2.0), "{before} to {after}");
        }
        done += pairs.len();
    }
}

#[tokio::test]
async fn sources_have_one_order() {
    let client = testing::database().await.connect_reader().await.unwrap();
    for source in GPU_SOURCES.into_iter().chain(["another"]) {
        let row = client.query_one("SELECT internal.gpu_source_rank($1)", &[&source]).await.unwrap();
        // Arrays of the database begin with 1.
        assert_eq!(usize::try_from(row.get::<_, i32>(0)).unwrap(), gpu_source_rank(source) + 1, "{source}");
    }
}

/// One source's readings of a GPU's two links, one a second: `None` for what was not read.
struct Readings {
    source: &'static str,
    gpu: i64,
    /// Epoch, and bytes sent over the two links.
    rows: Vec<(i64, [Option<u64>; 2])>,
}

async fn insert(client: &Client, readings: &Readings) {
    for (second, (epoch, sent)) in (0_i64..).zip(&readings.rows) {
        let sent: Vec<Option<i64>> = sent.iter().map(|value| value.map(stored)).collect();
        let query = "INSERT INTO internal.nvlink_counters (time, gpu_id, epoch, source, transmit_bytes, receive_bytes, up, \
                     speed_bytes_per_second) VALUES ('2026-11-20 12:00:00+00'::timestamptz + $1 * INTERVAL '1 s', $2, \
                     '2026-11-20 00:00:00+00'::timestamptz + $3 * INTERVAL '1 s', $4, $5, $5, '{1,1}', '{1000,1000}')";
        let (second, epoch) = (second as f64, *epoch as f64);
        client.execute(query, &[&second, &readings.gpu, &epoch, &readings.source, &sent]).await.unwrap();
    }
}

/// Rates by (GPU, link): source and bytes per second, in the order of time.
async fn rates(client: &Client) -> BTreeMap<(i64, i32), Vec<(String, Option<f64>)>> {
    let query = "SELECT gpu_id, link, source, transmit_bytes_per_second FROM public.nvlink_rates('2026-11-20', '2026-11-21') \
                 ORDER BY time";
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in client.query(query, &[]).await.unwrap() {
        found.entry((row.get(0), row.get(1))).or_default().push((row.get(2), row.get(3)));
    }
    found
}

#[tokio::test]
async fn links_that_wrap_and_begin_anew_have_the_rates_that_the_program_makes() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(GPUS).await.unwrap();
    let mut random = Random(7);
    let mut expected: BTreeMap<(i64, i32), Vec<f64>> = BTreeMap::new();
    for gpu in 1..=2 {
        let mut at = [(1 << STORED_BITS) - 500, random.next() >> 8];
        let (mut epoch, mut rows, mut last) = (0, Vec::new(), None::<[u64; 2]>);
        for _ in 0..100 {
            if random.below(10) == 0 {
                // Began anew: nothing is known of the time between.
                (epoch, last, at) = (epoch + 1, None, [random.below(9), random.below(9)]);
            }
            at = at.map(|value| value.wrapping_add(random.below(1000)));
            for link in 0..2 {
                let grown = last.and_then(|last| {
                    rate(stored(last[link]).cast_unsigned(), stored(at[link]).cast_unsigned(), 1.0)
                });
                expected.entry((gpu, i32::try_from(link).unwrap())).or_default().extend(grown);
            }
            rows.push((epoch, at.map(Some)));
            last = Some(at);
        }
        insert(&client, &Readings { source: "nvml", gpu, rows }).await;
    }
    let found = rates(&client).await;
    for (key, expected) in expected {
        let found: Vec<f64> = found[&key].iter().map(|(_, rate)| rate.unwrap()).collect();
        assert_eq!(found, expected, "{key:?}");
        assert!(found.iter().all(|rate| (0.0..1000.0).contains(rate)));
    }
}

#[tokio::test]
async fn of_several_sources_the_first_that_counts_a_links_bytes_has_all_of_them() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(GPUS).await.unwrap();
    let counting = |source, gpu, by: u64, links: [bool; 2]| Readings {
        source,
        gpu,
        rows: (0..10).map(|n| (0, links.map(|counts| counts.then_some(n * by)))).collect(),
    };
    // The first GPU is read by three; NVML knows the second link's state and not its bytes. The second by DCGM alone.
    for readings in [
        counting("dcgm", 1, 107, [true, true]),
        counting("cupti", 1, 109, [true, true]),
        counting("nvml", 1, 100, [true, false]),
        counting("dcgm", 2, 50, [true, false]),
    ] {
        insert(&client, &readings).await;
    }
    let found = rates(&client).await;
    let all = |source: &str, rate: Option<f64>| vec![(source.to_owned(), rate); 9];
    assert_eq!(found[&(1, 0)], all("nvml", Some(100.0)));
    assert_eq!(found[&(1, 1)], all("dcgm", Some(107.0)));
    assert_eq!(found[&(2, 0)], all("dcgm", Some(50.0)));
    // A link that nobody counts is there, without a rate.
    assert_eq!(found[&(2, 1)], all("dcgm", None));
    // What is made of these rates does not add sources up either.
    let sum = "SELECT sum(transmit_bytes_per_second) FROM public.nvlink_rates('2026-11-20', '2026-11-21') WHERE gpu_id = 1 AND link = 0";
    assert_eq!(client.query_one(sum, &[]).await.unwrap().get::<_, f64>(0), 900.0);
    let inam = "SELECT count(*), max(data_sent_rate) FROM public.nvlink_metrics_between('2026-11-20', '2026-11-21') \
                WHERE source_id = 0 AND link_id = 0";
    let row = client.query_one(inam, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, f64>(1)), (10, 100.0));
}

#[tokio::test]
async fn pcie_of_two_sources_is_one_and_the_monitors_rows_have_rates_and_peaks() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(GPUS).await.unwrap();
    let readings = "
        INSERT INTO internal.gpu_pcie_counters (time, gpu_id, epoch, source, transmit_bytes, receive_bytes)
        SELECT '2026-11-20 12:00:00+00'::timestamptz + n * INTERVAL '2 s', g, '2026-11-20', s, n * 10 * length(s), NULL
        FROM generate_series(0, 4) n, unnest(ARRAY['nvml_gpm', 'dcgm']) s, generate_series(1, 2) g
        WHERE s = 'dcgm' OR g = 1;
        INSERT INTO internal.gpu_pm_counters (time, gpu_id, epoch, source, nvlink_transmit_bytes, pcie_read_bytes,
                                     nvlink_transmit_peak_bytes_per_second, samples, void_samples, buffer_overflows)
        SELECT '2026-11-20 12:00:00+00'::timestamptz + n * INTERVAL '2 s', 1, '2026-11-20', 'cupti',
               (9223372036854775808 - 1000 + n * 1000) % 9223372036854775808, n * 4000, 700 + n, n * 200, 1, floor(n / 4)
        FROM generate_series(0::numeric, 4) n";
    client.batch_execute(readings).await.unwrap();
    let query = "SELECT gpu_id, source, transmit_bytes_per_second, receive_bytes_per_second, node_name, gpu_index \
                 FROM public.gpu_pcie_rates('2026-11-20', '2026-11-21') ORDER BY gpu_id, time";
    let rows = client.query(query, &[]).await.unwrap();
    let found: Vec<(i64, &str, f64, Option<f64>)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    assert_eq!(found, [vec![(1, "nvml_gpm", 40.0, None); 4], vec![(2, "dcgm", 20.0, None); 4]].concat());
    assert_eq!((rows[0].get::<_, &str>(4), rows[0].get::<_, i32>(5)), ("n1", 0));
    // More than the slot carries is marked; where its speed is not known nothing is.
    client
        .batch_execute("UPDATE internal.gpu SET pcie_bytes_per_second = 39 WHERE gpu_id = 1")
        .await
        .unwrap();
    let query = "SELECT gpu_id, bool_and(is_above_speed), max(speed_bytes_per_second) \
                 FROM public.gpu_pcie_rates('2026-11-20', '2026-11-21') GROUP BY gpu_id ORDER BY gpu_id";
    let rows = client.query(query, &[]).await.unwrap();
    let marked: Vec<(i64, bool, Option<i64>)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(marked, [(1, true, Some(39)), (2, false, None)]);
    let query = "SELECT nvlink_transmit_bytes_per_second, nvlink_receive_bytes_per_second, pcie_read_bytes_per_second, \
                 nvlink_transmit_peak_bytes_per_second, samples, void_samples, buffer_overflows \
                 FROM public.gpu_pm_rates('2026-11-20', '2026-11-21') ORDER BY time";
    let rows = client.query(query, &[]).await.unwrap();
    assert_eq!(rows.len(), 4);
    for (row, n) in rows.iter().zip(1_i64..) {
        assert_eq!(row.get::<_, f64>(0), 500.0, "{n}");
        assert_eq!((row.get::<_, Option<f64>>(1), row.get::<_, f64>(2)), (None, 2000.0));
        assert_eq!((row.get::<_, i64>(3), row.get::<_, i64>(4)), (700 + n, 200));
        assert_eq!((row.get::<_, i64>(5), row.get::<_, i64>(6)), (0, i64::from(n == 4)));
    }
}

#[tokio::test]
async fn chosen_metrics_have_increases_and_values_by_name() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(GPUS).await.unwrap();
    let readings = "
        INSERT INTO internal.gpu_metric_key (gpu_id, name) VALUES (1, 'dram__bytes_read.sum'), (1, 'sm__cycles_active.avg');
        INSERT INTO internal.gpu_metrics (time, gpu_metric_id, epoch, source, sum, value)
        SELECT '2026-11-20 12:00:00+00'::timestamptz + n * INTERVAL '2 s', m,
               CASE WHEN n < 4 THEN '2026-11-20'::timestamptz ELSE '2026-11-20 12:00:07+00' END, 'cupti',
               CASE m WHEN 1 THEN (9223372036854775808 - 1000 + n * 1000) % 9223372036854775808 END,
               CASE m WHEN 2 THEN n / 2 END
        FROM generate_series(0::numeric, 4) n, generate_series(1, 2) m";
    client.batch_execute(readings).await.unwrap();
    let query = "SELECT metric, node_name, gpu, gpu_index, interval_seconds, increase, per_second, value \
                 FROM public.gpu_metric_rates('2026-11-20', '2026-11-21') ORDER BY metric, time";
    let rows = client.query(query, &[]).await.unwrap();
    let named: Vec<(&str, &str, &str, i32)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    // The last sum began anew, and no rate spans that.
    assert_eq!(named[..3], [("dram__bytes_read.sum", "n1", "GPU-1", 0); 3]);
    assert_eq!(named[3..], [("sm__cycles_active.avg", "n1", "GPU-1", 0); 5]);
    for row in &rows[..3] {
        let grown: (f64, i64, f64, Option<f64>) = (row.get(4), row.get(5), row.get(6), row.get(7));
        assert_eq!(grown, (2.0, 1000, 500.0, None));
    }
    let values: Vec<f64> = rows[3..].iter().map(|row| row.get(7)).collect();
    assert_eq!(values, [0.0, 0.5, 1.0, 1.5, 2.0]);
    let spans: Vec<Option<f64>> = rows[3..].iter().map(|row| row.get(4)).collect();
    assert_eq!(spans, [None, Some(2.0), Some(2.0), Some(2.0), None]);
}

/// Two GPUs that swapped their indices five minutes ago, and readings of each second since ten minutes ago: the first sends 1 kB/s over
/// its first link and 2 kB/s over its second one, the other ten times as much.
const SWAPPED: &str = "
INSERT INTO internal.node_key (name) VALUES ('n1'), ('n2');
INSERT INTO internal.gpu_key (node_id, uuid) VALUES (1, 'GPU-1'), (1, 'GPU-2');
INSERT INTO internal.gpu (gpu_id, uuid, node_id, index, name, pci_bus_id, link_count, source, valid_from, valid_to)
SELECT k.id, k.uuid, 1, abs(k.id - 1 - h.half), 'H200', '', 2, 'nvml', t.now - INTERVAL '1 day' * (1 - h.half) - INTERVAL '5 minutes' * h.half,
       CASE h.half WHEN 0 THEN t.now - INTERVAL '5 minutes' END
FROM internal.gpu_key k CROSS JOIN (VALUES (0), (1)) h (half) CROSS JOIN (SELECT date_trunc('second', now()) AS now) t;
INSERT INTO internal.gpu_link (gpu_id, link, active, remote_type, remote_pci_bus_id, remote_gpu_id, remote_link, valid_from)
SELECT k.id, l, true, 'gpu', '', 3 - k.id, l, now() - INTERVAL '1 day' FROM internal.gpu_key k CROSS JOIN generate_series(0, 1) l;
INSERT INTO internal.nvlink_counters (time, gpu_id, epoch, source, transmit_bytes, receive_bytes, up, speed_bytes_per_second)
SELECT date_trunc('second', now()) - n * INTERVAL '1 s', k.id, now() - INTERVAL '1 hour', 'nvml',
       (SELECT array_agg((1000 - n) * 1000 * f * CASE k.id WHEN 1 THEN 1 ELSE 10 END ORDER BY f) FROM generate_series(1, 2) f),
       ARRAY[7, 7], ARRAY[1, 1], ARRAY[50000, 50000]
FROM internal.gpu_key k CROSS JOIN generate_series(0, 599) n;
";

#[tokio::test]
async fn inams_table_has_the_last_hour_with_the_names_of_its_time_and_ids_that_stay() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    client.batch_execute(SWAPPED).await.unwrap();
    let reader = database.connect_reader().await.unwrap();
    let of = "SELECT source_id, link_id, min(data_sent_rate), max(data_sent_rate), count(data_sent_rate), min(dest_name), max(dest_id)
              FROM";
    let at = "(SELECT max(valid_from) FROM internal.gpu)";
    let query = |from: &str, when: &str| {
        format!("{of} {from} WHERE node_name = 'n1' AND added_on {when} GROUP BY 1, 2 ORDER BY 1, 2")
    };
    let between = "public.nvlink_metrics_between(now() - INTERVAL '20 minutes', now(), 'n1')";
    for from in ["public.nvlink_metrics", between] {
        for (when, factors) in [(format!("< {at}"), [1, 10]), (format!(">= {at}"), [10, 1])] {
            let rows = reader.query(&query(from, &when), &[]).await.unwrap();
            assert_eq!(rows.len(), 4, "{from} {when}");
            for (row, (index, link)) in rows.iter().zip([(0, 0), (0, 1), (1, 0), (1, 1)]) {
                assert_eq!((row.get::<_, i32>(0), row.get::<_, i32>(1)), (index, link));
                let rate = f64::from(factors[index as usize] * 1000 * (link + 1));
                assert_eq!((row.get::<_, f64>(2), row.get::<_, f64>(3)), (rate, rate), "{from} {when}");
                assert!(row.get::<_, i64>(4) >= 298, "{from} {when}");
                let other = 1 - index;
                assert_eq!(
                    (row.get::<_, &str>(5), row.get::<_, i32>(6)),
                    (format!("H200 {other}").as_str(), other)
                );
            }
        }
    }
    // The same reading has the same id in both, and later ones have greater ones.
    let ids = format!(
        "SELECT count(*), count(DISTINCT a.id), bool_and(a.added_on = b.added_on AND a.link_id = b.link_id AND a.source_id = b.source_id),
                bool_and(a.is_greater) FROM (SELECT *, id > lag(id, 4) OVER (ORDER BY added_on, id) IS NOT FALSE AS is_greater FROM public.nvlink_metrics) a
         JOIN {between} b ON b.id = a.id"
    );
    let row = reader.query_one(&ids, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2400, 2400));
    assert!(row.get::<_, bool>(2) && row.get::<_, bool>(3));
    let none =
        "SELECT count(*) FROM public.nvlink_metrics_between(now() - INTERVAL '20 minutes', now(), 'n2')";
    assert_eq!(reader.query_one(none, &[]).await.unwrap().get::<_, i64>(0), 0);
    // Rates have the names of the time, too.
    let indices = format!(
        "SELECT string_agg(DISTINCT gpu || ' ' || gpu_index || ' ' || (time < {at}), ', ' ORDER BY gpu || ' ' || gpu_index || ' ' || (time < {at}))
         FROM public.nvlink_rates(now() - INTERVAL '20 minutes')"
    );
    let found = reader.query_one(&indices, &[]).await.unwrap();
    assert_eq!(found.get::<_, &str>(0), "GPU-1 0 true, GPU-1 1 false, GPU-2 0 false, GPU-2 1 true");
}
