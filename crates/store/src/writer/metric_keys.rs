//! Small numbers of the metrics of GPUs that sites choose by name: a cache of what is committed in `gpu_metric_key`.

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::Client;

use super::WriteError;
use super::key_sql::KeySql;

/// A metric of a GPU: the GPU's number and the name.
pub(super) type GpuMetric = (i64, String);

/// The cache.
#[derive(Default)]
pub(super) struct MetricKeys(HashMap<i64, HashMap<String, i64>>);

impl MetricKeys {
    /// The number of a metric; none beyond the limit of its GPU.
    pub fn id(&self, gpu: i64, name: &str) -> Option<i64> {
        self.0.get(&gpu)?.get(name).copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.values().map(HashMap::len).sum()
    }

    /// Makes metrics known.
    ///
    /// # Errors
    /// The database's.
    pub async fn resolve(&mut self, client: &Client, wanted: BTreeSet<GpuMetric>) -> Result<(), WriteError> {
        let wanted: Vec<GpuMetric> =
            wanted.into_iter().filter(|(gpu, name)| self.id(*gpu, name).is_none()).collect();
        let gpus: Vec<i64> = wanted.iter().map(|(gpu, _)| *gpu).collect();
        let names: Vec<&str> = wanted.iter().map(|(_, name)| name.as_str()).collect();
        // A site has at most 32 at a time and may change them now and then: rows of more than 512 of a GPU are not stored.
        let sql = KeySql {
            find: "SELECT w.position, k.id FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY \
                   AS w(gpu_id, name, position) JOIN internal.gpu_metric_key k USING (gpu_id, name)",
            add: "INSERT INTO internal.gpu_metric_key (gpu_id, name) SELECT n.gpu_id, n.name FROM ( \
                      SELECT w.gpu_id, w.name, row_number() OVER (PARTITION BY w.gpu_id ORDER BY w.name) AS place \
                      FROM unnest($1::bigint[], $2::text[]) w (gpu_id, name) \
                      WHERE NOT EXISTS (SELECT FROM internal.gpu_metric_key k WHERE (k.gpu_id, k.name) = (w.gpu_id, w.name))) n \
                  WHERE n.place + (SELECT count(*) FROM internal.gpu_metric_key k WHERE k.gpu_id = n.gpu_id) <= 512 \
                  ORDER BY n.gpu_id, n.name ON CONFLICT DO NOTHING",
        };
        for (at, id) in sql.resolve(client, wanted.len(), &[&gpus, &names]).await? {
            let (gpu, name) = &wanted[at];
            self.0.entry(*gpu).or_default().insert(name.clone(), id);
        }
        Ok(())
    }
}
