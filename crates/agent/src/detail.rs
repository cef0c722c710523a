//! What is particular to the agent where it answers requests for detail: its name, its jobs that are shown live, its entries.

use crate::batch::Gathering;
use crate::batcher::Sender;
use crate::live::{LiveJob, LiveJobs};
use throughline_delivery::wire::DetailRequest;
use throughline_detail::{Lift, Origin};
use throughline_sample::wire::Batch;

/// Folder of the ring in the state folder.
pub const RECORDER_FOLDER: &str = "recorder";

/// The agent of this node.
pub struct Node {
    /// Who sends.
    pub sender: Sender,
    /// Which jobs are shown live.
    pub live: LiveJobs,
}

impl Origin for Node {
    fn config_file(&self) -> &'static str {
        "agent.toml"
    }

    fn sign(&mut self, batch: &mut Batch) {
        self.sender.sign(batch);
    }

    fn sign_times(&self, batch: &mut Batch) {
        if let Some(spans) = self.sender.spans() {
            spans.sign(batch, None);
        }
    }

    fn certain_from(&self) -> i64 {
        self.sender.spans().map_or(0, |spans| spans.certain_from())
    }

    fn may_answer(&self) -> bool {
        true
    }

    /// Hundreds of ranks may be in one block.
    fn parts(&self, batch: Batch) -> Vec<Batch> {
        let mut parts = Gathering::default();
        parts.add(batch);
        parts.take().ready.into_iter().map(|ready| ready.batch).collect()
    }

    fn lift(&self) -> Lift {
        let live = self.live.clone();
        Box::new(move |request: DetailRequest, now| {
            let (ranks, is_all_ranks) = (request.ranks.into(), request.is_all_ranks);
            live.lift(&request.job_key, LiveJob { until: request.expires, ranks, is_all_ranks }, now);
        })
    }
}
