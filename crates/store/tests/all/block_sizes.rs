//! How large a packed hour is: of bursts of 23 s half of the time, with 8 % of noise, read each second with 2 ms of jitter.

use std::time::{Duration, Instant};

use throughline_store::{
    Retention, RetentionWay, Site, encode_chunks, make_rollups, move_hours, predict_size, testing,
};
use tokio_postgres::Client;

/// Things of a kind: a table of a few has more of its indexes' pages.
const THINGS: u64 = 24;

/// Keys of things, and counters as of a function `busy(thing, second, part)`: bytes in that second at so many bytes a second.
fn keys() -> String {
    format!(
        "INSERT INTO internal.node_key (name) SELECT 'n' || i FROM generate_series(1, {THINGS}) i;
         INSERT INTO internal.host_port_key (node_id, device, port) SELECT id, 'mlx5_0', 1 FROM internal.node_key;
         INSERT INTO internal.gpu_key (node_id, uuid) SELECT id, 'GPU-' || id FROM internal.node_key;
         INSERT INTO internal.fabric (name, prefix) VALUES ('0xfe80000000000000', '0xfe80000000000000');
         INSERT INTO internal.ib_node_key (fabric_id, guid) SELECT 1, '0x' || lpad(i::text, 16, '0') FROM generate_series(1, {THINGS}) i;
         INSERT INTO internal.ib_port_key (ib_node_id, port) SELECT id, 1 FROM internal.ib_node_key;
         CREATE TEMPORARY TABLE seconds AS
         SELECT i, t, time, is_on, CASE WHEN is_on THEN level * 25e9 ELSE 0 END AS rate
         FROM (SELECT i, t, begin + t * INTERVAL '1 second' + 0.004 * random() * INTERVAL '1 second' AS time,
                      abs(hashint4(i * 100003 + t / 23)) % 2 = 0 AS is_on,
                      (20 + abs(hashint4(i * 7919 + t / 23)) % 75) / 100.0 AS level
               FROM generate_series(1, {THINGS}) i, generate_series(0, 3599) t,
                    (SELECT date_trunc('hour', now()) - INTERVAL '3 hours' AS begin) b) s;
         CREATE FUNCTION public.busy(rate double precision) RETURNS bigint LANGUAGE sql VOLATILE
         RETURN CASE WHEN rate > 0 THEN rate * (0.92 + 0.16 * random()) ELSE 2000 * random() END::bigint;"
    )
}

/// A column of counters, cumulative.
const SUM: &str = "OVER (PARTITION BY i ORDER BY t)";

async fn ports(client: &Client) {
    for (table, columns) in [
        (
            "ib_port_counters",
            "port_id, source, transmit_data_bytes, receive_data_bytes, transmit_packets, receive_packets, \
             unicast_transmit_packets, unicast_receive_packets, transmit_wait, transmit_wait_tick_bytes, rate_bytes_per_second",
        ),
        (
            "host_port_counters",
            "host_port_id, source, port_data_transmitted_bytes, port_data_received_bytes, port_packets_transmitted, \
             port_packets_received, unicast_packets_transmitted, unicast_packets_received, port_transmit_wait, \
             pcie_bytes_per_second, rate_bytes_per_second",
        ),
    ] {
        let names = "SELECT string_agg(column_name, ', ') FROM information_schema.columns WHERE table_name = $1 \
                     AND column_name ~ '(symbol|downed|recovery|errors|discards|overrun|dropped)' AND data_type = 'bigint'";
        let errors: String = client.query_one(names, &[&table]).await.unwrap().get(0);
        let zeros = vec!["0"; errors.split(", ").count()].join(", ");
        let fill = format!(
            "INSERT INTO internal.{table} (time, epoch, {columns}, {errors})
             SELECT time, date_trunc('day', now()), i, 'mad', sum(sent) {SUM}, sum(got) {SUM}, sum(sent_packets) {SUM},
                    sum(got_packets) {SUM}, sum(sent_packets) {SUM}, sum(got_packets) {SUM}, sum(wait) {SUM}, 8, 25000000000, {zeros}
             FROM (SELECT *, (sent / 2048 * (0.98 + 0.04 * random()))::bigint + 1 AS sent_packets,
                          (got / 2048 * (0.98 + 0.04 * random()))::bigint + 1 AS got_packets,
                          CASE WHEN is_on THEN (sent * random() / 80)::bigint ELSE 0 END AS wait
                   FROM (SELECT *, public.busy(rate) AS sent, public.busy(rate * 0.8) AS got FROM seconds OFFSET 0) s OFFSET 0) s"
        );
        client.batch_execute(&fill).await.unwrap();
    }
}

/// Of each link two counters that are busy; a link's health in each tenth row, with corrected blocks that grow.
async fn gpus(client: &Client, links: usize) {
    let fill = format!(
        "INSERT INTO internal.nvlink_counters (time, epoch, gpu_id, source, transmit_bytes, receive_bytes, replay_errors, recovery_errors,
             crc_errors, speed_bytes_per_second, up, receive_errors, remote_errors, effective_errors, symbol_errors,
             effective_ber_per_1e18, symbol_ber_per_1e18, fec_corrected_blocks, fec_most_symbols)
         SELECT min(time), date_trunc('day', now()), i, 'nvml', array_agg(sent ORDER BY link), array_agg(got ORDER BY link),
                zeros, zeros, zeros, array_fill(26562500000, ARRAY[{links}]), array_fill(1::bigint, ARRAY[{links}]), health, health,
                health, health, health, health, CASE WHEN t % 10 = 0 THEN array_agg(blocks ORDER BY link) END,
                CASE WHEN t % 10 = 0 THEN array_fill(3::bigint, ARRAY[{links}]) END
         FROM (SELECT *, sum(public.busy(rate)) OVER l AS sent, sum(public.busy(rate * 0.8)) OVER l AS got,
                      sum((random() * 40)::bigint) OVER l AS blocks
               FROM seconds, generate_series(1, {links}) link WINDOW l AS (PARTITION BY i, link ORDER BY t)) s,
              (SELECT array_fill(0::bigint, ARRAY[{links}]) AS zeros) z,
              LATERAL (SELECT CASE WHEN t % 10 = 0 THEN zeros END AS health) h
         GROUP BY i, t, zeros, health"
    );
    client.batch_execute(&fill).await.unwrap();
}

async fn pcie(client: &Client) {
    let fill = format!(
        "INSERT INTO internal.gpu_pcie_counters (time, epoch, gpu_id, source, transmit_bytes, receive_bytes)
         SELECT time, date_trunc('day', now()), i, 'nvml', sum(public.busy(rate)) {SUM}, sum(public.busy(rate * 0.8)) {SUM} FROM seconds"
    );
    client.batch_execute(&fill).await.unwrap();
}

#[tokio::test]
#[ignore = "measures: packs some hours"]
async fn packed_hours_are_as_large_as_predicted() {
    let mut differ = Vec::new();
    for links in [6, 18] {
        let database = testing::database().await;
        let mut client = database.connect().await.unwrap();
        client.batch_execute(&keys()).await.unwrap();
        ports(&client).await;
        gpus(&client, links).await;
        pcie(&client).await;
        client
            .batch_execute(
                "UPDATE internal.minute_state SET blocks_until = s.begin, made_until = s.begin + INTERVAL '1 hour'
                 FROM (SELECT date_trunc('hour', min(time)) AS begin FROM seconds) s",
            )
            .await
            .unwrap();
        encode_chunks(&mut client, &Retention::default(), Duration::from_secs(600)).await.unwrap();
        let site = Site { port_seconds: 1.0, links_per_gpu: links as u64, ..Site::default() };
        let site = Site { ports: THINGS, host_ports: THINGS, gpus: THINGS, nodes: THINGS, ..site };
        let prediction = predict_size(&site, &Retention::default(), RetentionWay::Upkeep);
        for table in ["ib_port_blocks", "host_port_blocks", "nvlink_blocks", "gpu_pcie_blocks"] {
            let sql = "SELECT sum(pg_total_relation_size(format('%I.%I', chunk_schema, chunk_name)::regclass))::bigint
                       FROM timescaledb_information.chunks WHERE hypertable_name = $1::text";
            let bytes: i64 = client.query_one(sql, &[&table]).await.unwrap().get(0);
            let size = prediction.tables.iter().find(|size| size.table == table).unwrap();
            let (each, predicted) = (bytes as f64 / THINGS as f64, size.bytes_per_row);
            println!("{table}, {links} links: {each:.0} bytes an hour, predicted {predicted:.0}");
            differ.extend((!(0.9..1.1).contains(&(each / predicted))).then_some(table));
        }
    }
    assert!(differ.is_empty(), "{differ:?}");
}

/// What panels read of an hour: a link's two ports, a port of a host, a GPU's links, all columns of a port as the export reads them.
const READ: [(&str, &str); 4] = [
    (
        "a link",
        "round(sum(transmit_utilisation * interval_seconds)::numeric, 9), round(avg(transmit_wait_ratio)::numeric, 9) \
         FROM public.ib_port_rates(b, b + h) WHERE port_id IN (1, 2)",
    ),
    (
        "a host's port",
        "sum(transmit_bytes_per_second * interval_seconds) FROM public.host_port_rates(b, b + h) WHERE host_port_id = 1",
    ),
    (
        "a GPU's links",
        "sum(transmit_bytes_per_second * interval_seconds) FROM public.nvlink_rates(b, b + h) WHERE gpu_id = 1",
    ),
    ("all of a port", "max(r::text) FROM public.ib_port_readings(b, b + h) r WHERE port_id = 1"),
];

#[tokio::test]
#[ignore = "measures: packs an hour"]
async fn what_panels_take_of_an_hour_of_rows_and_of_a_packed_one() {
    let database = testing::database().await;
    let mut client = database.connect().await.unwrap();
    client.batch_execute(&keys()).await.unwrap();
    ports(&client).await;
    gpus(&client, 6).await;
    client.batch_execute("ANALYZE").await.unwrap();
    let begin = "SELECT extract(epoch FROM date_trunc('hour', min(time)))::bigint FROM seconds";
    let begin: i64 = client.query_one(begin, &[]).await.unwrap().get(0);
    let mut answers: Vec<Vec<String>> = Vec::new();
    for form in ["rows", "packed"] {
        let mut read = Vec::new();
        for (what, of) in READ {
            let sql = of
                .replace("b + h", &format!("to_timestamp({})", begin + 3599))
                .replace("(b,", &format!("(to_timestamp({begin}),"));
            let mut least = Duration::MAX;
            let mut answer = String::new();
            for _ in 0..4 {
                let begun = Instant::now();
                answer = client
                    .query_one(&format!("SELECT (r.*)::text FROM (SELECT {sql}) r"), &[])
                    .await
                    .unwrap()
                    .get(0);
                least = least.min(begun.elapsed());
            }
            println!("{what}, {form}: {:.0} ms", least.as_secs_f64() * 1e3);
            read.push(answer);
        }
        answers.push(read);
        let retention = Retention::default();
        let wanted = format!("UPDATE internal.minute_state SET blocks_until = to_timestamp({begin});
            UPDATE internal.packed_state SET packed_from = to_timestamp({begin}), packed_until = to_timestamp({begin})");
        make_rollups(&mut client, &retention, Duration::from_secs(600)).await.unwrap();
        if form == "rows" {
            client.batch_execute(&wanted).await.unwrap();
        }
        encode_chunks(&mut client, &retention, Duration::from_secs(600)).await.unwrap();
        println!("{} hours moved", move_hours(&mut client, &retention).await.unwrap());
    }
    let rows: i64 =
        client.query_one("SELECT count(*) FROM internal.ib_port_counters", &[]).await.unwrap().get(0);
    assert_eq!((rows, &answers[0]), (0, &answers[1]), "the same from both");
}
