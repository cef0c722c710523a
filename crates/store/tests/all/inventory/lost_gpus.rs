//! GPUs that a node reports to be lost: they have rows that say so until they return.

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

/// The GPUs that are there now, those that are lost with a mark, and how many links are.
async fn here(bench: &Bench) -> (Vec<String>, i64) {
    let gpus = "SELECT uuid || CASE WHEN is_lost THEN ' lost' ELSE '' END FROM internal.gpu WHERE valid_to IS NULL ORDER BY uuid";
    (
        bench.texts(gpus).await,
        bench.number("SELECT count(*) FROM internal.gpu_link WHERE valid_to IS NULL").await,
    )
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(String::from).into()
}

#[tokio::test]
async fn a_gpu_that_is_lost_has_a_row_of_its_own_from_its_event_until_it_returns() {
    let mut bench = Bench::new().await;
    let both = ["GPU-a", "GPU-b"];
    bench.send(node(0, &both, &[])).await;
    let all = texts(["GPU-a", "GPU-b", "MIG-b0"]);
    let lost = texts(["GPU-a", "GPU-b lost", "MIG-b0 lost"]);
    assert_eq!(here(&bench).await, (all.clone(), 2));
    // Within the same second it was reported as there, too.
    bench.send(node(60, &both, &[("gpu.lost", "GPU-b")])).await;
    assert_eq!(here(&bench).await, (lost.clone(), 1));
    let began = "SELECT is_lost || ' ' || extract(epoch FROM valid_from - min(valid_from) OVER ())::integer \
                 FROM internal.gpu WHERE uuid = 'GPU-b' ORDER BY valid_from";
    assert_eq!(bench.texts(began).await, ["false 0", "true 60"]);
    // Again, and of one that nobody knows: nothing more.
    bench.send(node(70, &["GPU-a"], &[("gpu.lost", "GPU-b"), ("gpu.lost", "GPU-x")])).await;
    assert_eq!(bench.texts(began).await, ["false 0", "true 60"]);
    assert_eq!(here(&bench).await, (lost, 1));
    bench.send(node(120, &both, &[("gpu.returned", "GPU-b")])).await;
    assert_eq!(here(&bench).await, (all.clone(), 2));
    assert_eq!(bench.texts(began).await, ["false 0", "true 60", "false 120"]);
    // A reset within one batch ends nothing.
    bench.send(node(180, &both, &[("gpu.lost", "GPU-b"), ("gpu.returned", "GPU-b")])).await;
    assert_eq!(here(&bench).await, (all.clone(), 2));
    // A message that arrives late does not change the present.
    bench.send(node(90, &[], &[("gpu.lost", "GPU-b")])).await;
    assert_eq!(here(&bench).await, (all, 2));
    // Another node's word does not count.
    bench.send(Batch { node: "n2".into(), ..node(240, &[], &[("gpu.lost", "GPU-a")]) }).await;
    assert_eq!(here(&bench).await.0.len(), 3);
}
