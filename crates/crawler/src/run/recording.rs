//! The crawler's recorder: each reading of each port that rates can be taken from, and answers to requests for those of a link.
//!
//! Rows leave out what did not change and are thinned where a spool is full; the recorder has all of it.

use super::shared::SharedState;
use std::sync::Arc;
use throughline_detail::{Lift, Origin, Recording};
use throughline_infiniband::reading::PortReading;
use throughline_infiniband::reading::thin::Thinner;
use throughline_infiniband::records;
use throughline_sample::wire::Batch;

/// Folder of the ring in the state folder; an agent on the same node has another one.
pub const FOLDER: &str = "fabric-recorder";

/// Makes records of readings, also where nothing changed.
pub struct ReadingRecorder(Thinner);

impl Default for ReadingRecorder {
    fn default() -> ReadingRecorder {
        ReadingRecorder(Thinner::new(false, 0))
    }
}

impl ReadingRecorder {
    /// Records a sweep. Waits for no disk.
    pub fn record(&mut self, readings: &[PortReading], recording: &Recording) {
        let Some(recorder) = recording.recorder() else { return };
        // Counters by lane go to the database as they are.
        let (batches, _) = records::samples(readings, |_| None, &mut self.0);
        for mut batch in batches {
            recorder.append(&mut batch);
        }
    }
}

/// The crawler of this fabric.
pub struct Crawler(pub Arc<SharedState>);

impl Origin for Crawler {
    fn config_file(&self) -> &'static str {
        "fabric.toml"
    }

    fn sign(&mut self, batch: &mut Batch) {
        self.0.publisher.sender.sign(batch);
    }

    fn sign_times(&self, batch: &mut Batch) {
        self.0.publisher.sender.spans().sign(batch, None);
    }

    fn certain_from(&self) -> i64 {
        self.0.publisher.sender.spans().certain_from()
    }

    /// One that stands by leaves it to the one that sweeps.
    fn may_answer(&self) -> bool {
        !self.0.leader.is_passive()
    }

    /// Two ports are a few records in a block.
    fn parts(&self, batch: Batch) -> Vec<Batch> {
        vec![batch]
    }

    /// It has no jobs.
    fn lift(&self) -> Lift {
        Box::new(|_, _| {})
    }
}
