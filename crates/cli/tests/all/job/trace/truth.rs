//! Clocks with known faults, and how wrong the times of a trace are by them.

use super::*;
use std::collections::BTreeMap;

/// What a faulty clock shows.
#[derive(Clone, Copy)]
struct Clock {
    offset_ms: f64,
    drift_ppm: f64,
    step_ms: f64,
    step_at_ms: f64,
}

/// The clocks of all four ranks; rank 0's is the true one.
pub struct Clocks {
    ranks: [Clock; 4],
    /// When each began to go wrong, nanoseconds: at its rank's start, however long that took.
    origins: [i64; 4],
}

impl Clocks {
    /// Offsets of ±50 ms, drifts of ±50 ppm; rank 3's steps ahead so long after its start.
    pub fn new(step_ms: f64, step_at_ms: f64) -> Self {
        let clock = |offset_ms, drift_ppm| Clock { offset_ms, drift_ppm, step_ms: 0.0, step_at_ms: 0.0 };
        let stepping = Clock { step_ms, step_at_ms, ..clock(20.0, 50.0) };
        Self { ranks: [clock(0.0, 0.0), clock(50.0, 50.0), clock(-50.0, -50.0), stepping], origins: [0; 4] }
    }

    /// THROUGHLINE_TEST_CLOCK of them.
    pub fn as_text(&self) -> String {
        let ranks = self.ranks.iter().enumerate().skip(1).map(|(rank, clock)| {
            let Clock { offset_ms, drift_ppm, step_ms, step_at_ms } = clock;
            format!(";{rank}:offset={offset_ms},drift={drift_ppm},step={step_ms}@{step_at_ms}")
        });
        ranks.collect()
    }

    /// Reads from what the shim said when they began.
    pub fn began(&mut self, standard_error: &str) {
        for line in standard_error.lines() {
            let Some((_, said)) = line.split_once(": rank ") else { continue };
            let Some((rank, origin)) = said.split_once(": clock skewed since ") else { continue };
            self.origins[rank.parse::<usize>().unwrap()] = origin.parse().unwrap();
        }
        assert!(self.origins[1..].iter().all(|origin| *origin > 0), "{standard_error}");
    }

    /// The true time at which a rank's clock showed this, nanoseconds.
    fn truth(&self, rank: usize, shown: i64) -> f64 {
        let (clock, origin) = (self.ranks[rank], self.origins[rank]);
        let since =
            |offset_ms: f64| ((shown - origin) as f64 - offset_ms * 1e6) / (1.0 + clock.drift_ppm * 1e-6);
        let before = since(clock.offset_ms);
        let is_after = clock.step_ms != 0.0 && before >= clock.step_at_ms * 1e6;
        origin as f64 + if is_after { since(clock.offset_ms + clock.step_ms) } else { before }
    }
}

/// How wrong the beginnings of slices are, microseconds; those marked as near a step are only counted.
#[derive(Default)]
pub struct Errors {
    /// In order.
    pub microseconds: Vec<f64>,
    /// The largest of each rank.
    pub largest_of_rank: [f64; 4],
    /// Slices near a step.
    pub stepped: usize,
    /// Steps that are marked.
    pub steps: usize,
}

impl Errors {
    /// Compares the file with what the ranks recorded.
    pub async fn of(stack: &Stack, file: &Path, clocks: &Clocks) -> Self {
        let (client, connection) = tokio_postgres::connect(&stack.url, tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let records =
            "SELECT rank, start_ns FROM internal.mpi_trace WHERE kind IN ('call', 'send', 'receive')
                       ORDER BY rank, number";
        let mut shown: [Vec<i64>; 4] = Default::default();
        for row in client.query(records, &[]).await.unwrap() {
            shown[usize::try_from(row.get::<_, i32>(0)).unwrap()].push(row.get(1));
        }
        drop(client);
        connection.await.unwrap().unwrap();

        let document: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        let slices =
            |rank: usize| events.iter().filter(move |event| event["ph"] == "X" && event["pid"] == rank + 1);
        let at = |slice: &Value| slice["ts"].as_f64().unwrap() * 1e3;
        let zero = clocks.truth(0, shown[0][0]) - at(slices(0).next().unwrap());
        let mut errors = Self::default();
        for (rank, shown) in shown.iter().enumerate() {
            // Both are in the order of numbers. What came to the database after the file was written is not in it.
            assert!((1..=shown.len()).contains(&slices(rank).count()), "slices of rank {rank}");
            for (slice, shown) in slices(rank).zip(shown) {
                if slice["args"]["clock"] == "stepped" {
                    errors.stepped += 1;
                    continue;
                }
                let error = (zero + at(slice) - clocks.truth(rank, *shown)).abs() / 1e3;
                errors.largest_of_rank[rank] = errors.largest_of_rank[rank].max(error);
                errors.microseconds.push(error);
            }
        }
        let moments = events.iter().filter(|event| event["ph"] == "i");
        errors.steps = moments.filter(|event| event["args"]["step_ms"].is_number()).count() / 2;
        errors.microseconds.sort_unstable_by(f64::total_cmp);
        errors
    }

    /// The error that this share of all slices does not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.microseconds.len() - 1;
        self.microseconds[(share * last as f64).round() as usize]
    }
}

/// Messages whose receive ends before their send begins: no viewer draws an arrow for them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Backwards {
    /// One of both is marked as near a step.
    pub stepped: usize,
    /// Neither is.
    pub unexplained: usize,
}

impl Backwards {
    /// By more than a tolerance in microseconds, or near a step by anything.
    pub fn of(file: &Path, tolerance: f64) -> Self {
        let document: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        let ends = |phase: &str| -> BTreeMap<&str, &Value> {
            let ends = events.iter().filter(|event| event["ph"] == phase);
            ends.map(|event| (event["id"].as_str().unwrap(), event)).collect()
        };
        let (sent, received) = (ends("s"), ends("f"));
        assert!(sent.keys().eq(received.keys()), "each arrow has both ends");
        let time = |event: &Value| event["ts"].as_f64().unwrap();
        let is_stepped = |end: &Value| {
            events.iter().any(|slice| {
                let is_around =
                    slice["ph"] == "X" && slice["pid"] == end["pid"] && slice["tid"] == end["tid"];
                is_around
                    && (time(slice)..=time(slice) + slice["dur"].as_f64().unwrap()).contains(&time(end))
                    && slice["args"]["clock"] == "stepped"
            })
        };
        let mut found = Self::default();
        for (id, send) in &sent {
            let receive = received[id];
            let early = time(send) - time(receive);
            if early > 0.0 && (is_stepped(send) || is_stepped(receive)) {
                found.stepped += 1;
            } else if early > tolerance {
                found.unexplained += 1;
            }
        }
        found
    }
}
