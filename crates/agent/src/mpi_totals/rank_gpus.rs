//! GPUs that ranks of this node use now, for `/metrics`: those of the relation `rank_gpu` that are the rank's own.

use std::collections::HashMap;
use throughline_daemon::Page;
use throughline_sample::wire::{Batch, JobRank, RankGpu};

/// Most ranks whose GPUs are shown; the database has all.
const RANKS_MAX: usize = 8192;
/// Most GPUs shown of one rank.
const GPUS_MAX: usize = 64;

/// GPUs by job and rank.
#[derive(Debug, Default)]
pub struct RankGpus(HashMap<(String, u32), Vec<RankGpu>>);

impl RankGpus {
    /// Takes over what ranks sent.
    pub fn observe(&mut self, batch: &Batch) {
        for rank in &batch.job_ranks {
            let key = (rank.job_key.clone(), rank.rank);
            let own: Vec<RankGpu> = own(rank).cloned().collect();
            if rank.end != 0 || own.is_empty() {
                self.0.remove(&key);
            } else if self.0.len() < RANKS_MAX || self.0.contains_key(&key) {
                self.0.insert(key, own);
            }
        }
    }

    /// Adds the series.
    pub fn expose(&self, page: &mut Page) {
        let mut ranks: Vec<_> = self.0.iter().collect();
        ranks.sort_by_key(|(key, _)| *key);
        for ((job_key, rank), gpus) in ranks {
            let rank = rank.to_string();
            for gpu in gpus {
                let labels = [
                    ("job_key", job_key.as_str()),
                    ("rank", &rank),
                    ("gpu", &gpu.gpu_uuid),
                    ("partition", &gpu.partition_uuid),
                    ("evidence", &gpu.evidence),
                ];
                page.info("throughline_rank_gpu_info", "A GPU that a rank uses now.", &labels);
            }
        }
    }
}

/// Those that it uses now by the best that is known, as the view `job_rank_gpus` has them.
fn own(rank: &JobRank) -> impl Iterator<Item = &RankGpu> {
    let is_listed = |uuid: &str| rank.gpus.iter().any(|gpu| gpu.evidence == "driver" && gpu.gpu_uuid == uuid);
    let is_own = move |gpu: &&RankGpu| match gpu.evidence.as_str() {
        "driver" => true,
        evidence => evidence == rank.gpu_evidence && !is_listed(&gpu.gpu_uuid),
    };
    rank.gpus.iter().filter(|gpu| gpu.last_seen == 0).filter(is_own).take(GPUS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_daemon::Format;

    fn rank(number: u32, known: &str, gpus: &[(&str, &str, &str, i64)]) -> JobRank {
        let gpu = |(gpu, partition, evidence, last_seen): &(&str, &str, &str, i64)| RankGpu {
            gpu_uuid: (*gpu).into(),
            partition_uuid: (*partition).into(),
            evidence: (*evidence).into(),
            last_seen: *last_seen,
            ..RankGpu::default()
        };
        let (job_key, gpu_evidence) = ("j".into(), known.into());
        JobRank {
            job_key,
            rank: number,
            gpu_evidence,
            gpus: gpus.iter().map(gpu).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn a_rank_has_the_gpus_that_it_uses_now() {
        let mut all = RankGpus::default();
        let batch = Batch {
            job_ranks: vec![
                rank(
                    0,
                    "driver",
                    &[("G0", "", "driver", 0), ("G0", "", "device", 0), ("G1", "", "device", 0)],
                ),
                rank(1, "driver", &[("G7", "M1", "driver", 0), ("G6", "", "driver", 9)]),
                rank(2, "device", &[("G2", "", "device", 0), ("G3", "", "visible", 0)]),
                rank(3, "", &[("G2", "", "device", 0)]),
                rank(4, "driver", &[]),
            ],
            ..Batch::default()
        };
        let shown = |all: &RankGpus| {
            let mut page = Page::default();
            all.expose(&mut page);
            let text = page.encode(Format::Text);
            let lines = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
            lines.collect::<Vec<_>>()
        };
        all.observe(&batch);
        let line = |rank: u32, gpu: &str, partition: &str, evidence: &str| {
            format!(
                "throughline_rank_gpu_info{{job_key=\"j\",rank=\"{rank}\",gpu=\"{gpu}\",partition=\"{partition}\",evidence=\"{evidence}\"}} 1"
            )
        };
        assert_eq!(
            shown(&all),
            [line(0, "G0", "", "driver"), line(1, "G7", "M1", "driver"), line(2, "G2", "", "device")]
        );
        let ended = |number: u32| JobRank { end: 5, ..batch.job_ranks[number as usize].clone() };
        all.observe(&Batch { job_ranks: vec![ended(0), ended(2)], ..Batch::default() });
        assert_eq!(shown(&all), [line(1, "G7", "M1", "driver")]);
    }
}
