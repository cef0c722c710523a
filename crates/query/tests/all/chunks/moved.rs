//! Hours that are packed only: every answer, of remote-read and of SQL, is that of rows, whatever comes late.

use super::*;
use std::collections::BTreeSet;
use throughline_query::rates::{self, CountedLink};
use throughline_query::time::Grid;
use throughline_query::{multicast, nodes, nvlink_metrics};
use throughline_store::move_hours;

/// Everything older is packed only.
const ROWS: Duration = Duration::from_secs(2 * 3600);

pub async fn hours_moved(database: &Database) -> u64 {
    let retention = Retention::for_all(ALWAYS).with_rows(ROWS);
    move_hours(&mut database.connect().await.unwrap(), &retention).await.unwrap()
}

/// What the functions of the schema return.
async fn in_sql(client: &Client) -> Vec<String> {
    let mut all = Vec::new();
    let between = |from: i64| format!("(to_timestamp({from}), to_timestamp({BEGIN} + 10000)) r");
    // Arrays may end with other NULLs.
    let arrays =
        "(r.time, r.gpu_id, r.epoch, r.source, r.transmit_bytes[1:3], r.up[1:2], r.replay_errors[1:3])";
    for (what, from, order) in [
        ("r", format!("public.ib_port_readings{}", between(BEGIN)), "port_id, time"),
        ("r", format!("public.ib_port_rates{}", between(BEGIN + 1800)), "port_id, time"),
        ("r", format!("public.host_port_readings{}", between(BEGIN + 100)), "host_port_id, time"),
        ("r", format!("public.host_port_rates{}", between(BEGIN)), "host_port_id, time"),
        (arrays, format!("public.nvlink_readings{}", between(BEGIN + 100)), "gpu_id, time, source"),
        ("r", format!("public.nvlink_link_readings{}", between(BEGIN + 100)), "gpu_id, link, time, source"),
        ("r", format!("public.nvlink_rates{}", between(BEGIN + 200)), "gpu_id, link, time"),
        ("r", format!("public.nvlink_metrics_between{}", between(BEGIN + 100)), "id"),
        ("r", format!("public.gpu_pcie_readings{}", between(BEGIN + 100)), "gpu_id, time, source"),
        ("r", format!("public.gpu_pcie_rates{}", between(BEGIN + 200)), "gpu_id, time"),
    ] {
        let query =
            format!("SELECT coalesce(string_agg({what}::text, E'\\n' ORDER BY {order}), '') FROM {from}");
        let text: String = client.query_one(&query, &[]).await.unwrap().get(0);
        assert!(text.lines().count() > 100, "{from}");
        all.push(text);
    }
    for name in ["transmit_bytes", "replay_errors", "up"] {
        let metric = nvlink_metrics::metrics().iter().find(|metric| metric.name == name).unwrap();
        let grid = Grid { from: (BEGIN + 300) * 1000, step: 15_000, steps: 600 };
        let values = nvlink_metrics::values(client, metric, &[1, 2], &grid).await.unwrap();
        assert!(values.len() >= 2 && values.values().flatten().flatten().count() > 100, "{name}");
        let lines = values.iter().flat_map(|(link, values)| {
            let steps = values.iter().enumerate().filter(|(_, value)| value.is_some());
            steps.map(move |(step, value)| format!("{name} {link:?} {step:05} {value:?}"))
        });
        all.push(lines.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("\n"));
    }
    // Steps that are no whole minutes: readings answer, by row or unpacked.
    let grid = Grid { from: (BEGIN + 5_400) * 1000, step: 20_000, steps: 100 };
    for (counted, ids) in
        [(CountedLink::GpuPcie, vec![1, 2]), (CountedLink::Nvlinks, vec![1, 2]), (CountedLink::Port, vec![1])]
    {
        let rates = rates::rates(client, counted, &ids, &grid).await.unwrap();
        let known = |rates: &rates::Rates| rates.out.iter().chain(&rates.received).flatten().count();
        assert!(rates.values().map(known).sum::<usize>() > 50, "{counted:?}: {rates:?}");
        all.push(format!("{:?}", rates.into_iter().collect::<BTreeMap<_, _>>()));
    }
    let ports: Vec<i64> = (1..=30).collect();
    let (begin, at) = ((BEGIN + 4000) * 1000, (BEGIN + 4300) * 1000);
    let around = multicast::around(client, &ports, begin, at, false).await.unwrap();
    let ranges: Vec<_> = ports.iter().map(|port| (*port, begin - 600_000, at)).collect();
    let inside = multicast::inside(client, &ranges).await.unwrap();
    assert!(around.len() > 10 && inside.iter().flatten().count() > 10, "{around:?} {inside:?}");
    let pcie = nodes::pcie(client, &[1], at).await.unwrap();
    assert_eq!(pcie.len(), 1);
    all.push(format!("{:?}\n{inside:?}\n{pcie:?}", around.into_iter().collect::<BTreeMap<_, _>>()));
    all
}

async fn answers(database: &Database) -> Vec<Answers> {
    let mut all = Vec::new();
    for name in QUERIED.into_iter().chain(["infiniband_switch_port_symbol_error_saturated"]) {
        for range in [hours(-1, 5), hours(1, 2), Range { from: hours(0, 0).from + 7, to: hours(2, 2).to - 1 }]
        {
            all.push(answer(database, name, range).await);
        }
    }
    all
}

/// Fails with the first series that differs.
fn assert_same(is: &[Answers], was: &[Answers]) {
    for (place, (is, was)) in is.iter().zip(was).enumerate() {
        let what = format!("answer {place}");
        assert_eq!(is.keys().collect::<Vec<_>>(), was.keys().collect::<Vec<_>>(), "{what}");
        for (labels, points) in is {
            let differs = points.iter().zip(&was[labels]).find(|(is, was)| is != was);
            assert!(
                points == &was[labels],
                "{what}, {labels}: {} and {} samples, {differs:?}",
                points.len(),
                was[labels].len()
            );
        }
    }
}

/// A database with readings of three hours, some of them without values, of two epochs, or of counters at their end.
pub async fn seeded() -> Database {
    let database = testing::database().await;
    seed(&database).await;
    let client = database.connect().await.unwrap();
    let more = format!(
        "UPDATE internal.ib_port_counters SET epoch = to_timestamp({BEGIN} + 3000) WHERE time > to_timestamp({BEGIN} + 3000);
         UPDATE internal.ib_port_counters SET symbol_error = NULL, saturated = '{{symbol_error,link_downed}}', source = 'mad2'
         WHERE port_id % 5 = 0 AND time > to_timestamp({BEGIN} + 4000);
         INSERT INTO internal.host_port_counters (time, epoch, host_port_id, source, symbol_error)
         SELECT to_timestamp({BEGIN} + 3600), 'epoch', 1, 'sysfs', 5 ON CONFLICT DO NOTHING;
         UPDATE internal.ib_port_counters SET multicast_transmit_packets = transmit_packets / 9, multicast_receive_packets = port_id;
         UPDATE internal.host_port_counters SET pcie_bytes_per_second = 63015384615;
         UPDATE internal.nvlink_counters SET epoch = to_timestamp({BEGIN} + 2000) WHERE gpu_id = 2 AND time > to_timestamp({BEGIN} + 2000);
         UPDATE internal.nvlink_counters SET replay_errors = '{{1,NULL,2}}' WHERE extract(second FROM time)::integer % 10 = 3;
         UPDATE internal.nvlink_counters SET transmit_bytes = NULL WHERE extract(second FROM time)::integer % 7 = 2;
         UPDATE internal.nvlink_counters SET up = NULL WHERE gpu_id = 2 AND extract(second FROM time)::integer % 4 = 2"
    );
    client.batch_execute(&more).await.unwrap();
    database
}

#[tokio::test]
async fn hours_without_rows_have_the_answers_of_rows() {
    let database = seeded().await;
    let client = database.connect().await.unwrap();
    let expected = (answers(&database).await, in_sql(&client).await);
    assert_eq!(hours_moved(&database).await, 0, "nothing is packed yet");
    minutes_made(&database).await;
    assert_eq!(hours_moved(&database).await, 0, "nothing is packed yet");
    blocks_made(&database).await.unwrap();
    assert_eq!(hours_moved(&database).await, 16, "three hours and what is after, of four kinds");
    assert_eq!(rows_of_all(&client).await, 0);
    assert_same(&answers(&database).await, &expected.0);
    for (is, was) in in_sql(&client).await.iter().zip(&expected.1) {
        let differs = is.lines().zip(was.lines()).find(|(is, was)| is != was);
        assert!(is == was, "{} and {} lines: {differs:?}", is.lines().count(), was.lines().count());
    }
    assert_eq!(hours_moved(&database).await, 0);
}

#[tokio::test]
async fn a_reading_that_is_a_row_and_packed_is_one_in_rates() {
    let database = seeded().await;
    let client = database.connect().await.unwrap();
    let tables = ["ib_port_counters", "host_port_counters", "nvlink_counters", "gpu_pcie_counters"];
    for table in tables {
        let some = format!("time BETWEEN to_timestamp({BEGIN} + 600) AND to_timestamp({BEGIN} + 3000)");
        let kept = format!("CREATE TEMP TABLE twice_{table} AS SELECT * FROM internal.{table} WHERE {some}");
        assert!(client.execute(&kept, &[]).await.unwrap() > 1, "{table}");
    }
    let mut rates = Vec::new();
    for is_twice in [false, true] {
        if is_twice {
            minutes_made(&database).await;
            blocks_made(&database).await.unwrap();
            hours_moved(&database).await;
            for table in tables {
                let again = format!("INSERT INTO internal.{table} SELECT * FROM twice_{table}");
                client.execute(&again, &[]).await.unwrap();
            }
        }
        for name in ["ib_port", "host_port", "nvlink", "gpu_pcie"] {
            let lines = format!(
                "SELECT r::text FROM public.{name}_rates(to_timestamp({BEGIN}), to_timestamp({BEGIN} + 3600)) r ORDER BY 1"
            );
            let lines = client.query(&lines, &[]).await.unwrap();
            rates.push(lines.iter().map(|line| line.get::<_, String>(0)).collect::<Vec<_>>());
        }
    }
    for kind in 0..4 {
        assert!(rates[kind].len() > 1, "{kind}: {} and {}", rates[kind].len(), rates[kind + 4].len());
        assert_eq!(rates[kind], rates[kind + 4]);
    }
}

async fn rows_of_all(client: &Client) -> i64 {
    let ports =
        count(client, "internal.ib_port_counters").await + count(client, "internal.host_port_counters").await;
    ports + count(client, "internal.nvlink_counters").await
}

/// Rows of ten minutes of some ports and of a GPU are set aside, and come when all else is packed.
pub async fn with_late_rows(database: &Database) {
    let late = format!("time > to_timestamp({BEGIN} + 5000) AND time < to_timestamp({BEGIN} + 5600)");
    let set_aside = format!(
        "CREATE TABLE public.late AS SELECT * FROM internal.ib_port_counters WHERE port_id <= 20 AND {late};
         DELETE FROM internal.ib_port_counters WHERE port_id <= 20 AND {late};
         CREATE TABLE public.late_links AS SELECT * FROM internal.nvlink_counters WHERE gpu_id = 1 AND {late};
         DELETE FROM internal.nvlink_counters WHERE gpu_id = 1 AND {late}"
    );
    database.connect().await.unwrap().batch_execute(&set_aside).await.unwrap();
    minutes_made(database).await;
    blocks_made(database).await.unwrap();
}

/// They come as the writer stores them: with notes.
pub const ARRIVE: &str = "INSERT INTO internal.ib_port_counters SELECT * FROM public.late;
    INSERT INTO internal.minute_late (kind, id, since, until)
    SELECT 'ib_port_minutes', port_id, min(time), max(time) FROM public.late GROUP BY port_id;
    INSERT INTO internal.nvlink_counters SELECT * FROM public.late_links;
    INSERT INTO internal.minute_late (kind, id, since, until)
    SELECT 'nvlink_minutes', gpu_id, min(time), max(time) FROM public.late_links GROUP BY gpu_id";

async fn minutes_of_all(client: &Client) -> String {
    let minutes = "SELECT (SELECT string_agg(m::text, E'\n' ORDER BY time, port_id, epoch) FROM internal.ib_port_minutes m) || E'\n'
        || (SELECT string_agg(m::text, E'\n' ORDER BY time, gpu_id, source, epoch) FROM internal.nvlink_minutes m)";
    client.query_one(minutes, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn what_comes_late_is_read_at_once_and_packed_with_the_rest() {
    let database = seeded().await;
    let client = database.connect().await.unwrap();
    let expected = (answers(&database).await, in_sql(&client).await);
    with_late_rows(&database).await;
    assert_eq!(hours_moved(&database).await, 16);
    client.batch_execute(ARRIVE).await.unwrap();
    assert!(
        count(&client, "internal.ib_port_counters").await > 100
            && count(&client, "internal.nvlink_counters").await > 0
    );
    assert_same(&answers(&database).await, &expected.0);
    assert!(in_sql(&client).await == expected.1, "with notes");
    minutes_made(&database).await;
    assert_eq!(count(&client, "internal.minute_late").await, 0);
    assert_same(&answers(&database).await, &expected.0);
    blocks_made(&database).await.unwrap();
    assert_eq!(rows_of_all(&client).await, 0, "they are packed");
    let chunks = "SELECT count(*) FROM timescaledb_information.chunks WHERE hypertable_name = ANY (ARRAY['ib_port_counters', 'nvlink_counters'])";
    assert!(client.query_one(chunks, &[]).await.unwrap().get::<_, i64>(0) > 0);
    assert_eq!(hours_moved(&database).await, 0);
    assert_eq!(
        client.query_one(chunks, &[]).await.unwrap().get::<_, i64>(0),
        0,
        "chunks with nothing in them"
    );
    assert_same(&answers(&database).await, &expected.0);
    assert!(in_sql(&client).await == expected.1, "packed");

    // Minutes are those that the same rows give where all are rows.
    let rows = seeded().await;
    with_late_rows(&rows).await;
    let of_rows = rows.connect().await.unwrap();
    of_rows.batch_execute(ARRIVE).await.unwrap();
    minutes_made(&rows).await;
    assert!(minutes_of_all(&client).await == minutes_of_all(&of_rows).await);
}
