//! Courses over time against what was counted: each value is exactly what happened in its own time, with rows of a minute only, with those
//! of nodes, and with detail of a part.

use super::seed::{self, Run, SECOND, START_MS};
use super::{api_on, get};
use axum::Router;
use serde_json::Value;
use std::collections::BTreeMap;
use throughline_sample::wire::{
    Batch, DetailEnd, DetailPart, MpiNodeCell, MpiNodeCells, MpiOpCell, MpiRankBin,
};
use throughline_store::{Database, DetailLimits, DetailReason, DetailSubject, NewDetail, request_detail};

const JOB: &str = "/jobs/slurm:7.0@1000";
const SECONDS: i64 = 400;
/// When rows of ranks come: after the start, and each minute in its turn.
const ROWS: [i64; 12] = [2, 5, 10, 20, 40, 80, 140, 200, 260, 320, 380, SECONDS];
/// The times that there is detail of, milliseconds behind the start, and the length of its bins: of a job that runs, a request ends
/// within a bin.
const DETAIL: [(i64, i64, i64); 2] = [(110_000, 203_000, 100), (250_000, 303_250, 1_000)];

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).unwrap().rem_euclid(most)
    }
}

/// What two ranks have sent at the end of each bin of 0.1 s, from the start on.
struct Truth([Vec<i64>; 2]);

impl Truth {
    /// A constant rate, bursts, and pauses.
    fn new() -> Self {
        let mut random = Random(7);
        let mut course = |rank: i64| {
            let mut sum = 0;
            let mut all = vec![0];
            for bin in 0..SECONDS * 10 {
                sum += match bin / 100 % 4 {
                    0 => 200_000 + rank,
                    1 if bin % 50 == 0 => 5_000_000,
                    2 => random.below(1_000_000),
                    _ => 0,
                };
                all.push(sum);
            }
            all
        };
        Self([course(0), course(1)])
    }

    /// Up to a time in milliseconds since 1970, of one rank or of both.
    fn at(&self, rank: Option<usize>, time_ms: i64) -> i64 {
        let bin = usize::try_from((time_ms - START_MS).clamp(0, SECONDS * 1000) / 100).unwrap();
        rank.map_or_else(|| self.0[0][bin] + self.0[1][bin], |rank| self.0[rank][bin])
    }

    fn cell(&self, rank: Option<usize>, seconds: i64, tenths: i64) -> MpiOpCell {
        let bytes = self.at(rank, START_MS + seconds * 1000 + tenths * 100).unsigned_abs();
        MpiOpCell {
            operation: "send".into(),
            size_class_bytes: 1024,
            calls: bytes / 100,
            bytes,
            elapsed_nanoseconds: bytes,
            longest_nanoseconds: 1,
            ..MpiOpCell::default()
        }
    }

    fn bin(&self, rank: usize, seconds: i64, tenths: i64) -> MpiRankBin {
        MpiRankBin {
            time: seed::at(seconds) + tenths * SECOND / 10,
            epoch: seed::at(0),
            job_key: "slurm:7.0@1000".into(),
            rank: u32::try_from(rank).unwrap(),
            source: "pmpi".into(),
            cells: vec![self.cell(Some(rank), seconds, tenths)],
        }
    }

    fn batches(&self) -> Vec<Batch> {
        let run = Run { number: 7, user: "ada", start: 0, end: Some(SECONDS), hosts: vec!["n2"] };
        let mut batches = vec![seed::run(&run)];
        for second in ROWS {
            let mpi_rank_rows = (0..2).map(|rank| self.bin(rank, second, 0)).collect();
            batches.push(Batch { node: "n2".into(), mpi_rank_rows, ..Batch::default() });
        }
        for second in (10..=SECONDS).step_by(10) {
            let sums = Some(self.cell(None, second, 0));
            let all = MpiNodeCells {
                time: seed::at(second),
                epoch: seed::at(0),
                job_key: "slurm:7.0@1000".into(),
                since: seed::at(second - 10),
                source: "pmpi".into(),
                cells: vec![MpiNodeCell { sums, ranks: 2, most_rank: 1, ..MpiNodeCell::default() }],
                is_whole: true,
                account: None,
            };
            batches.push(Batch { node: "n2".into(), mpi_node_cells: vec![all], ..Batch::default() });
        }
        batches
    }

    /// Bins in which something was sent, and of longer ones the last.
    async fn detail(&self, database: &Database, (from, to, length): (i64, i64, i64)) {
        let mut client = database.connect().await.unwrap();
        let job = client.query_one("SELECT id FROM internal.run", &[]).await.unwrap().get(0);
        let new = NewDetail {
            requested_by: "local:7".into(),
            turn: None,
            reason: DetailReason::Person,
            subject: DetailSubject::Job(job),
            from: START_MS + from,
            to: START_MS + to + 1,
            resolution: if length > 100 { length as f64 / 1e3 } else { 0.0 },
        };
        let request = request_detail(&mut client, &new, &DetailLimits::default()).await.unwrap();
        let part = DetailPart { request: request.unwrap().unsigned_abs(), attempt: 1, end: None };
        let mut mpi_ops = Vec::new();
        for rank in 0..2 {
            let mut bins = BTreeMap::new();
            for bin in from / 100..=to / 100 {
                let place = usize::try_from(bin).unwrap();
                if self.0[rank][place] > self.0[rank][place - 1] {
                    bins.insert((bin * 100 - 1) / length, self.bin(rank, bin / 10, bin % 10));
                }
            }
            mpi_ops.extend(bins.into_values());
        }
        let records = mpi_ops.len() as u64;
        let bins = Batch { node: "n2".into(), mpi_ops, detail: Some(part.clone()), ..Batch::default() };
        let end = Some(DetailEnd { records, recorded_from: seed::at(0), ..DetailEnd::default() });
        let done = Batch { node: "n2".into(), detail: Some(DetailPart { end, ..part }), ..Batch::default() };
        let spool = 4 + u128::try_from(length).unwrap();
        seed::write(database, spool, vec![bins, done]).await;
    }
}

fn integers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|one| one.as_i64().unwrap()).collect()
}

/// Each row of the answer has exactly what was sent in its own time, and they follow each other.
async fn check_steps(router: &Router, truth: &Truth, rank: usize, (from, to): (i64, i64), step: i64) {
    let path = format!("{JOB}/operation-steps?rank={rank}&step_ms={step}&from={from}&to={to}");
    let steps = &get(router, &path).await["steps"];
    let (since, time) = (integers(&steps["since_ms"]), integers(&steps["time_ms"]));
    let mut before = i64::MIN;
    let mut sum = 0;
    for (place, bytes) in integers(&steps["bytes"]).into_iter().enumerate() {
        let (since, time) = (since[place], time[place]);
        let sent = truth.at(Some(rank), time) - truth.at(Some(rank), since);
        assert_eq!(bytes, sent, "{path}: from {} to {}", since - START_MS, time - START_MS);
        // A window may end within a bin.
        assert!(
            since < time && since + 100 > before && since >= START_MS,
            "{path}: {since} {time} behind {before}"
        );
        before = time;
        sum += bytes;
    }
    if let (Some(first), Some(last)) = (since.first(), time.last()) {
        assert_eq!(sum, truth.at(Some(rank), *last) - truth.at(Some(rank), *first), "{path}");
        assert!(*first < to && *last > from, "{path}");
    }
}

/// Each step of the answer has what was sent in it, where rows end at its edges.
async fn check_operations(
    router: &Router,
    truth: &Truth,
    (from, to): (i64, i64),
    points: i64,
    is_rank: bool,
) {
    let by = if is_rank { "rank" } else { "operation" };
    let path = format!("{JOB}/operations?by={by}&from={from}&to={to}&points={points}");
    let body = get(router, &path).await;
    let step_ms = (body["step_seconds"].as_f64().unwrap() * 1e3).round() as i64;
    let times = integers(&body["times_ms"]);
    let rows = if is_rank { 60_000 } else { 10_000 };
    assert!(step_ms % rows == 0, "{path}: steps of {step_ms} ms");
    assert_eq!(body["spans_seconds"].as_array().unwrap().len(), times.len());
    for series in body["series"].as_array().unwrap() {
        let rank = series["rank"].as_u64().map(|rank| usize::try_from(rank).unwrap());
        for (place, bytes) in integers(&series["bytes"]).into_iter().enumerate() {
            let (begin, end) = (times[place] - step_ms, times[place]);
            let is_edge = |time: i64| {
                let seconds = (time - START_MS) / 1000;
                !is_rank || ROWS.contains(&seconds) || seconds <= 0 || seconds >= SECONDS
            };
            if is_edge(begin) && is_edge(end) {
                assert_eq!(
                    bytes,
                    truth.at(rank, end) - truth.at(rank, begin),
                    "{path}: to {}",
                    end - START_MS
                );
            }
        }
    }
}

#[tokio::test]
async fn each_value_is_what_was_counted_in_its_own_time() {
    let database = seed::fabric().await;
    let truth = Truth::new();
    seed::write(&database, 3, truth.batches()).await;
    let router = api_on(database.clone());
    let mut random = Random(11);
    let mut window = || {
        let from = START_MS + random.below(SECONDS * 1000 - 100);
        (from, from + 1 + random.below(START_MS + SECONDS * 1000 - from))
    };
    for round in 0..2 {
        for step in [100, 500, 1_000, 10_000, 60_000, 86_400_000] {
            for rank in 0..2 {
                check_steps(&router, &truth, rank, (START_MS, START_MS + SECONDS * 1000), step).await;
                check_steps(&router, &truth, rank, (START_MS - 30, START_MS + 5_000), step).await;
                for _ in 0..4 {
                    check_steps(&router, &truth, rank, window(), step).await;
                }
            }
        }
        for points in [3, 40, 300] {
            for is_rank in [false, true] {
                check_operations(&router, &truth, (START_MS, START_MS + SECONDS * 1000), points, is_rank)
                    .await;
                for _ in 0..4 {
                    let (from, to) = window();
                    // There it has finer steps.
                    let is_finer =
                        DETAIL.iter().any(|part| from >= START_MS + part.0 && to <= START_MS + part.1);
                    if round == 0 || !is_finer {
                        check_operations(&router, &truth, (from, to), points, is_rank).await;
                    }
                }
            }
        }
        if round == 0 {
            for part in DETAIL {
                truth.detail(&database, part).await;
            }
        }
    }
    // Where there is detail of all of it, steps are as fine.
    let (from, to) = (START_MS + 130_000, START_MS + 150_000);
    let body = get(&router, &format!("{JOB}/operations?by=rank&from={from}&to={to}")).await;
    assert_eq!(body["step_seconds"], 0.1);
    for (series, rank) in body["series"].as_array().unwrap().iter().zip(0..) {
        for (bytes, place) in integers(&series["bytes"]).into_iter().zip(1..) {
            let end = from + place * 100;
            assert_eq!(bytes, truth.at(Some(rank), end) - truth.at(Some(rank), end - 100), "{rank} {place}");
        }
    }
}
