//! Jobs on a node of eight GPUs, one of them divided: each rank has its own GPU in records and on the page.

use crate::bench::Node;
use crate::gpu::with_places;
use crate::ranks::{Rank, ranks};
use std::path::Path;

#[test]
fn each_job_of_a_node_has_its_own_gpus() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("scenario");
    let hgx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/scenarios/hgx-h200.scenario");
    let parts = "part 7 0 uuid=MIG-a name=H200_MIG_3g.71gb gi=1 ci=0\npart 7 1 uuid=MIG-b name=H200_MIG_3g.71gb gi=2 ci=0\n";
    std::fs::write(&scenario, format!("include {}\n{parts}include processes\n", hgx.display())).unwrap();
    std::fs::write(folder.path().join("processes"), "").unwrap();
    let node = with_places(Node::bare().with_gpus("hgx-h200"))
        .with_variable("THROUGHLINE_NVML_SCENARIO", scenario.to_str().unwrap());
    let jobs = ["1", "2", "3"].map(|job| Rank::of_job(&node, job));
    let [whole, part, none] = &jobs;
    let processes =
        format!("process 2-3 {}\nprocess 7 {} 2 0\nprocess 5 999999\n", whole.0.id(), part.0.id());
    std::fs::write(folder.path().join("processes"), processes).unwrap();
    let mut agent = node.run();
    agent.wait_for(&["throughline_connected_ranks{source=\"mpi\"} 3", "throughline_rank_gpu_info{"]);
    let shown = agent.metrics();
    let pids = [whole.0.id(), part.0.id(), none.0.id()];
    jobs.into_iter().for_each(|rank| _ = rank.end());
    agent.wait_for(&["throughline_running_jobs{source=\"mpi\"} 0"]);
    agent.wait_without("throughline_rank_gpu_info{");
    assert!(agent.stop().0.success());
    let batches = node.spooled();
    let uuids: Vec<_> = batches.iter().flat_map(|batch| &batch.gpus).collect();
    let uuid =
        |index: u32| &uuids.iter().find(|gpu| gpu.index == index && gpu.parent_uuid.is_empty()).unwrap().uuid;
    let all = ranks(&batches);
    let end = |pid: u32| *all.iter().find(|rank| rank.pid == pid && rank.end != 0).unwrap();
    let used = |pid: u32| -> Vec<String> {
        let row = |gpu: &throughline_sample::wire::RankGpu| {
            let place = uuids.iter().position(|one| one.uuid == gpu.gpu_uuid).map(|at| uuids[at].index);
            let (partition, distance) = (&gpu.partition_uuid, &gpu.nearest_distance);
            format!("{} {partition} {} {:?} {distance}", place.unwrap(), gpu.evidence, gpu.minor)
        };
        end(pid).gpus.iter().map(row).collect()
    };
    assert_eq!(used(pids[0]), ["2  driver Some(2) switch", "3  driver Some(3) switch"]);
    assert_eq!(used(pids[1]), ["7 MIG-b driver Some(7) switch"]);
    assert_eq!((used(pids[2]).len(), end(pids[2]).gpu_evidence.as_str()), (0, "driver"), "it has none");
    let lines: Vec<&str> =
        shown.lines().filter(|line| line.starts_with("throughline_rank_gpu_info{")).collect();
    let of = |pid: u32| -> Vec<&str> {
        let key = format!("job_key=\"{}\"", end(pid).job_key);
        lines.iter().copied().filter(|line| line.contains(&key)).collect()
    };
    assert_eq!((of(pids[0]).len(), of(pids[1]).len(), of(pids[2]).len(), lines.len()), (2, 1, 0, 3));
    let is_on = |line: &str, gpu: u32, partition: &str| {
        line.contains(&format!("gpu=\"{}\",partition=\"{partition}\",evidence=\"driver\"", uuid(gpu)))
    };
    assert!(is_on(of(pids[0])[0], 2, "") && is_on(of(pids[0])[1], 3, ""), "{shown}");
    assert!(is_on(of(pids[1])[0], 7, "MIG-b"), "{shown}");
}
