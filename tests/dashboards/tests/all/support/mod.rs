//! Ten minutes of a small cluster, made once and written twice: as batches for the store's writer and as OpenMetrics
//! for Prometheus. Deterministic but for the end, which is now: views look at the last day.

// Counts and bytes of a few minutes are far below 2^53.
#![allow(clippy::cast_precision_loss)]

pub mod daemon;
pub mod driven;
mod fabric;
mod host;
mod jobs;
mod node;
mod open_metrics;
pub mod server;
pub mod shares;

pub use fabric::DRIVEN_PORTS;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
pub use throughline_dashboard_check::Window;
use throughline_dashboard_check::{Files, Sql};
use throughline_sample::wire::Batch;
use throughline_store::{Content, Database, Entry, Sender, Writer, testing};

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;
/// Time from one sample to the next.
pub const TICK_SECONDS: i64 = 10;
/// Samples: ten minutes and both ends.
pub const TICKS: i64 = 61;

/// The cluster's batches and the time of their last sample.
pub struct Seed {
    pub end: i64,
    pub batches: Vec<Batch>,
}

impl Seed {
    /// Ten minutes until a few seconds ago, on a whole tick.
    pub fn make() -> Self {
        Self::with_load(fabric::usual_load)
    }

    /// The same with another load of the fabric's links.
    pub fn with_load(load: fabric::Load) -> Self {
        Self::ended(TICK_SECONDS, load)
    }

    /// Ten minutes until so many hours ago.
    pub fn hours_ago(hours: i64) -> Self {
        Self::ended(hours * 3600, fabric::usual_load)
    }

    fn ended(seconds: i64, load: fabric::Load) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
        let end = (now - now % TICK_SECONDS - seconds) * SECOND;
        let mut batches = fabric::batches(end, load);
        batches.extend(node::batches(end));
        Self { end, batches }
    }

    /// The range that a dashboard shows: from the first sample to the last.
    pub fn window(&self) -> Window {
        Window::new(self.end - (TICKS - 1) * TICK_SECONDS * SECOND, self.end)
    }

    /// The same series as a scrape of the daemons would have given.
    pub fn open_metrics(&self) -> String {
        open_metrics::text(self)
    }

    /// Writes all batches to a fresh database, as the collector would.
    pub async fn store(&self) -> Database {
        let database = testing::database().await;
        let spool_id = uuid::Uuid::new_v4();
        let entry = |(at, batch): (usize, &Batch)| Entry {
            spool_id,
            sequence: at as u64 + 1,
            content: Content::Batch(batch.clone()),
            sender: Sender::default(),
        };
        let entries: Vec<Entry> = self.batches.iter().enumerate().map(entry).collect();
        let mut writer = Writer::new(database.clone());
        for chunk in entries.chunks(50) {
            let outcome = writer.write(chunk).await.unwrap();
            assert_eq!((outcome.quarantined, outcome.unknown_values), (0, 0));
        }
        shares::write(&database, self.end).await;
        self.note_clocks(&database).await;
        database
    }

    /// As the collector notes that the clocks of a sender and of the server are right.
    async fn note_clocks(&self, database: &Database) {
        let client = database.connect().await.unwrap();
        let end = self.end as f64 / 1e9;
        let sender = "INSERT INTO internal.sender_clock (sender_id, measured_at, sender_time, offset_seconds, round_trip_seconds)
                      SELECT 'node:n0', t, t, 0.1, 0.001 FROM to_timestamp($1) t";
        client.execute(sender, &[&end]).await.unwrap();
        let server = "INSERT INTO internal.server_clock (server, judged_at, noted_at, offset_seconds, senders_alike, senders)
                      SELECT 'n0', t, t, 0, 0, 1 FROM to_timestamp($1) t";
        client.execute(server, &[&end]).await.unwrap();
    }
}

/// Time of a tick.
pub fn tick_time(end: i64, tick: i64) -> i64 {
    end - (TICKS - 1 - tick) * TICK_SECONDS * SECOND
}

/// A connection as dashboards have it: the role that only reads.
pub async fn reader(database: &Database) -> Sql {
    let client = database.connect_reader().await.unwrap();
    // As Grafana's sessions have it, whose macros name `time_bucket`.
    client.batch_execute("SET search_path = public").await.unwrap();
    Sql::over(client).await.unwrap()
}

/// The root of this repository.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The repository's dashboards and rules.
pub fn files() -> Files {
    Files::read(&root()).unwrap()
}
