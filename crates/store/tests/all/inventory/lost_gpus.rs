//! GPUs that a node reports to be lost: their rows end, and begin again when they return.

use super::*;

/// What a node has at `at` seconds, and what happened.
fn node(at: i64, gpus: &[&str], events: &[(&str, &str)]) -> Batch {
    let time = START + at * SECOND;
    let gpu = |uuid: &&str| GpuInfo { uuid: (*uuid).into(), source: "nvml".into(), ..GpuInfo::default() };
    let mut part = GpuInfo { uuid: "MIG-b0".into(), parent_uuid: "GPU-b".into(), ..GpuInfo::default() };
    part.source = "nvml".into();
    let link = |uuid: &&str| GpuLinkInfo { gpu_uuid: (*uuid).into(), active: true, ..GpuLinkInfo::default() };
    let event = |(kind, uuid): &(&str, &str)| Event {
        time,
        source: "nvml".into(),
        kind: (*kind).into(),
        severity: "error".into(),
        gpu_uuid: (*uuid).into(),
        ..Event::default()
    };
    Batch {
        node: "n1".into(),
        gpus: gpus.iter().map(gpu).chain(gpus.contains(&"GPU-b").then_some(part)).collect(),
        gpu_link_infos: gpus.iter().map(link).collect(),
        events: events.iter().map(event).collect(),
        coverage: vec![Coverage { time, source: "nvml".into(), ..Coverage::default() }],
        ..Batch::default()
    }
}

/// The GPUs and links that are there now.
async fn here(bench: &Bench) -> (Vec<String>, i64) {
    let gpus = bench.texts("SELECT uuid FROM internal.gpu WHERE valid_to IS NULL ORDER BY uuid").await;
    (gpus, bench.number("SELECT count(*) FROM internal.gpu_link WHERE valid_to IS NULL").await)
}

#[tokio::test]
async fn rows_of_a_gpu_that_is_lost_end_with_its_event_and_begin_when_it_returns() {
    let mut bench = Bench::new().await;
    let both = ["GPU-a", "GPU-b"];
    bench.send(node(0, &both, &[])).await;
    let all: Vec<String> = ["GPU-a", "GPU-b", "MIG-b0"].map(String::from).into();
    assert_eq!(here(&bench).await, (all.clone(), 2));
    // Within the same second it was reported as there, too.
    bench.send(node(60, &both, &[("gpu.lost", "GPU-b")])).await;
    assert_eq!(here(&bench).await, (vec!["GPU-a".to_owned()], 1));
    let ended = "SELECT extract(epoch FROM valid_to - valid_from)::integer::text FROM internal.gpu WHERE uuid = 'GPU-b'";
    assert_eq!(bench.texts(ended).await, ["60"]);
    // Again, and of one that nobody knows: nothing more.
    bench.send(node(70, &["GPU-a"], &[("gpu.lost", "GPU-b"), ("gpu.lost", "GPU-x")])).await;
    assert_eq!(bench.texts(ended).await, ["60"]);
    bench.send(node(120, &both, &[("gpu.returned", "GPU-b")])).await;
    assert_eq!(here(&bench).await, (all.clone(), 2));
    assert_eq!(bench.number("SELECT count(*) FROM internal.gpu WHERE uuid = 'GPU-b'").await, 2);
    // A reset within one batch ends nothing.
    bench.send(node(180, &both, &[("gpu.lost", "GPU-b"), ("gpu.returned", "GPU-b")])).await;
    assert_eq!(here(&bench).await, (all.clone(), 2));
    // A message that arrives late does not end the present.
    bench.send(node(90, &[], &[("gpu.lost", "GPU-b")])).await;
    assert_eq!(here(&bench).await, (all, 2));
    // Another node's word does not count.
    bench.send(Batch { node: "n2".into(), ..node(240, &[], &[("gpu.lost", "GPU-a")]) }).await;
    assert_eq!(here(&bench).await.0.len(), 3);
}
