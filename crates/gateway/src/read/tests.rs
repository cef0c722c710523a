mod rank_gpus;

use super::message::*;
use super::*;
use axum::body::to_bytes;
use bytes::Bytes;
use std::time::Duration;
use throughline_query::history::Chunk;
use throughline_sample::catalogue::{Metric, NVLINK_TRANSMIT_BYTES, RECORDS};
use throughline_sample::wire::{
    Batch, GpuInfo, GpuLinkInfo, GpuLinksSample, GpuMetricValue, GpuMetricsSample, LinkValues, SelfStat,
    Values,
};
use throughline_store::Database;
use throughline_store::{Content, Entry, Retention, Sender, Writer, encode_chunks, make_rollups, testing};

const SECOND: i64 = 1_000_000_000;
/// 2026-01-01T00:00:00Z, in seconds.
const START: i64 = 1_767_225_600;

type Points = Vec<(i64, f64)>;

fn values(metric: &Metric, value: u64) -> Option<Values> {
    let mut values = Values::default();
    values.put(metric, value);
    Some(values)
}

/// Two minutes of a GPU with two links, where the second is read every other time, and of a self-metric.
async fn seeded() -> Database {
    let database = testing::database().await;
    let link = |link| GpuLinkInfo {
        gpu_uuid: "GPU-a".into(),
        link,
        active: true,
        remote_type: "switch".into(),
        ..GpuLinkInfo::default()
    };
    let batch = |tick: i64| {
        let time = (START + tick * 10) * SECOND;
        let transmitted =
            |number: u32, value| LinkValues { link: number, values: values(&NVLINK_TRANSMIT_BYTES, value) };
        let mut links = vec![transmitted(0, tick as u64 * 100)];
        links.extend((tick % 2 == 0).then(|| transmitted(1, 7)));
        Batch {
            node: "n1".into(),
            gpus: vec![GpuInfo { uuid: "GPU-a".into(), name: "H200".into(), ..GpuInfo::default() }],
            gpu_link_infos: [0, 1].map(link).to_vec(),
            gpu_links: vec![GpuLinksSample {
                gpu_uuid: "GPU-a".into(),
                time,
                epoch: START * SECOND,
                source: "nvml".into(),
                links,
            }],
            gpu_metrics: vec![GpuMetricsSample {
                gpu_uuid: "GPU-a".into(),
                time,
                epoch: START * SECOND,
                source: "cupti".into(),
                metrics: vec![
                    GpuMetricValue {
                        name: "dram__bytes_read.sum".into(),
                        sum: Some(tick as u64 * 100),
                        value: None,
                    },
                    GpuMetricValue {
                        name: "sm__cycles_active.avg".into(),
                        sum: None,
                        value: Some(tick as f64 / 4.0),
                    },
                ],
            }],
            self_stats: ["nvml", "o'b\\x"]
                .map(|source| SelfStat {
                    time,
                    source: source.into(),
                    name: RECORDS.name.into(),
                    value: tick as f64,
                    ..SelfStat::default()
                })
                .into_iter()
                .chain((tick % 6 == 0).then(|| SelfStat {
                    time,
                    source: "mpi".into(),
                    label: "allreduce".into(),
                    name: "mpi_calls".into(),
                    value: (tick / 12) as f64,
                }))
                .collect(),
            ..Batch::default()
        }
    };
    let entry = |tick| Entry {
        spool_id: uuid::Uuid::from_u128(1),
        sequence: tick as u64 + 1,
        content: Content::Batch(batch(tick)),
        sender: Sender::default(),
    };
    let entries: Vec<Entry> = (0..13).map(entry).collect();
    let mut writer = Writer::new(database.clone());
    // What exists is valid from the newest batch of a transaction that names it.
    for entries in [&entries[..1], &entries[1..]] {
        let outcome = writer.write(entries).await.unwrap();
        assert_eq!((outcome.quarantined, outcome.unknown_values), (0, 0));
    }
    database
}

fn query(matchers: &[(MatchType, &str, &str)], func: &str) -> Query {
    let matcher = |(kind, name, value): &(MatchType, &str, &str)| LabelMatcher {
        kind: *kind as i32,
        name: (*name).into(),
        value: (*value).into(),
    };
    let (start_ms, end_ms) = (START * 1000, (START + 120) * 1000);
    Query {
        start_timestamp_ms: start_ms,
        end_timestamp_ms: end_ms,
        matchers: matchers.iter().map(matcher).collect(),
        hints: Some(ReadHints { func: func.into(), range_ms: 120_000, step_ms: 15_000, start_ms, end_ms }),
    }
}

/// As Prometheus sends it.
async fn send(reader: &Arc<Reader>, body: Body) -> Response {
    let pairs = [("content-type", "application/x-protobuf"), ("content-encoding", "snappy")];
    let headers = pairs.map(|(name, value)| {
        let value = header::HeaderValue::from_static(value);
        (header::HeaderName::from_static(name), value)
    });
    read(State(reader.clone()), None, headers.into_iter().collect(), body).await
}

async fn request(reader: &Arc<Reader>, queries: Vec<Query>, form: ResponseType) -> Response {
    let request = ReadRequest { queries, accepted_response_types: vec![form as i32] };
    let body = snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap();
    send(reader, body.into()).await
}

/// Labels as text, and samples; of each query.
async fn answers(
    reader: &Arc<Reader>,
    queries: Vec<Query>,
    form: ResponseType,
) -> Vec<Vec<(String, Points)>> {
    let count = queries.len();
    let response = request(reader, queries, form).await;
    assert_eq!(response.status(), 200);
    let mut body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let text = |labels: &[Label]| {
        assert!(labels.windows(2).all(|pair| pair[0].name < pair[1].name));
        labels.iter().map(|label| format!("{}={}", label.name, label.value)).collect::<Vec<_>>().join(",")
    };
    let mut all = vec![Vec::new(); count];
    if form == ResponseType::Samples {
        let message = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
        for (index, result) in
            ReadResponse::decode(message.as_slice()).unwrap().results.into_iter().enumerate()
        {
            for series in result.timeseries {
                let points = series.samples.iter().map(|sample| (sample.timestamp, sample.value)).collect();
                all[index].push((text(&series.labels), points));
            }
        }
        return all;
    }
    while !body.is_empty() {
        let length = prost::encoding::decode_varint(&mut body).unwrap() as usize;
        let sum = bytes::Buf::get_u32(&mut body);
        let message = body.split_to(length);
        assert_eq!(crc32c::crc32c(&message), sum);
        let message = ChunkedReadResponse::decode(message).unwrap();
        for series in message.chunked_series {
            let mut points = Points::new();
            for chunk in series.chunks {
                let packed = Chunk { first: chunk.min_time_ms, last: chunk.max_time_ms, data: chunk.data };
                let before = points.len();
                packed.unpack(&mut points).unwrap();
                assert_eq!((points[before].0, points.last().unwrap().0), (packed.first, packed.last));
            }
            all[message.query_index as usize].push((text(&series.labels), points));
        }
    }
    all
}

const NAME: &str = "__name__";
const SENT: &str = "throughline_nvlink_transmit_bytes_total";

#[tokio::test]
async fn chosen_metrics_of_gpus_are_series_with_their_name() {
    let reader = Arc::new(Reader::new(seeded().await, Limits::default()));
    let queries = || {
        vec![
            query(&[(MatchType::Equal, NAME, "throughline_gpu_metric_sum_total")], ""),
            query(
                &[
                    (MatchType::Equal, NAME, "throughline_gpu_metric_value"),
                    (MatchType::Equal, "metric", "sm__cycles_active.avg"),
                ],
                "",
            ),
        ]
    };
    let whole = answers(&reader, queries(), ResponseType::Samples).await;
    assert_eq!(whole, answers(&reader, queries(), ResponseType::StreamedXorChunks).await);
    let of = |name: &str, metric: &str| format!("{NAME}={name},gpu=GPU-a,instance=n1,metric={metric}");
    let points = |step: f64| (0..13).map(|tick| ((START + tick * 10) * 1000, tick as f64 * step)).collect();
    assert_eq!(whole[0], [(of("throughline_gpu_metric_sum_total", "dram__bytes_read.sum"), points(100.0))]);
    assert_eq!(whole[1], [(of("throughline_gpu_metric_value", "sm__cycles_active.avg"), points(0.25))]);
}

#[tokio::test]
async fn both_forms_have_the_same_series_and_samples() {
    let database = seeded().await;
    let reader = Arc::new(Reader::new(database.clone(), Limits::default()));
    let queries = || {
        vec![
            query(&[(MatchType::Equal, NAME, SENT)], ""),
            query(
                &[(MatchType::Equal, NAME, "throughline_records_total"), (MatchType::Regex, "source", "o.*")],
                "",
            ),
            query(&[(MatchType::Equal, NAME, SENT), (MatchType::Equal, "instance", "n2")], ""),
            query(&[(MatchType::Equal, NAME, SENT), (MatchType::NotEqual, "link", "0")], "series"),
            query(&[(MatchType::Equal, NAME, SENT), (MatchType::Equal, "link", "0")], "rate"),
            query(&[(MatchType::Regex, NAME, ".*gpu_info")], ""),
            query(
                &[
                    (MatchType::Regex, NAME, "throughline_mpi_calls_total"),
                    (MatchType::Equal, "operation", "allreduce"),
                ],
                "",
            ),
        ]
    };
    let whole = answers(&reader, queries(), ResponseType::Samples).await;
    assert_eq!(whole, answers(&reader, queries(), ResponseType::StreamedXorChunks).await);
    let pooled = Arc::new(Reader::new(testing::behind_pooler(&database), Limits::default()));
    for form in [ResponseType::Samples, ResponseType::StreamedXorChunks] {
        assert_eq!(whole, answers(&pooled, queries(), form).await);
    }

    let at = |tick: i64| (START + tick * 10) * 1000;
    let sent: Points = (0..13).map(|tick| (at(tick), tick as f64 * 100.0)).collect();
    assert_eq!(whole[0][0], (format!("{NAME}={SENT},gpu=GPU-a,instance=n1,link=0"), sent.clone()));
    // Read every 20 s, and unchanged: a scrape would have shown it in between.
    assert_eq!(whole[0][1].1.len(), 13);
    assert!(whole[0][1].1.iter().all(|(_, value)| *value == 7.0));
    let records: Points = (0..13).map(|tick| (at(tick), tick as f64)).collect();
    let labels = format!("{NAME}=throughline_records_total,instance=n1,source=o'b\\x");
    assert_eq!(whole[1], [(labels, records)]);
    assert_eq!(whole[2], []);
    assert_eq!(whole[3], [(format!("{NAME}={SENT},gpu=GPU-a,instance=n1,link=1"), vec![])]);
    assert_eq!(whole[4][0].1, [0, 3, 6, 9, 12].map(|tick| sent[tick]));
    assert!(whole[5][0].0.contains("name=H200") && whole[5][0].1.len() == 3, "{:?}", whole[5]);
    let labels = format!("{NAME}=throughline_mpi_calls_total,instance=n1,operation=allreduce");
    assert_eq!((&whole[6][0].0, whole[6][0].1.last()), (&labels, Some(&(at(12), 1.0))));
    // Reported once a minute while it stands still.
    assert!(whole[6][0].1.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 60_000));
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_with_the_reason() {
    let refused = async |reader: &Arc<Reader>, query, form| {
        let response = request(reader, vec![query], form).await;
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    let sent = || query(&[(MatchType::Equal, NAME, SENT)], "");
    let few = Arc::new(Reader::new(seeded().await, Limits { samples: 10, ..Limits::default() }));
    for form in [ResponseType::Samples, ResponseType::StreamedXorChunks] {
        let (status, why) = refused(&few, sent(), form).await;
        assert!(status == 422 && why.contains("query.samples_max"), "{status} {why}");
        let (status, why) = refused(&few, query(&[], ""), form).await;
        assert!(status == 400 && why.contains("__name__"), "{status} {why}");
        let (status, why) = refused(&few, query(&[(MatchType::Regex, NAME, "(")], ""), form).await;
        assert!(status == 400 && why.contains("regular expression"), "{status} {why}");
    }
    let nowhere = Database::from_url("host=/nonexistent user=a dbname=b").unwrap();
    let nowhere = Arc::new(Reader::new(nowhere, Limits::default()));
    let (status, why) = refused(&nowhere, sent(), ResponseType::StreamedXorChunks).await;
    assert!(status == 503 && why.contains("is it running?"), "{status} {why}");

    let database = seeded().await;
    let limits = Limits { time: Duration::from_millis(300), parallel: 1, ..Limits::default() };
    let slow = Arc::new(Reader::new(database.clone(), limits));
    let mut holder = database.connect().await.unwrap();
    let transaction = holder.transaction().await.unwrap();
    transaction.batch_execute("LOCK TABLE internal.nvlink_counters IN ACCESS EXCLUSIVE MODE").await.unwrap();
    for form in [ResponseType::Samples, ResponseType::StreamedXorChunks] {
        let (status, why) = refused(&slow, sent(), form).await;
        assert!(status == 504 && why.contains("query.seconds_max"), "{status} {why}");
    }
    transaction.rollback().await.unwrap();
    assert_eq!(answers(&slow, vec![sent()], ResponseType::Samples).await[0].len(), 2);

    let status = async |kind: &'static str, coding: &'static str, bytes: &[u8]| {
        let pairs = [(header::CONTENT_TYPE, kind), (header::CONTENT_ENCODING, coding)];
        let headers = pairs.map(|(name, value)| (name, header::HeaderValue::from_static(value)));
        let body = Bytes::copy_from_slice(bytes).into();
        read(State(few.clone()), None, headers.into_iter().collect(), body).await.status().as_u16()
    };
    let protobuf = "application/x-protobuf";
    assert_eq!(status(protobuf, "snappy", b"\xff\xff\xff\xff\xff\xff").await, 400);
    assert_eq!(status(protobuf, "snappy", b"").await, 400);
    assert_eq!(status(protobuf, "gzip", b"").await, 415);
    // What a form of a web page can send without a preflight request.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", ""] {
        assert_eq!(status(kind, "snappy", b"").await, 415, "{kind}");
    }
    // Unpacks to more than a request may have; and says that it does, with nothing behind it.
    let large = snap::raw::Encoder::new().compress_vec(&vec![0; REQUEST_BYTES_MAX + 1]).unwrap();
    assert_eq!(status(protobuf, "snappy", &large).await, 413);
    assert_eq!(status(protobuf, "snappy", b"\xff\xff\xff\xff\x0f").await, 413);
    assert_eq!(status(protobuf, "snappy", &vec![0; REQUEST_BYTES_MAX + 1]).await, 413);
}

#[tokio::test]
async fn requests_beyond_the_number_of_connections_wait_and_none_is_lost() {
    let reader = Arc::new(Reader::new(seeded().await, Limits { parallel: 2, ..Limits::default() }));
    let request = || {
        answers(&reader, vec![query(&[(MatchType::Equal, NAME, SENT)], "")], ResponseType::StreamedXorChunks)
    };
    let all = futures::future::join_all((0..10).map(|_| request())).await;
    assert!(all.iter().all(|answer| answer == &all[0] && answer[0].len() == 2));
}

/// A switch, whose ports 7 and 8 have the ids 1 and 2.
fn one_switch() -> String {
    format!(
        "INSERT INTO internal.fabric (name, guids) VALUES ('0x1', ARRAY['0x1']);
         INSERT INTO internal.ib_node_key (fabric_id, guid) VALUES (1, '0x2');
         INSERT INTO internal.ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation,
             valid_from) VALUES (1, '0x2', 'switch', 's', 1, 1, 1, '0x2', 1, to_timestamp({START}));
         INSERT INTO internal.ib_port_key (ib_node_id, port) VALUES (1, 7), (1, 8)"
    )
}

/// What Prometheus makes of a counter's samples: a fall is a beginning from 0.
fn increase(points: &Points) -> f64 {
    points.windows(2).map(|p| if p[1].1 >= p[0].1 { p[1].1 - p[0].1 } else { p[1].1 }).sum()
}

#[tokio::test]
async fn minutes_answer_where_a_sample_a_minute_is_enough_and_where_readings_are_gone() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    // Two hours each 5 s from 03:00 on; in minute 30 counting began anew and came farther than it was before.
    let seed = format!(
        "{};
         INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes, rate_bytes_per_second)
         SELECT to_timestamp({START} + 10800 + n * 5), 1,
                to_timestamp(CASE WHEN n < 364 THEN {START} ELSE {START} + 10800 + 363 * 5 + 1 END), 'mad',
                CASE WHEN n < 364 THEN n ELSE (n - 364) * 1000 END, 25000 FROM generate_series(0, 1440) n",
        one_switch()
    );
    client.batch_execute(&seed).await.unwrap();
    let always = Retention::for_all(Duration::from_secs(50 * 365 * 24 * 3600));
    let mut upkeep = database.connect().await.unwrap();
    make_rollups(&mut upkeep, &always, Duration::from_secs(600)).await.unwrap();
    let name = "infiniband_switch_port_transmit_data_bytes_total";
    let request_within = async |limits, name: &str, func: &str, range_ms| {
        let reader = Arc::new(Reader::new(database.clone(), limits));
        let mut query = query(&[(MatchType::Equal, NAME, name), (MatchType::Equal, "port", "7")], func);
        query.end_timestamp_ms = (START + 7 * 3600) * 1000;
        let (start_ms, end_ms) = (query.start_timestamp_ms, query.end_timestamp_ms);
        query.hints = Some(ReadHints { func: func.into(), range_ms, step_ms: 15_000, start_ms, end_ms });
        let answer = answers(&reader, vec![query], ResponseType::StreamedXorChunks).await;
        answer.into_iter().flatten().map(|(_, points)| points).next().unwrap_or_default()
    };
    let request = async |name: &str, func: &str, range_ms| {
        request_within(Limits::default(), name, func, range_ms).await
    };
    let whole = request(name, "", 0).await;
    assert_eq!(whole.len(), 1441);
    let expected = 363.0 + 1_076_000.0;
    assert_eq!(increase(&whole), expected);
    // Where readings would be too many, minutes are enough for a range of some of them.
    let few = Limits { samples: 1000, ..Limits::default() };
    let thinned = request_within(few, name, "rate", 240_000).await;
    assert!((120..125).contains(&thinned.len()), "{}", thinned.len());
    assert_eq!(increase(&thinned), expected, "the beginning in the middle of a minute is not hidden");
    // No farther apart than a quarter, and what the ranges begin and end with.
    let thinned = request(name, "rate", 300_000).await;
    assert!((481..600).contains(&thinned.len()), "{}", thinned.len());
    assert_eq!(increase(&thinned), expected);
    // A long range has minutes, and the readings where the series begins and ends.
    let long = request(name, "rate", 4 * 3_600_000).await;
    assert!((481..700).contains(&long.len()), "{}", long.len());
    assert_eq!((increase(&long), long.first(), long.last()), (expected, whole.first(), whole.last()));
    // What is denser is made of readings.
    let dense = request(name, "rate", 60_000).await;
    assert!((481..530).contains(&dense.len()), "one in 15 s: {}", dense.len());
    assert_eq!(increase(&dense), expected);
    let speed = "infiniband_switch_port_rate_bytes_per_second";
    assert_eq!(request(speed, "", 0).await.len(), 1441);

    // The first hour's readings go.
    let drop = format!(
        "SELECT public.drop_chunks('internal.ib_port_counters', older_than => to_timestamp({START} + 14400))"
    );
    client.query(&drop, &[]).await.unwrap();
    let mixed = request(name, "", 0).await;
    assert_eq!(increase(&mixed), expected);
    let at = (START + 14400) * 1000;
    // One a minute, the last of the epoch before and the beginning; behind it all.
    assert_eq!(mixed.iter().filter(|point| point.0 < at).count(), 62);
    assert_eq!(mixed.iter().filter(|point| point.0 >= at).count(), 721);
    // Thinned, the readings only: minutes are farther apart already.
    let dense = request(name, "rate", 60_000).await;
    assert_eq!(dense.iter().filter(|point| point.0 < at).count(), 62);
    assert!((241..290).contains(&dense.iter().filter(|point| point.0 >= at).count()));
    assert_eq!(increase(&dense), expected);
    assert_eq!(request(speed, "", 0).await.iter().filter(|point| point.0 < at).count(), 61);
    client
        .batch_execute("SELECT public.drop_chunks('internal.ib_port_counters', older_than => now())")
        .await
        .unwrap();
    assert_eq!(increase(&request(name, "", 0).await), expected);
    // The same where they were packed, and the packed hours have expired too.
    let packed = format!(
        "UPDATE internal.packed_state SET packed_from = to_timestamp({START}), packed_until = to_timestamp({START} + 28800)"
    );
    client.batch_execute(&packed).await.unwrap();
    for (func, range_ms) in [("", 0), ("count_over_time", 3_600_000), ("max_over_time", 3_600_000)] {
        let minutes = request(name, func, range_ms).await;
        assert!((120..125).contains(&minutes.len()), "{func}: {}", minutes.len());
        assert_eq!(increase(&minutes), expected, "{func}");
    }
    for range_ms in [3_600_000, 24 * 3_600_000] {
        assert_eq!(increase(&request(name, "increase", range_ms).await), expected, "{range_ms}");
    }
    assert_eq!(request(name, "series", 0).await.len(), 0);
    let reader = Arc::new(Reader::new(database.clone(), Limits::default()));
    let mut labels = query(&[(MatchType::Equal, NAME, name)], "series");
    labels.end_timestamp_ms = (START + 7 * 3600) * 1000;
    let answer = answers(&reader, vec![labels], ResponseType::StreamedXorChunks).await;
    assert_eq!(answer[0].len(), 1, "a series whose readings are gone is a series still");
}

#[tokio::test]
async fn a_series_is_one_message_however_long_it_is() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let seed = format!(
        "{};
         INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes)
         SELECT to_timestamp({START} + n), 1, to_timestamp({START}), 'mad', n::bigint * n FROM generate_series(0, 69999) n",
        one_switch()
    );
    client.batch_execute(&seed).await.unwrap();
    let reader = Arc::new(Reader::new(database, Limits::default()));
    let mut query =
        query(&[(MatchType::Equal, NAME, "infiniband_switch_port_transmit_data_bytes_total")], "");
    query.end_timestamp_ms = (START + 100_000) * 1000;
    let answer = answers(&reader, vec![query], ResponseType::StreamedXorChunks).await;
    assert_eq!(answer[0].iter().map(|(_, points)| points.len()).collect::<Vec<_>>(), [70_000]);
}

#[tokio::test]
async fn packed_hours_say_the_same_in_both_forms_and_count() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    // Two hours each 5 s of a port, and one that has a row a minute and never changes.
    let seed = format!(
        "{};
         INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes)
         SELECT to_timestamp({START} + n * 5), 1, to_timestamp({START}), 'mad', n * n FROM generate_series(0, 1439) n
         UNION ALL
         SELECT to_timestamp({START} + n * 60), 2, to_timestamp({START}), 'mad', 7 FROM generate_series(0, 119) n;
         UPDATE internal.minute_state SET made_until = to_timestamp({START} + 7200), blocks_until = to_timestamp({START})",
        one_switch()
    );
    client.batch_execute(&seed).await.unwrap();
    let name = "infiniband_switch_port_transmit_data_bytes_total";
    let request = |func: &str, range_ms| {
        let mut query = query(&[(MatchType::Equal, NAME, name)], func);
        query.start_timestamp_ms += 7_000;
        query.end_timestamp_ms = (START + 7 * 3600) * 1000;
        let (start_ms, end_ms) = (START * 1000, query.end_timestamp_ms);
        query.hints = Some(ReadHints { func: func.into(), range_ms, step_ms: 15_000, start_ms, end_ms });
        query
    };
    let read = async |func: &str, range_ms, form| {
        let reader = Arc::new(Reader::new(database.clone(), Limits::default()));
        answers(&reader, vec![request(func, range_ms)], form).await.remove(0)
    };
    let (whole, stream) = (ResponseType::Samples, ResponseType::StreamedXorChunks);
    let rows = read("", 0, stream).await;
    assert_eq!(rows.iter().map(|(_, points)| points.len()).collect::<Vec<_>>(), [1438, 119 + 118 * 3]);
    let mut upkeep = database.connect().await.unwrap();
    let always = Retention::for_all(Duration::from_secs(50 * 365 * 24 * 3600));
    let made = encode_chunks(&mut upkeep, &always, Duration::from_secs(600)).await.unwrap();
    assert_eq!((made.blocks, made.samples), (4, 1440 + 120));
    client.batch_execute("DELETE FROM internal.ib_port_counters").await.unwrap();
    assert_eq!(read("", 0, whole).await, rows);
    assert_eq!(read("", 0, stream).await, rows);
    // Thinning leaves out what has to be unpacked anyway.
    assert_eq!(read("rate", 60_000, stream).await, rows);
    let thinned = read("rate", 60_000, whole).await;
    assert!((470..500).contains(&thinned[0].1.len()), "{}", thinned[0].1.len());
    assert_eq!(increase(&thinned[0].1), increase(&rows[0].1));
    for (most, status) in [(1500, 422), (1560, 200)] {
        let reader = Arc::new(Reader::new(database.clone(), Limits { samples: most, ..Limits::default() }));
        for form in [whole, stream] {
            assert_eq!(
                super::tests::request(&reader, vec![request("", 0)], form).await.status(),
                status,
                "{most}"
            );
        }
    }
    client
        .batch_execute("UPDATE internal.ib_port_blocks SET samples = 'damaged' WHERE samples IS NOT NULL")
        .await
        .unwrap();
    for form in [whole, stream] {
        let reader = Arc::new(Reader::new(database.clone(), Limits::default()));
        let response = super::tests::request(&reader, vec![request("", 0)], form).await;
        assert_eq!(response.status(), 500);
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(
            String::from_utf8_lossy(&body).contains("DELETE FROM internal.ib_port_blocks WHERE"),
            "{body:?}"
        );
    }
}
