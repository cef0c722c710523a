//! The table of ranks and their GPUs: one row for each, with the nearest port and the switch port behind it.

use crate::text::{ABSENT, Table, clean};
use throughline_api::jobs::{JobGpu, JobGpus};

/// The table as lines.
pub fn text(gpus: &JobGpus, width: usize) -> String {
    let mut table =
        Table::new(&["<RANK", "NODE", "GPU", "KNOWN BY", "NEAREST PORT", "DISTANCE", "SWITCH PORT"]);
    for one in gpus.gpus.iter().filter(|one| one.is_own || one.gpu.is_none() || one.known_by.is_none()) {
        table.row(vec![
            one.rank.to_string(),
            clean(&one.host, 40),
            name(one),
            known_by(one),
            port(one),
            one.distance.clone().unwrap_or_else(|| ABSENT.to_owned()),
            switch(one),
        ]);
    }
    let mut text: String = table.text().lines().map(|line| clean(line, width) + "\n").collect();
    if gpus.left_out > 0 {
        text.push_str(&format!("  and {} more (GET /api/v1/jobs/JOB/gpus has a limit)\n", gpus.left_out));
    }
    if gpus.gpus.iter().any(|one| one.is_own && one.is_shared) {
        text.push_str("  shared: links and PCIe are counted of the whole GPU, and are not the job's alone\n");
    }
    text
}

/// `3`, `3 partition 0`; none and unknown differ.
fn name(one: &JobGpu) -> String {
    let Some(uuid) = &one.gpu else {
        return if one.known_by.is_some() { "none" } else { "unknown" }.to_owned();
    };
    let index = one.index.map_or_else(|| clean(uuid, 44), |index| index.to_string());
    let partition = one.partition.as_ref().map_or_else(String::new, |uuid| {
        let index = one.partition_index.map_or_else(|| clean(uuid, 44), |index| index.to_string());
        format!(" partition {index}")
    });
    format!("{index}{partition}{}", if one.is_shared { ", shared" } else { "" })
}

/// Of a GPU that a rank only may use that it may.
fn known_by(one: &JobGpu) -> String {
    match &one.evidence {
        Some(evidence) if one.is_own => evidence.clone(),
        Some(evidence) => format!("{evidence}: it may use it"),
        None => one.known_by.clone().unwrap_or_else(|| ABSENT.to_owned()),
    }
}

/// The port, and whether the rank sends by another one.
fn port(one: &JobGpu) -> String {
    let Some(port) = &one.port else { return ABSENT.to_owned() };
    let note = if one.has_queue_pairs == Some(false) { " (not used)" } else { "" };
    format!("{}{note}", clean(port, 40))
}

fn switch(one: &JobGpu) -> String {
    match (&one.switch, one.switch_port) {
        (Some(switch), Some(port)) => format!("{}[{port}]", clean(switch, 64)),
        _ => ABSENT.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rank: i32, known_by: Option<&str>, evidence: Option<&str>) -> JobGpu {
        let gpu = evidence.map(|_| format!("GPU-{rank}"));
        let (evidence, known_by) = (evidence.map(str::to_owned), known_by.map(str::to_owned));
        let is_own = evidence.is_some() && evidence == known_by;
        let host = "n1".to_owned();
        JobGpu {
            rank,
            host,
            index: gpu.as_ref().map(|_| rank),
            gpu,
            known_by,
            evidence,
            is_own,
            ..JobGpu::default()
        }
    }

    #[test]
    fn none_and_unknown_differ_and_what_is_not_a_ranks_own_is_left_out() {
        let near = JobGpu {
            port: Some("mlx5_0/1".into()),
            distance: Some("switch".into()),
            has_queue_pairs: Some(false),
            switch: Some("leaf 3".into()),
            switch_port: Some(5),
            ..of(0, Some("driver"), Some("driver"))
        };
        let part = JobGpu {
            partition: Some("MIG-1".into()),
            partition_index: Some(1),
            is_shared: true,
            ..of(1, Some("driver"), Some("driver"))
        };
        let gpus = vec![
            near,
            part,
            of(2, Some("driver"), Some("device")),
            of(3, Some("driver"), None),
            of(4, None, Some("visible")),
            of(5, None, None),
        ];
        let text = text(&JobGpus { gpus, ..JobGpus::default() }, 120);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines[1..],
            [
                "0 n1 0 driver mlx5_0/1 (not used) switch leaf 3[5]",
                "1 n1 1 partition 1, shared driver - - -",
                "3 n1 none driver - - -",
                "4 n1 4 visible: it may use it - - -",
                "5 n1 unknown - - - -",
                "shared: links and PCIe are counted of the whole GPU, and are not the job's alone",
            ]
        );
    }
}
