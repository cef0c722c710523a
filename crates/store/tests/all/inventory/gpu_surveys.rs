//! Finished surveys of GPUs: what they lack is gone or lost, and each change is an event.

use super::*;
use throughline_sample::wire::{GpuSurveyMark, SurveyedGpu};

/// A GPU or partition: UUID, index, and the GPU that it is a partition of.
type Found = (&'static str, u32, &'static str);

const A: Found = ("GPU-a", 0, "");
const B: Found = ("GPU-b", 1, "");
const PART_1: Found = ("MIG-1", 0, "GPU-a");
const PART_2: Found = ("MIG-2", 1, "GPU-a");
const PART_3: Found = ("MIG-3", 0, "GPU-a");

/// What a survey of `node1` finds at `at` seconds.
fn survey(at: i64, found: &[Found]) -> Batch {
    let time = START + at * SECOND;
    let info = |(uuid, index, parent): &Found| GpuInfo {
        uuid: (*uuid).into(),
        index: *index,
        name: if parent.is_empty() { "H200" } else { "MIG 1g.18gb" }.into(),
        parent_uuid: (*parent).into(),
        source: "nvml".into(),
        ..GpuInfo::default()
    };
    let whole = || found.iter().filter(|(_, _, parent)| parent.is_empty());
    let link = |uuid: &str, link| GpuLinkInfo {
        gpu_uuid: uuid.into(),
        link,
        active: true,
        ..GpuLinkInfo::default()
    };
    let links = whole().flat_map(|(uuid, ..)| [link(uuid, 0), link(uuid, 1)]);
    let of_mark = |(uuid, _, parent): &Found| SurveyedGpu {
        uuid: (*uuid).into(),
        links: if parent.is_empty() { vec![0, 1] } else { Vec::new() },
        ..SurveyedGpu::default()
    };
    let mark = GpuSurveyMark {
        time,
        source: "nvml".into(),
        gpus: found.iter().map(of_mark).collect(),
        ..GpuSurveyMark::default()
    };
    Batch {
        node: "node1".into(),
        gpus: found.iter().map(info).collect(),
        gpu_link_infos: links.collect(),
        gpu_survey_marks: vec![mark],
        coverage: vec![Coverage { time: time + SECOND / 2, source: "nvml".into(), ..Coverage::default() }],
        ..Batch::default()
    }
}

/// GPUs that are there, as index and UUID, and how many links have a current row.
async fn here(bench: &Bench) -> (Vec<String>, i64) {
    let gpus = "SELECT index || ' ' || uuid || CASE WHEN is_lost THEN ' lost' ELSE '' END FROM internal.gpu \
                WHERE valid_to IS NULL ORDER BY parent_gpu_id NULLS FIRST, index, uuid";
    (
        bench.texts(gpus).await,
        bench.number("SELECT count(*) FROM internal.gpu_link WHERE valid_to IS NULL").await,
    )
}

/// Events so far, in the order of time, as kind and GPU.
async fn events(bench: &Bench) -> Vec<String> {
    bench.texts("SELECT kind || ' ' || gpu_uuid FROM internal.events WHERE instance = 'node1' ORDER BY time, kind, gpu_uuid").await
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(String::from).into()
}

#[tokio::test]
async fn a_survey_ends_what_it_lacks_and_each_change_is_an_event() {
    let mut bench = Bench::new().await;
    bench.send(survey(0, &[A, PART_1, PART_2, B])).await;
    assert_eq!(here(&bench).await, (texts(["0 GPU-a", "1 GPU-b", "0 MIG-1", "1 MIG-2"]), 4));
    // What was always there is no event, and neither is a repetition.
    bench.send(survey(10, &[A, PART_1, PART_2, B])).await;
    assert_eq!(events(&bench).await, Vec::<String>::new());
    // Repartition.
    bench.send(survey(20, &[A, PART_3, B])).await;
    assert_eq!(here(&bench).await, (texts(["0 GPU-a", "1 GPU-b", "0 MIG-3"]), 4));
    let repartitioned =
        "SELECT before || ' > ' || after FROM internal.events WHERE kind = 'gpu.repartitioned'";
    assert_eq!(bench.texts(repartitioned).await, ["2 MIG 1g.18gb > 1 MIG 1g.18gb"]);
    // Replacement, by one without partitions and at another index.
    bench.send(survey(30, &[("GPU-c", 0, ""), B])).await;
    assert_eq!(here(&bench).await, (texts(["0 GPU-c", "1 GPU-b"]), 4));
    // Swap of indices.
    bench.send(survey(40, &[("GPU-b", 0, ""), ("GPU-c", 1, "")])).await;
    assert_eq!(here(&bench).await, (texts(["0 GPU-b", "1 GPU-c"]), 4));
    // Removal, and all of them.
    bench.send(survey(50, &[("GPU-b", 0, "")])).await;
    assert_eq!(here(&bench).await, (texts(["0 GPU-b"]), 2));
    bench.send(survey(60, &[])).await;
    assert_eq!(here(&bench).await, (vec![], 0));
    // One that was there before is new again.
    bench.send(survey(70, &[A])).await;
    assert_eq!(here(&bench).await, (texts(["0 GPU-a"]), 2));
    let expected = [
        "gpu.repartitioned GPU-a",
        "gpu.gone GPU-a",
        "gpu.new GPU-c",
        "gpu.renumbered GPU-b",
        "gpu.renumbered GPU-c",
        "gpu.gone GPU-c",
        "gpu.gone GPU-b",
        "gpu.new GPU-a",
    ];
    assert_eq!(events(&bench).await, expected);
    // A message that arrives late changes nothing.
    bench.send(survey(55, &[B])).await;
    assert_eq!(here(&bench).await, (texts(["0 GPU-a"]), 2));
    assert_eq!(events(&bench).await.len(), expected.len());
    // History has what was there then.
    let then = "SELECT uuid FROM internal.gpu WHERE parent_gpu_id IS NULL AND valid_from <= (SELECT min(valid_from) FROM internal.gpu) \
                + INTERVAL '35 s' AND coalesce(valid_to, 'infinity') > (SELECT min(valid_from) FROM internal.gpu) + INTERVAL '35 s' ORDER BY index";
    assert_eq!(bench.texts(then).await, ["GPU-c", "GPU-b"]);
}

#[tokio::test]
async fn what_may_be_one_that_gives_no_identity_is_lost_and_links_end_one_by_one() {
    let mut bench = Bench::new().await;
    bench.send(survey(0, &[A, PART_1, B])).await;
    let with = |mut batch: Batch, change: &dyn Fn(&mut GpuSurveyMark)| {
        change(&mut batch.gpu_survey_marks[0]);
        batch
    };
    // The agent was started since: it knows of no GPU by its UUID, and that one does not give it.
    bench.send(with(survey(10, &[B]), &|mark| mark.unidentified = 1)).await;
    let lost = texts(["0 GPU-a lost", "1 GPU-b", "0 MIG-1 lost"]);
    assert_eq!(here(&bench).await, (lost.clone(), 2));
    assert_eq!(events(&bench).await, ["gpu.lost GPU-a"]);
    bench.send(with(survey(20, &[B]), &|mark| mark.lost = vec!["GPU-a".into()])).await;
    assert_eq!(here(&bench).await.0, lost);
    assert_eq!(events(&bench).await, ["gpu.lost GPU-a"]);
    bench.send(survey(30, &[A, PART_1, B])).await;
    assert_eq!(here(&bench).await.0, texts(["0 GPU-a", "1 GPU-b", "0 MIG-1"]));
    assert_eq!(events(&bench).await, ["gpu.lost GPU-a", "gpu.returned GPU-a"]);
    // Partitions that could not be read stay.
    bench.send(with(survey(40, &[A, B]), &|mark| mark.gpus[0].has_unread_parts = true)).await;
    assert_eq!(here(&bench).await.0, texts(["0 GPU-a", "1 GPU-b", "0 MIG-1"]));
    // A bridge was taken out.
    let mut fewer = with(survey(50, &[A, PART_1, B]), &|mark| mark.gpus[0].links = vec![1]);
    fewer.gpu_link_infos.retain(|link| link.gpu_uuid != "GPU-a" || link.link == 1);
    bench.send(fewer).await;
    assert_eq!(here(&bench).await, (texts(["0 GPU-a", "1 GPU-b", "0 MIG-1"]), 3));
    // What another vendor's library has found is its own.
    let amd =
        GpuSurveyMark { time: START + 60 * SECOND, source: "amd_smi".into(), ..GpuSurveyMark::default() };
    bench.send(Batch { node: "node1".into(), gpu_survey_marks: vec![amd], ..Batch::default() }).await;
    assert_eq!(here(&bench).await.0.len(), 3);
    // DCGM reads the GPUs that NVML has found.
    let dcgm = GpuSurveyMark { time: START + 70 * SECOND, source: "dcgm".into(), ..GpuSurveyMark::default() };
    bench.send(Batch { node: "node1".into(), gpu_survey_marks: vec![dcgm], ..Batch::default() }).await;
    assert_eq!(here(&bench).await, (vec![], 0));
}

#[tokio::test]
async fn the_topology_has_a_row_for_each_pair_of_ends() {
    let mut bench = Bench::new().await;
    let mut batch = survey(0, &[A, B]);
    let link = |uuid: &str, link, kind: &str, place: &str, remote: &str| GpuLinkInfo {
        gpu_uuid: uuid.into(),
        link,
        active: true,
        remote_type: kind.into(),
        remote_pci_bus_id: place.into(),
        remote_gpu_uuid: remote.into(),
        speed_bytes_per_second: Some(25_000_000_000),
        ..GpuLinkInfo::default()
    };
    batch.gpu_link_infos = vec![
        link("GPU-a", 0, "gpu", "1:0", "GPU-b"),
        link("GPU-a", 1, "gpu", "1:0", "GPU-b"),
        link("GPU-a", 2, "switch", "7:1", ""),
        link("GPU-a", 3, "switch", "7:0", ""),
        link("GPU-a", 4, "switch", "7:1", ""),
        link("GPU-a", 40, "cpu", "", ""),
        link("GPU-b", 0, "gpu", "0:0", "GPU-a"),
        link("GPU-b", 1, "switch", "7:1", ""),
        link("GPU-b", 2, "cpu", "6:0", ""),
    ];
    for gpu in &mut batch.gpu_survey_marks[0].gpus {
        gpu.links = (0..5).chain([40]).collect();
    }
    bench.send(batch).await;
    let rows = "SELECT source_id || ' > ' || destination || coalesce(' [' || destination_id || ']', '') || ': ' || physical_link_count || ', ' \
                || link_capacity / 1000000000 FROM public.intra_node_topo ORDER BY id";
    let expected = [
        "0 > switch 0 [0]: 1, 25",
        "0 > switch 1 [1]: 2, 50",
        "0 > H200 1 [1]: 2, 50",
        "0 > cpu: 1, 25",
        "1 > H200 0 [0]: 1, 25",
        "1 > cpu 0 [0]: 1, 25",
        "1 > switch 1 [1]: 1, 25",
    ];
    let mut found = bench.texts(rows).await;
    found.sort_by_key(|row| expected.iter().position(|known| known == row));
    assert_eq!(found, expected);
    // A GPU that is lost leads nowhere, and the links of others to it are there until they are down.
    let mut lost = survey(10, &[B]);
    lost.gpu_survey_marks[0].lost = vec!["GPU-a".into()];
    lost.gpu_survey_marks[0].gpus[0].links = vec![0, 1, 2];
    lost.gpu_link_infos.clear();
    bench.send(lost).await;
    let sources = "SELECT DISTINCT source_id::text FROM public.intra_node_topo";
    assert_eq!(bench.texts(sources).await, ["1"]);
}
