//! GPUs of ranks as a series, so that other series can be had of a job's own GPUs.

use super::*;
use throughline_sample::wire::{Job, JobRank, RankGpu};

const INFO: &str = "throughline_rank_gpu_info";

#[tokio::test]
async fn each_job_has_a_series_for_each_of_its_gpus_while_it_uses_them() {
    let database = seeded().await;
    let at = |seconds: i64| (START + seconds) * SECOND;
    let gpu = |partition: &str, evidence: &str, last: i64| RankGpu {
        gpu_uuid: "GPU-a".into(),
        partition_uuid: partition.into(),
        evidence: evidence.into(),
        first_seen: at(0),
        last_seen: last,
        ..RankGpu::default()
    };
    let rank = |job: &str, gpus: Vec<RankGpu>| JobRank {
        job_key: job.into(),
        pid: 1,
        world_size: 1,
        start: at(0),
        host: "n1".into(),
        gpu_evidence: "driver".into(),
        gpus,
        ..JobRank::default()
    };
    let keys = ["slurm:1.0@1000", "slurm:2.0@1000", "slurm:3.0@1000"];
    let ranks = vec![
        rank(keys[0], vec![gpu("", "driver", 0), gpu("", "device", 0)]),
        rank(keys[1], vec![gpu("MIG-1", "driver", at(60)), gpu("", "visible", 0)]),
        rank(keys[2], vec![gpu("", "visible", 0)]),
    ];
    let jobs = keys.map(|key| Job { key: key.into(), uid: 1000, start: at(0), ..Job::default() });
    let batch = Batch { node: "n1".into(), jobs: jobs.to_vec(), job_ranks: ranks, ..Batch::default() };
    let entry = Entry {
        spool_id: uuid::Uuid::from_u128(2),
        sequence: 1,
        content: Content::Batch(batch),
        sender: Sender::default(),
    };
    assert_eq!(Writer::new(database.clone()).write(&[entry]).await.unwrap().quarantined, 0);
    let reader = Arc::new(Reader::new(database, Limits::default()));
    let of_job = |key: &str| query(&[(MatchType::Equal, NAME, INFO), (MatchType::Equal, "job_key", key)], "");
    let series = answers(&reader, keys.iter().map(|key| of_job(key)).collect(), ResponseType::Samples).await;
    let points = |series: &[(String, Points)]| {
        let real = |(labels, points): &(String, Points)| {
            (labels.clone(), points.iter().filter(|(_, value)| *value == 1.0).count())
        };
        series.iter().map(real).collect::<Vec<_>>()
    };
    let labels = |key: &str, partition: &str| {
        format!("{NAME}={INFO},evidence=driver,gpu=GPU-a,instance=n1,job_key={key},{partition}rank=0")
    };
    assert_eq!(points(&series[0]), [(labels(keys[0], ""), 3)], "each minute of two");
    assert_eq!(points(&series[1]).first().map(|one| &one.0), Some(&labels(keys[1], "partition=MIG-1,")));
    assert!(points(&series[1])[0].1 < 3, "it went on to none after a minute: {:?}", series[1]);
    assert_eq!(series[2], [], "what a rank only may use is none of its own");
}
