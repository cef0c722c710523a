//! Which GPUs ranks have to do with, and by what evidence that is known. Rows are kept by node, as the claims of ranks are.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use throughline_sample::to_rfc3339;
use throughline_sample::wire::{JobRank, RankGpu};
use tokio_postgres::Transaction;

use super::WriteError;
use super::keys::Keys;
use super::record_times::optional_time;
use super::versioned::execute;

/// Job, rank, start, GPU, partition, evidence.
type Key = (Option<i64>, u32, i64, i64, Option<i64>, String);

/// The newest word of some batches on each GPU of a rank.
#[derive(Default)]
pub(super) struct RankGpus(BTreeMap<Key, Value>);

impl RankGpus {
    /// Adds a rank's GPUs, `claim` being its row of `rank_claim`. False where one that it uses has no key, as its node has more
    /// devices than it may: then it is not known which ones it uses.
    pub fn add(&mut self, claim: &Value, rank: &JobRank, host: &str, keys: &Keys) -> bool {
        let mut is_complete = true;
        for gpu in &rank.gpus {
            let of_partition = |uuid: &str| match uuid {
                "" => Ok(None),
                uuid => keys.gpu(host, uuid).map(Some),
            };
            let (Ok(id), Ok(partition)) = (keys.gpu(host, &gpu.gpu_uuid), of_partition(&gpu.partition_uuid))
            else {
                is_complete &= gpu.evidence != rank.gpu_evidence;
                continue;
            };
            let job = claim["job_id"].as_i64();
            let key = (job, rank.rank, rank.start, id, partition, gpu.evidence.clone());
            self.0.insert(key, row(claim, gpu, id, partition));
        }
        is_complete
    }

    /// Brings the table up to date.
    pub async fn apply(self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        execute(transaction, "GPUs of ranks", UPSERT, self.0).await
    }
}

fn row(claim: &Value, gpu: &RankGpu, id: i64, partition: Option<i64>) -> Value {
    json!({
        "job_id": claim["job_id"], "rank": claim["rank"], "node_id": claim["node_id"],
        "start_time": claim["start_time"], "gpu_id": id, "partition_id": partition, "evidence": gpu.evidence,
        "minor": gpu.minor, "first_seen": to_rfc3339(gpu.first_seen), "last_seen": optional_time(gpu.last_seen),
        "has_others": gpu.has_others,
        "nearest_distance": (!gpu.nearest_distance.is_empty()).then_some(&gpu.nearest_distance),
    })
}

/// A rank's beginning that arrives once more has no GPU, and takes none away.
const UPSERT: &str = "
INSERT INTO internal.rank_gpu AS g
    (job_id, rank, node_id, start_time, gpu_id, partition_id, evidence, minor, nearest_distance, has_others, first_seen,
    last_seen)
SELECT job_id, rank, node_id, start_time, gpu_id, partition_id, evidence, minor, nearest_distance, has_others, first_seen,
    last_seen
FROM jsonb_to_recordset($1) AS s(job_id bigint, rank integer, node_id bigint, start_time timestamptz, gpu_id bigint,
    partition_id bigint, evidence text, minor integer, nearest_distance text, has_others boolean,
    first_seen timestamptz, last_seen timestamptz)
ORDER BY job_id, rank, node_id, start_time, gpu_id, partition_id, evidence
ON CONFLICT (job_id, rank, node_id, start_time, gpu_id, partition_id, evidence) DO UPDATE SET
    minor = coalesce(excluded.minor, g.minor), nearest_distance = coalesce(excluded.nearest_distance, g.nearest_distance),
    has_others = g.has_others OR excluded.has_others, first_seen = least(excluded.first_seen, g.first_seen),
    last_seen = excluded.last_seen
WHERE ROW(g.minor, g.nearest_distance, g.has_others, g.first_seen, g.last_seen) IS DISTINCT FROM
    ROW(coalesce(excluded.minor, g.minor), coalesce(excluded.nearest_distance, g.nearest_distance),
        g.has_others OR excluded.has_others, least(excluded.first_seen, g.first_seen), excluded.last_seen)";
