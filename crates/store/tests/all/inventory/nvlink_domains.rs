//! NVLink domains over several nodes: what the surveys of their nodes say, together.

use super::*;

const CLUSTER: &str = "5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e";

/// A survey of a node: its GPUs' UUIDs, each with a clique or in no fabric.
fn survey(node: &str, seconds: i64, gpus: &[(&str, Option<u32>)]) -> Batch {
    let time = batch_of_everything().gpu_links[0].time + seconds * SECOND;
    let info = |(index, (uuid, clique)): (u32, &(&str, Option<u32>))| GpuInfo {
        uuid: (*uuid).into(),
        index,
        name: "GB200".into(),
        source: "nvml".into(),
        fabric_cluster_uuid: clique.map_or_else(String::new, |_| CLUSTER.into()),
        fabric_clique_id: *clique,
        fabric_state: clique.map_or_else(String::new, |_| "completed".into()),
        ..GpuInfo::default()
    };
    let mark = GpuSurveyMark {
        time,
        source: "nvml".into(),
        gpus: gpus
            .iter()
            .map(|(uuid, _)| SurveyedGpu { uuid: (*uuid).into(), ..SurveyedGpu::default() })
            .collect(),
        ..GpuSurveyMark::default()
    };
    Batch {
        node: node.into(),
        gpus: (0..).zip(gpus).map(info).collect(),
        gpu_survey_marks: vec![mark],
        coverage: vec![Coverage { time, source: "nvml".into(), ..Coverage::default() }],
        ..Batch::default()
    }
}

/// Clique, nodes and GPUs of each domain.
async fn domains(bench: &Bench) -> Vec<String> {
    let rows = "SELECT clique_id || ': ' || array_to_string(nodes, ',') || ' (' || node_count || '), ' || array_to_string(gpus, ',') \
                || ' (' || gpu_count || ')' FROM public.nvlink_domain ORDER BY domain";
    bench.texts(rows).await
}

#[tokio::test]
async fn gpus_of_two_nodes_with_one_cluster_and_clique_are_one_domain() {
    let mut bench = Bench::new().await;
    bench.send(survey("node1", 0, &[("GPU-a", Some(7)), ("GPU-b", Some(7))])).await;
    bench.send(survey("node2", 0, &[("GPU-c", Some(7)), ("GPU-d", Some(7))])).await;
    bench.send(survey("node3", 0, &[("GPU-e", Some(8)), ("GPU-f", None)])).await;
    assert_eq!(
        domains(&bench).await,
        ["7: node1,node2 (2), GPU-a,GPU-b,GPU-c,GPU-d (4)", "8: node3 (1), GPU-e (1)"]
    );
    let name = "SELECT domain FROM public.nvlink_domain WHERE clique_id = 7";
    assert_eq!(bench.texts(name).await, [format!("{CLUSTER}.7")]);
    // The fabric manager puts one into another clique: a row of its own, so that former times have the former domain.
    bench.send(survey("node2", 60, &[("GPU-c", Some(7)), ("GPU-d", Some(8))])).await;
    assert_eq!(
        domains(&bench).await,
        ["7: node1,node2 (2), GPU-a,GPU-b,GPU-c (3)", "8: node2,node3 (2), GPU-d,GPU-e (2)"]
    );
    let rows = "SELECT fabric_clique_id || ' ' || (valid_to IS NULL) FROM internal.gpu WHERE uuid = 'GPU-d' ORDER BY 1";
    assert_eq!(bench.texts(rows).await, ["7 false", "8 true"]);
    // One that does not answer is still in its domain; one that is gone is not.
    let mut lost = survey("node1", 120, &[("GPU-a", Some(7))]);
    lost.gpu_survey_marks[0].lost = vec!["GPU-b".into()];
    bench.send(lost).await;
    assert_eq!(domains(&bench).await[0], "7: node1,node2 (2), GPU-a,GPU-b,GPU-c (3)");
    bench.send(survey("node1", 180, &[("GPU-a", Some(7))])).await;
    assert_eq!(domains(&bench).await[0], "7: node1,node2 (2), GPU-a,GPU-c (2)");
}
