//! The GPUs of a job: which ones its ranks use, by what evidence, and the ports near them.

use crate::time::milliseconds;
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;
use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// A rank with one of the GPUs that it has to do with, or without any. Of a rank that was started again the last start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankGpu {
    /// In MPI_COMM_WORLD.
    pub rank: i32,
    /// Where it runs.
    pub host: String,
    /// By what the GPUs that it uses are known: driver or device. `None`: they are not known.
    pub known_by: Option<String>,
    /// CUDA_VISIBLE_DEVICES as it was at MPI_Init.
    pub visible_devices: Option<String>,
    /// The GPU; `None` where there is none, or none is known.
    pub gpu: Option<Gpu>,
}

/// A GPU of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpu {
    /// UUID of the whole GPU.
    pub uuid: String,
    /// Its number on the host at that time.
    pub index: Option<i32>,
    /// UUID of the partition that the rank is on.
    pub partition_uuid: Option<String>,
    /// Its number in the GPU.
    pub partition_index: Option<i32>,
    /// Its product.
    pub partition_name: Option<String>,
    /// driver, device or visible.
    pub evidence: String,
    /// The rank uses it, by the best that is known.
    pub is_own: bool,
    /// What is counted of the GPU may be others' as well.
    pub is_shared: bool,
    /// N of /dev/nvidiaN.
    pub minor: Option<i32>,
    /// When it was seen first, milliseconds; `None` of a job whose claims are gone, as what follows.
    pub first_seen: Option<i64>,
    /// When it was seen last; `None` while it goes on.
    pub last_seen: Option<i64>,
    /// How far the nearest adapter is, as `gpu topo` names distances.
    pub distance: Option<String>,
    /// Nearest port as DEVICE/PORT.
    pub port: Option<String>,
    /// The rank has queue pairs on it; `None`: not known.
    pub has_queue_pairs: Option<bool>,
    /// Name of the switch behind it.
    pub switch: Option<String>,
    /// GUID of the switch.
    pub switch_guid: Option<String>,
    /// Port of the switch.
    pub switch_port: Option<i32>,
}

const OF_CLAIMS: &str = "
SELECT v.rank, r.host, v.gpu_evidence, v.visible_devices, v.gpu_uuid, v.gpu_index, v.partition_uuid, v.partition_index, v.partition_name,
       v.evidence, v.is_own, v.is_shared, v.minor, v.first_seen, v.last_seen, v.nearest_distance, v.device || '/' || v.port,
       v.has_queue_pairs, v.remote_description, v.remote_guid, v.remote_port
FROM (SELECT DISTINCT ON (rank) job_id, rank, node_id, start_time, host FROM internal.job_rank WHERE job_id = $1
      ORDER BY rank, start_time DESC) r
JOIN internal.job_rank_gpus v ON v.job_id = r.job_id AND v.rank = r.rank AND v.node_id IS NOT DISTINCT FROM r.node_id
    AND v.start_time = r.start_time
WHERE v.job_id = $1 ORDER BY v.rank, v.gpu_index, v.partition_index, v.gpu_uuid";

/// Of a job whose claims are gone: which ones the driver listed.
const OF_FINALS: &str = "
SELECT r.rank, r.host, CASE WHEN r.gpu_uuids IS NOT NULL THEN 'driver' END, NULL::text, coalesce(w.uuid, u.uuid), coalesce(pi.index, g.index),
       CASE WHEN w.uuid IS NOT NULL THEN u.uuid END, CASE WHEN w.uuid IS NOT NULL THEN g.index END,
       CASE WHEN w.uuid IS NOT NULL THEN g.name END, CASE WHEN u.uuid IS NOT NULL THEN 'driver' END, u.uuid IS NOT NULL,
       w.uuid IS NOT NULL, NULL::integer, NULL::timestamptz, NULL::timestamptz, NULL::text, NULL::text, NULL::boolean, NULL::text, NULL::text,
       NULL::integer
FROM (SELECT DISTINCT ON (rank) * FROM internal.job_ranks($1) ORDER BY rank, start_time DESC) r
LEFT JOIN LATERAL unnest(r.gpu_uuids) u (uuid) ON true
LEFT JOIN internal.gpu_key k ON k.node_id = r.node_id AND k.uuid = u.uuid
LEFT JOIN LATERAL (SELECT i.index, i.name, i.parent_gpu_id FROM internal.gpu i WHERE i.gpu_id = k.id
                   AND i.valid_from <= coalesce(r.end_time, now()) ORDER BY i.valid_from DESC LIMIT 1) g ON true
LEFT JOIN internal.gpu_key w ON w.id = g.parent_gpu_id
LEFT JOIN LATERAL (SELECT i.index FROM internal.gpu i WHERE i.gpu_id = g.parent_gpu_id
                   AND i.valid_from <= coalesce(r.end_time, now()) ORDER BY i.valid_from DESC LIMIT 1) pi ON true
ORDER BY 1, 6, 8, 5";

/// The ranks of a job with their GPUs, one row each; a rank without a GPU has one without.
///
/// # Errors
/// The database's.
pub async fn of_job(client: &Client, id: i64) -> Result<Vec<RankGpu>, Error> {
    let what = "reading the GPUs of a job's ranks";
    let mut rows = client.query(OF_CLAIMS, &[&id]).await.map_err(Error::sql(what))?;
    if rows.is_empty() {
        rows = client.query(OF_FINALS, &[&id]).await.map_err(Error::sql(what))?;
    }
    Ok(rows.iter().map(rank_gpu).collect())
}

fn rank_gpu(row: &Row) -> RankGpu {
    let time = |at: usize| row.get::<_, Option<SystemTime>>(at).map(milliseconds);
    let gpu = row.get::<_, Option<String>>(4).map(|uuid| Gpu {
        uuid,
        index: row.get(5),
        partition_uuid: row.get(6),
        partition_index: row.get(7),
        partition_name: row.get(8),
        evidence: row.get(9),
        is_own: row.get(10),
        is_shared: row.get(11),
        minor: row.get(12),
        first_seen: time(13),
        last_seen: time(14),
        distance: row.get(15),
        port: row.get(16),
        has_queue_pairs: row.get(17),
        switch: row.get(18),
        switch_guid: row.get(19),
        switch_port: row.get(20),
    });
    let (rank, host) = (row.get(0), row.get(1));
    RankGpu { rank, host, known_by: row.get(2), visible_devices: row.get(3), gpu }
}

/// GPUs that a job uses on one host, by UUID; of those that are partitioned the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnGpus {
    /// UUIDs, and whether what is counted of them may be others' as well. `None`: of one rank they are not known, and it may use any.
    gpus: Option<BTreeMap<String, bool>>,
}

impl OwnGpus {
    /// Of the ranks on a host. Where none is there nothing is known.
    #[must_use]
    pub fn of_host(ranks: &[RankGpu], host: &str) -> Self {
        let here: Vec<&RankGpu> = ranks.iter().filter(|rank| rank.host == host).collect();
        if here.is_empty() || here.iter().any(|rank| rank.known_by.is_none()) {
            return Self::default();
        }
        let mut gpus = BTreeMap::new();
        for gpu in here.into_iter().filter_map(|rank| rank.gpu.as_ref()).filter(|gpu| gpu.is_own) {
            *gpus.entry(gpu.uuid.clone()).or_insert(false) |= gpu.is_shared;
        }
        Self { gpus: Some(gpus) }
    }

    /// Whether the job uses it, or may.
    #[must_use]
    pub fn may_use(&self, uuid: &str) -> bool {
        self.gpus.as_ref().is_none_or(|gpus| gpus.contains_key(uuid))
    }

    /// Whether what is counted of it may be others' as well.
    #[must_use]
    pub fn is_shared(&self, uuid: &str) -> bool {
        self.gpus.as_ref().and_then(|gpus| gpus.get(uuid)).copied().unwrap_or(false)
    }
}

/// Hosts of these ranks.
#[must_use]
pub fn by_host(ranks: &[RankGpu]) -> BTreeMap<String, OwnGpus> {
    let hosts: BTreeSet<&String> = ranks.iter().map(|rank| &rank.host).collect();
    hosts.into_iter().map(|host| (host.clone(), OwnGpus::of_host(ranks, host))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(number: i32, known_by: Option<&str>, gpu: Option<(&str, bool, bool)>) -> RankGpu {
        let gpu = gpu.map(|(uuid, is_own, is_shared)| Gpu {
            uuid: uuid.into(),
            is_own,
            is_shared,
            ..Gpu::default()
        });
        RankGpu {
            rank: number,
            host: "n1".into(),
            known_by: known_by.map(str::to_owned),
            visible_devices: None,
            gpu,
        }
    }

    #[test]
    fn a_job_uses_its_own_gpus_and_any_where_that_is_not_known() {
        let mut ranks = vec![
            rank(0, Some("driver"), Some(("GPU-0", true, false))),
            rank(0, Some("driver"), Some(("GPU-3", false, false))),
            rank(1, Some("driver"), Some(("GPU-0", true, true))),
            rank(2, Some("driver"), None),
        ];
        let own = OwnGpus::of_host(&ranks, "n1");
        assert_eq!(["GPU-0", "GPU-3", "GPU-5"].map(|uuid| own.may_use(uuid)), [true, false, false]);
        assert_eq!(["GPU-0", "GPU-3"].map(|uuid| own.is_shared(uuid)), [true, false]);
        assert!(!OwnGpus::of_host(&ranks[3..], "n1").may_use("GPU-0"), "none is none");
        ranks.push(rank(3, None, Some(("GPU-5", false, false))));
        assert!(by_host(&ranks)["n1"].may_use("GPU-7"), "a rank may use any");
        assert!(OwnGpus::of_host(&ranks, "n2").may_use("GPU-0"));
    }
}
