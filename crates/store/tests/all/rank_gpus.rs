//! Jobs on one node of eight GPUs: each has its own GPUs, by what evidence, with the nearest port and the switch behind it.

use crate::batches::{PREFIX, SECOND, START, entry};
use throughline_sample::wire::*;
use throughline_store::{Entry, NodeLimits, Sender, Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

const KEYS: [&str; 4] = ["slurm:1.0@1000", "slurm:2.0@1000", "slurm:3.0@1000", "slurm:4.0@1000"];

/// GPUs 0 to 7 of a node with an adapter to each two; GPU 7 has two partitions.
fn node() -> Batch {
    let whole = |index: u32| GpuInfo {
        uuid: format!("GPU-{index}"),
        index,
        name: "H200".into(),
        pci_bus_id: format!("0000:0{index}:00.0"),
        source: "nvml".into(),
        link_count: 18,
        numa_node: Some(index / 4),
        nearest_hcas: vec![format!("mlx5_{}", index / 2)],
        ..GpuInfo::default()
    };
    let part = |index: u32| GpuInfo {
        uuid: format!("MIG-{index}"),
        index,
        name: "H200 MIG 3g.71gb".into(),
        parent_uuid: "GPU-7".into(),
        link_count: 0,
        ..whole(7)
    };
    let ports = (0..4_u32).map(|adapter| HostPortSample {
        time: START,
        epoch: START,
        source: "sysfs".into(),
        device: format!("mlx5_{adapter}"),
        port: 1,
        node_guid: 0x10 + u64::from(adapter),
        port_guid: 0x1010 + u64::from(adapter),
        ..HostPortSample::default()
    });
    Batch {
        node: "n1".into(),
        gpus: (0..8).map(whole).chain((0..2).map(part)).collect(),
        host_ports: ports.collect(),
        ..Batch::default()
    }
}

fn fabric() -> Batch {
    let port = |number: u32, guid: u64, remote: (u64, u32)| IbPortInfo {
        port: number,
        port_guid: guid,
        lid: 7,
        remote_guid: Some(remote.0),
        remote_port: Some(remote.1),
        ..IbPortInfo::default()
    };
    let node = |guid: u64, kind: &str, ports: Vec<IbPortInfo>| IbNodeInfo {
        generation: START,
        guid,
        r#type: kind.into(),
        description: format!("{kind} {guid:x}"),
        ports,
        ..IbNodeInfo::default()
    };
    let leaf = (0..4).map(|at| port(5 + at, 0, (0x10 + u64::from(at), 1))).collect();
    let adapter = |at: u32| {
        let guid = 0x10 + u64::from(at);
        node(guid, "ca", vec![port(1, 0x1000 + guid, (0x99, 5 + at))])
    };
    Batch {
        fabric: testing::fabric(PREFIX),
        ib_nodes: (0..4).map(adapter).chain([node(0x99, "switch", leaf)]).collect(),
        ..Batch::default()
    }
}

fn at(seconds: i64) -> i64 {
    START + seconds * SECOND
}

fn on(gpu: u32, partition: &str, evidence: &str) -> RankGpu {
    RankGpu {
        gpu_uuid: format!("GPU-{gpu}"),
        partition_uuid: partition.into(),
        evidence: evidence.into(),
        minor: Some(gpu),
        first_seen: at(2),
        nearest_distance: "switch".into(),
        ..RankGpu::default()
    }
}

fn rank(job: usize, rank: u32, evidence: &str, gpus: Vec<RankGpu>) -> JobRank {
    JobRank {
        job_key: KEYS[job].into(),
        rank,
        pid: 100,
        world_size: 2,
        start: START,
        host: "n1".into(),
        gpu_evidence: evidence.into(),
        gpus,
        ..JobRank::default()
    }
}

fn jobs(job_ranks: Vec<JobRank>) -> Batch {
    let job = |key: &str| Job { key: key.into(), uid: 1000, start: START, seen: at(3), ..Job::default() };
    Batch { node: "n1".into(), jobs: KEYS.map(job).to_vec(), job_ranks, ..Batch::default() }
}

async fn texts(client: &Client, query: &str) -> Vec<String> {
    client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Job and rank, GPU and partition, evidence; the way to the switch.
const WAYS: &str = "
    SELECT left(native_id, 1) || '.' || g.rank || ' ' || coalesce('GPU ' || gpu_index || coalesce(' part ' || partition_index, ''), 'none')
           || ' ' || coalesce(g.evidence, '-') || ' ' || g.is_own || ' ' || coalesce(g.gpu_evidence, 'unknown')
           || coalesce(' ' || minor, '') || coalesce(' ' || nearest_distance || ' ' || device || '/' || port, '')
           || CASE WHEN is_shared THEN ' shared' ELSE '' END || coalesce(' ' || has_queue_pairs, '') || coalesce(' ' || remote_description || '[' || remote_port || ']', '')
    FROM internal.job_rank_gpus g JOIN (SELECT id, substr(key, 7) AS native_id FROM internal.run) j ON j.id = g.job_id
    ORDER BY 1";

#[tokio::test]
async fn each_job_of_a_node_has_its_own_gpus() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let (spool, mut writer) = (Uuid::new_v4(), Writer::new(database.clone()));
    let ports = |names: &[&str]| Some(Names { name: names.iter().map(|name| (*name).into()).collect() });
    let first = vec![
        JobRank {
            hca_ports: ports(&["mlx5_0/1"]),
            ..rank(0, 0, "driver", vec![on(0, "", "driver"), on(0, "", "device")])
        },
        JobRank {
            hca_ports: ports(&["mlx5_3/1"]),
            ..rank(0, 1, "driver", vec![RankGpu { has_others: true, ..on(1, "", "driver") }])
        },
        rank(1, 0, "driver", vec![on(7, "MIG-1", "driver"), on(7, "", "device"), on(7, "MIG-1", "visible")]),
        rank(2, 0, "driver", vec![]),
        // Of this one the driver lists nothing, and of the other nothing is known.
        rank(3, 0, "device", vec![on(4, "", "device")]),
        rank(3, 1, "", vec![on(5, "", "visible")]),
    ];
    let batches = [node(), fabric(), jobs(first.clone())];
    let entries: Vec<_> = batches.into_iter().zip(1..).map(|(batch, at)| entry(spool, at, batch)).collect();
    for one in &entries {
        assert_eq!(writer.write(std::slice::from_ref(one)).await.unwrap().quarantined, 0);
    }
    assert_eq!(
        texts(&client, WAYS).await,
        [
            "1.0 GPU 0 driver true driver 0 switch mlx5_0/1 true switch 99[5]",
            "1.1 GPU 1 driver true driver 1 switch mlx5_0/1 shared false switch 99[5]",
            "2.0 GPU 7 part 1 driver true driver 7 switch mlx5_3/1 shared switch 99[8]",
            "3.0 none - false driver",
            "4.0 GPU 4 device true device 4 switch mlx5_2/1 switch 99[7]",
            "4.1 GPU 5 visible false unknown 5 switch mlx5_2/1 switch 99[7]",
        ]
    );
    // What a rank has used, for those who ask no more.
    let used = "SELECT job_id || '.' || rank || ' ' || coalesce(gpu_uuids::text, '-') FROM internal.job_rank ORDER BY 1";
    assert_eq!(
        texts(&client, used).await,
        ["1.0 {GPU-0}", "1.1 {GPU-1}", "2.0 {MIG-1}", "3.0 {}", "4.0 -", "4.1 -"]
    );
    // It goes on to another GPU; a beginning that arrives once more takes nothing back; then it ends.
    let mut moved = first[1].clone();
    moved.gpus[0].last_seen = at(60);
    moved.gpus.push(RankGpu { first_seen: at(90), ..on(2, "", "driver") });
    let ended = JobRank { end: at(100), ending: "clean".into(), ..moved.clone() };
    let again = vec![moved, JobRank { gpus: vec![], gpu_evidence: String::new(), ..first[0].clone() }];
    for (number, ranks) in (4..).zip([again, vec![ended]]) {
        writer.write(&[entry(spool, number, jobs(ranks))]).await.unwrap();
    }
    let times = format!(
        "SELECT rank || ' ' || gpu_uuid || ' ' || extract(epoch FROM first_seen)::bigint - {start} || ' ' ||
                coalesce((extract(epoch FROM last_seen)::bigint - {start})::text, '-')
         FROM internal.job_rank_gpus WHERE job_key = 'slurm:1.0@1000' ORDER BY rank, first_seen",
        start = START / SECOND
    );
    assert_eq!(texts(&client, &times).await, ["0 GPU-0 2 -", "1 GPU-1 2 60", "1 GPU-2 90 100"]);
}

#[tokio::test]
async fn gpus_beyond_those_that_a_node_may_have_leave_it_open_which_a_rank_uses() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let limits = NodeLimits { gpus_max: 1, ..NodeLimits::default() };
    let mut writer = Writer::new(database.clone()).with_node_limits(limits);
    let gpus: Vec<RankGpu> = (0..9).map(|gpu| on(gpu, "", "driver")).collect();
    let sender = Sender { owners: ["node:n1".to_owned()].into(), ..Sender::default() };
    let report = entry(Uuid::new_v4(), 1, jobs(vec![rank(0, 0, "driver", gpus)]));
    writer.write(&[Entry { sender, ..report }]).await.unwrap();
    let known = "SELECT coalesce(gpu_evidence, '-') || ' ' || count(*) FROM internal.job_rank_gpus GROUP BY gpu_evidence";
    assert_eq!(texts(&client, known).await, ["- 8"]);
}
