//! Self-metrics whose names are in a list, as in thinned chunks, answer as rows that have their names: in SQL, in PromQL, and where
//! people see the state of sources and of delivery. Also where a daemon has rows of both.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use throughline_query::clocks::clocks;
use throughline_query::history::{
    BlockCache, HistoryError, HistoryQuery, Range, Samples, Series, SeriesSink, Thinning, families,
};
use throughline_query::{Horizons, events, status};
use throughline_sample::wire::{Batch, NodeInfo, SelfStat};
use throughline_store::{Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::batches::{SECOND, entry};

/// All values at each second tick, those that changed between.
const TICK: i64 = 30;
const TICKS: i64 = 12;

/// What an agent reports: each has a part of the daemon, a label and a name, and a value at a tick where it is there.
fn stats(tick: i64) -> Vec<(&'static str, &'static str, &'static str, f64)> {
    #[allow(clippy::cast_precision_loss)] // a few
    let count = tick as f64;
    let mut all = vec![
        ("spool", "", "records", 100.0 * count),
        ("delivery", "", "delivered_entries", 30.0 * count),
        ("mpi", "allreduce", "mpi_calls", 7.0 * count),
        ("mpi", "bcast", "mpi_calls", count),
    ];
    if tick % 2 == 0 {
        all.extend([
            ("sysfs", "", "source_up", 1.0),
            ("sysfs", "queue_full", "records_discarded", 2.0),
            ("sysfs", "spool_full", "records_discarded", 1.0),
            ("spool", "disk_full", "entries_discarded", 5.0),
            ("spool", "damaged", "entries_discarded", 6.0),
            ("spool", "evicted", "entries_discarded", 7.0),
            ("delivery", "", "source_up", 1.0),
            ("delivery", "", "delivery_lag_seconds", 0.5),
            ("spool", "", "spool_entries", 2.0),
        ]);
        // A source that was switched off meanwhile.
        if tick < 4 {
            all.push(("nvml", "", "source_up", 0.0));
        }
    }
    all
}

fn batch(node: &str, time: i64, tick: i64) -> Batch {
    let stat = |(source, label, name, value): (&str, &str, &str, f64)| SelfStat {
        time,
        source: source.into(),
        label: label.into(),
        name: name.into(),
        value,
    };
    Batch {
        node: node.into(),
        nodes: vec![NodeInfo { name: node.into(), ..NodeInfo::default() }],
        self_stats: stats(tick).into_iter().map(stat).collect(),
        clock_error_nanoseconds: Some(20_000 + tick),
        ..Batch::default()
    }
}

const NODES: [&str; 3] = ["listed", "mixed", "named"];

/// Three nodes that reported the same until some seconds ago; the end in milliseconds.
async fn seeded() -> (Client, i64) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let end = i64::try_from(since.as_secs()).unwrap() - 5;
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    for (node, from) in [("named", 1), ("mixed", 8)] {
        let spool = Uuid::new_v4();
        for (sequence, tick) in (1..).zip(from..=TICKS) {
            let time = (end - (TICKS - tick) * TICK) * SECOND;
            writer.write(&[entry(spool, sequence, batch(node, time, tick))]).await.unwrap();
        }
    }
    let introduced = Batch { self_stats: vec![], ..batch("listed", end * SECOND, 1) };
    writer.write(&[entry(Uuid::new_v4(), 1, introduced)]).await.unwrap();
    let client = database.connect().await.unwrap();
    let mixed = end - (TICKS - 8) * TICK;
    let copy = format!(
        "INSERT INTO internal.self_stat_names (digest, sources, labels, names)
             SELECT DISTINCT md5(sources::text || labels::text || names::text), sources, labels, names FROM internal.self_stat_rows WHERE instance = 'named';
         INSERT INTO internal.self_stat_rows (time, instance, sources, labels, names, readings, names_id)
             SELECT r.time, i.instance, '{{}}', '{{}}', '{{}}', r.readings, n.id
             FROM internal.self_stat_rows r JOIN internal.self_stat_names n ON n.digest = md5(r.sources::text || r.labels::text || r.names::text),
                  (VALUES ('listed', 'infinity'::timestamptz), ('mixed', to_timestamp({mixed}))) i (instance, until)
             WHERE r.instance = 'named' AND r.time < i.until;
         INSERT INTO internal.self_stat_series (name, source, label, instance)
             SELECT s.name, s.source, s.label, i.instance FROM internal.self_stat_series s, unnest(ARRAY['listed', 'mixed']) i (instance)
             WHERE s.instance = 'named' ON CONFLICT DO NOTHING"
    );
    client.batch_execute(&copy).await.unwrap();
    (client, end * 1000)
}

/// What a statement returns of each node, as JSON.
async fn of_nodes(client: &Client, select: &str) -> Vec<String> {
    let sql = format!("SELECT coalesce(jsonb_agg(to_jsonb(r)), '[]')::text FROM ({select}) r");
    let mut all = Vec::new();
    for node in NODES {
        all.push(client.query_one(&sql, &[&node]).await.unwrap().get(0));
    }
    all
}

#[derive(Default)]
struct Taken(BTreeMap<String, Vec<(i64, u64)>>);

impl SeriesSink for Taken {
    async fn take(&mut self, series: &Series, samples: &Samples) -> Result<(), HistoryError> {
        let points = samples.points().iter().map(|(time, value)| (*time, value.to_bits())).collect();
        self.0.insert(format!("{:?}", series.labels), points);
        Ok(())
    }
}

/// Samples of a name of PromQL by labels.
async fn samples(client: &Client, name: &str, range: Range) -> BTreeMap<String, Vec<(i64, u64)>> {
    let family = families().iter().find(|family| family.name == name).unwrap();
    let (horizons, cache) = (Horizons::read(client).await.unwrap(), BlockCache::new(0));
    let query = HistoryQuery {
        family,
        range,
        thinning: Thinning::None,
        limit: 1_000_000,
        horizons,
        cache: &cache,
        patience: Duration::from_secs(600),
        takes_chunks: false,
    };
    let series = query.series(client, &[]).await.unwrap();
    let mut taken = Taken::default();
    query.read(client, &series, &mut taken).await.unwrap();
    taken.0
}

fn all_equal<T: PartialEq + std::fmt::Debug>(all: &[T], what: &str) {
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{what}: {all:#?}");
}

#[tokio::test]
async fn rows_with_a_list_of_names_answer_as_rows_with_their_own() {
    let (client, end) = seeded().await;
    let rows: i64 =
        client.query_one("SELECT count(*) FROM internal.self_stat_rows", &[]).await.unwrap().get(0);
    assert_eq!(rows, 3 * TICKS);
    let values = of_nodes(
        &client,
        "SELECT time, source, label, name, value FROM public.self_stats WHERE instance = $1 ORDER BY 1, 2, 3, 4",
    )
    .await;
    all_equal(&values, "rows");
    assert!(values[0].contains("clock_error_seconds") && values[0].contains("mpi_calls"));
    for (name, source, label) in [
        ("source_up", "sysfs", ""),
        ("source_up", "nvml", ""),
        ("source_up", "mad", ""),
        ("mpi_calls", "mpi", "bcast"),
        ("records_discarded", "sysfs", "queue_full"),
        ("records", "spool", ""),
    ] {
        for since in ["now() - INTERVAL '1 day'", "now() - INTERVAL '100 s'"] {
            for until in ["now()", "now() - INTERVAL '200 s'"] {
                let select = format!(
                    "SELECT time, value FROM internal.self_stat_newest('{name}', '{source}', $1, {since}, {until}, '{label}')"
                );
                let newest = of_nodes(&client, &select).await;
                all_equal(&newest, &select);
                let is_there =
                    until == "now()" && source != "mad" && (source != "nvml" || since.contains("day"));
                assert_eq!(
                    newest[0] != "[]",
                    is_there || (since.contains("day") && source != "mad"),
                    "{select}"
                );
            }
        }
    }

    let status = status::read(&client, 1).await.unwrap();
    let of = |node: &str| {
        let all = status.sources.iter().filter(|source| source.instance == node);
        all.map(|one| (one.source.clone(), one.up, one.records_discarded)).collect::<Vec<_>>()
    };
    all_equal(&NODES.map(of), "sources of status");
    assert!(of("named").contains(&("sysfs".to_owned(), Some(true), Some(3))), "{:?}", of("named"));
    let delivery = |node: &str| {
        let one = status.delivery.iter().find(|one| one.instance == node).unwrap();
        (
            one.spool_entries,
            one.records_discarded,
            one.lag_seconds,
            one.delivered_entries,
            one.delivery_failures,
        )
    };
    all_equal(&NODES.map(delivery), "delivery of status");
    assert_eq!(delivery("named"), (Some(2), Some(11), Some(0.5), Some(360), None));
    let sources = events::sources(&client).await.unwrap();
    let of = |node: &str| {
        let all = sources.iter().filter(|source| source.instance == node);
        all.map(|one| (one.source.clone(), one.is_up)).collect::<Vec<_>>()
    };
    all_equal(&NODES.map(of), "sources");
    assert_eq!(of("named"), [("delivery".to_owned(), Some(true)), ("sysfs".to_owned(), Some(true))]);
    let clocks = clocks(&client, &NODES.map(str::to_owned), end - 60_000, end + 1000).await.unwrap();
    all_equal(&clocks.iter().map(|clock| clock.clock_error_seconds).collect::<Vec<_>>(), "clocks");
    assert!(clocks[0].clock_error_seconds.is_some());

    for (name, series) in [
        ("throughline_source_up", 3),
        ("throughline_records_total", 1),
        ("throughline_mpi_calls_total", 2),
        ("throughline_records_discarded_total", 2),
        ("throughline_entries_discarded_total", 3),
        ("throughline_clock_error_seconds", 1),
    ] {
        for range in [Range { from: end - 600_000, to: end }, Range { from: end - 100_000, to: end - 20_000 }]
        {
            let all = samples(&client, name, range).await;
            let of = |node: &str| {
                let label = format!("(\"instance\", \"{node}\")");
                let own = all.iter().filter(|(labels, _)| labels.contains(&label));
                own.map(|(labels, points)| (labels.replace(node, ""), points.clone())).collect::<Vec<_>>()
            };
            all_equal(&NODES.map(of), name);
            let expected = if name == "throughline_source_up" && range.to < end { 2 } else { series };
            assert_eq!(of("named").len(), expected, "{name}");
        }
    }
}
