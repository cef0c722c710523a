//! Which of the metrics that the configuration chooses this node's GPUs sample.

use super::{Finding, Grade, finding};
use crate::config::Config;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use throughline_gpu::cupti::{PlannedMetrics, plan_of_node};

/// How long CUPTI may take: its start on a node of eight GPUs takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);

const WHAT: &str = "chosen metrics";

/// A line for the GPUs of each chip, and one for each metric that they do not sample. No performance monitor is taken.
pub(super) async fn findings(config: &Config) -> anyhow::Result<Vec<Finding>> {
    let groups = config.cupti.metric_groups()?;
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let (cuda, cupti) = (config.cupti.cuda.clone(), config.cupti.library.clone());
    let libraries: (PathBuf, PathBuf) = (cuda, cupti);
    let planned = tokio::task::spawn_blocking(move || {
        plan_of_node(Path::new("/proc/self/exe"), (&libraries.0, &libraries.1), &groups, PATIENCE)
    });
    Ok(match planned.await? {
        Ok(gpus) => of_gpus(&gpus),
        Err(text) => vec![finding(WHAT, "cupti", Grade::Bad, text)],
    })
}

fn of_gpus(gpus: &[PlannedMetrics]) -> Vec<Finding> {
    // GPUs of one chip have the same words.
    let mut alike: BTreeMap<(String, Vec<String>, String), Vec<String>> = BTreeMap::new();
    for gpu in gpus {
        let refused: Vec<String> = gpu.refused.iter().map(|refused| refused.text.clone()).collect();
        let said = if gpu.problem.is_empty() { sampled(gpu) } else { gpu.problem.clone() };
        alike.entry((said, refused, gpu.problem.clone())).or_default().push(gpu.index.to_string());
    }
    let mut findings = Vec::new();
    for ((said, refused, problem), indices) in alike {
        let grade = if problem.is_empty() { Grade::Good } else { Grade::Bad };
        findings.push(finding(WHAT, "cupti", grade, format!("GPU {}: {said}", indices.join(", "))));
        findings.extend(refused.into_iter().map(|text| finding(WHAT, "cupti", Grade::Bad, text)));
    }
    findings
}

/// What of each group is sampled, with its passes and interval.
fn sampled(gpu: &PlannedMetrics) -> String {
    let group = |(place, group): (usize, &throughline_gpu::cupti::PlannedGroup)| {
        let seconds = Duration::from_nanos(group.interval_nanoseconds).as_secs_f64();
        let passes = match group.passes {
            1 => "1 pass".to_owned(),
            several => format!("{several} passes, one is sampled"),
        };
        format!("group {} each {seconds} s: {} metrics, {passes}", place + 1, group.metrics.len())
    };
    let groups: Vec<String> = gpu.groups.iter().enumerate().map(group).collect();
    format!("chip {}; {}", gpu.chip, groups.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_gpu::cupti::{PlannedGroup, RefusedMetric};

    #[test]
    fn gpus_that_are_alike_are_one_line() {
        let group = |names: &[&str], passes| PlannedGroup {
            interval_nanoseconds: 10_000_000_000,
            metrics: names.iter().map(|name| (*name).to_owned()).collect(),
            passes,
        };
        let gpu = |index| PlannedMetrics {
            index,
            chip: "GH100".into(),
            groups: vec![group(&["a.sum", "b.avg"], 1), group(&["c.sum"], 2)],
            refused: vec![RefusedMetric { metric: "d.sum".into(), text: "d.sum needs another pass".into() }],
            ..PlannedMetrics::default()
        };
        let failed = PlannedMetrics { index: 2, problem: "no".into(), ..PlannedMetrics::default() };
        let texts: Vec<String> = of_gpus(&[gpu(0), gpu(1), failed])
            .into_iter()
            .map(|one| format!("{} {}", one.grade.name(), one.text))
            .collect();
        let line = "ok GPU 0, 1: chip GH100; group 1 each 10 s: 2 metrics, 1 pass; group 2 each 10 s: 1 metrics, 2 passes, one \
                    is sampled";
        assert_eq!(texts, [line, "problem d.sum needs another pass", "problem GPU 2: no"]);
    }
}
