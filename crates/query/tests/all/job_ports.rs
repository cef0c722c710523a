//! Ports of the fabric that a job's ranks use: of hosts that read their ports, and of those that only name their adapters.

use crate::batches::{PREFIX, START, entry};
use throughline_query::links::{Ranks, job_ports};
use throughline_sample::wire::{
    Batch, HostPortSample, IbNodeInfo, IbPortInfo, Job, JobRank, Names, NodeInfo,
};
use throughline_store::{Writer, testing};
use uuid::Uuid;

const KEY: &str = "slurm:1";

/// A rank on a host whose adapter has this GUID; `reads` is whether the host reads its ports.
fn node(host: &str, rank: u32, guid: u64, reads: bool, ports: Option<&[&str]>) -> Batch {
    let sample = HostPortSample {
        time: START,
        epoch: START,
        device: "mlx5_0".into(),
        port: 1,
        node_guid: guid,
        source: "sysfs".into(),
        ..HostPortSample::default()
    };
    let ports = ports.map(|ports| Names { name: ports.iter().map(|port| (*port).to_owned()).collect() });
    Batch {
        node: host.into(),
        nodes: vec![NodeInfo { name: host.into(), hca_guids: vec![guid], ..NodeInfo::default() }],
        host_ports: if reads { vec![sample] } else { vec![] },
        jobs: vec![Job {
            key: KEY.into(),
            user: "ada".into(),
            start: START,
            world_size: 3,
            ..Job::default()
        }],
        job_ranks: vec![JobRank {
            job_key: KEY.into(),
            rank,
            start: START,
            host: host.into(),
            hca_ports: ports,
            ..JobRank::default()
        }],
        ..Batch::default()
    }
}

#[tokio::test]
async fn hosts_that_do_not_read_their_ports() {
    let database = testing::database().await;
    let mut writer = Writer::new(database.clone());
    let adapter = |guid: u64| IbNodeInfo {
        guid,
        r#type: "ca".into(),
        ports: (1..=2).map(|port| IbPortInfo { port, ..IbPortInfo::default() }).collect(),
        ..IbNodeInfo::default()
    };
    let fabric = Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_nodes: (1..=3).map(adapter).collect(),
        ..Batch::default()
    };
    let batches = [
        fabric,
        node("n1", 0, 1, true, None),
        node("n2", 1, 2, false, None),
        // It is known to use none.
        node("n3", 2, 3, false, Some(&[])),
    ];
    for (batch, sequence) in batches.into_iter().zip(1..) {
        writer.write(&[entry(Uuid::from_u128(1), sequence, batch)]).await.unwrap();
    }
    let client = database.connect_reader().await.unwrap();
    let job = client.query_one("SELECT id FROM internal.run", &[]).await.unwrap().get(0);
    let expected =
        "SELECT p.id FROM internal.ib_port_key p JOIN internal.ib_node_key k ON k.id = p.ib_node_id
                    WHERE (right(k.guid, 1), p.port) IN (('1', 1), ('2', 1), ('2', 2)) ORDER BY 1";
    let expected: Vec<i64> =
        client.query(expected, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(expected.len(), 3);
    for ranks in [Ranks::Of(job), Ranks::Running] {
        let ports = job_ports(&client, ranks).await.unwrap();
        assert_eq!(ports.iter().map(|port| port.port_id).collect::<Vec<_>>(), expected);
    }
}
