//! What the sender of a fabric may send, and what it may not.

use crate::maker::*;
use crate::site::*;
use throughline_sample::wire::*;

pub fn crawler_entry(random: &mut Random, ledger: &mut Ledger, number: u64, base: i64) -> Vec<u8> {
    let mut entry = Entry { records: Vec::new(), ledger };
    let e = &mut entry;
    let mut t = base;
    let port =
        |time| IbPortSample { time, node_guid: 0x50, port: 1, source: "mad".into(), ..Default::default() };
    let lanes = |time| IbPortLanesSample {
        time,
        node_guid: 0x50,
        port: 1,
        source: "mad".into(),
        ..Default::default()
    };
    let round = |time| Coverage { time, source: "mad".into(), ..Default::default() };
    timed!(
        e,
        random,
        t,
        ib_ports,
        "ib_port_counters",
        port,
        [
            |r: &mut IbPortSample, _: &mut Random| r.port = u32::MAX,
            |r: &mut IbPortSample, _: &mut Random| r.epoch = i64::MIN,
        ]
    );
    timed!(
        e,
        random,
        t,
        ib_port_lanes,
        "ib_port_lane_counters",
        lanes,
        [
            |r: &mut IbPortLanesSample, _: &mut Random| r.lanes = vec![LinkValues { link: 99, values: None }],
            |r: &mut IbPortLanesSample, x: &mut Random| r.source = bad_name(x),
        ]
    );
    timed!(
        e,
        random,
        t,
        coverage,
        "coverage",
        round,
        [|r: &mut Coverage, _: &mut Random| r.elapsed_seconds = f64::NAN,]
    );
    let guid = 0x100 + number;
    let node = IbNodeInfo { generation: base, guid, r#type: "switch".into(), ..IbNodeInfo::default() };
    e.valid("ib_node", format!("{guid:#018x}"), Batch { ib_nodes: vec![node.clone()], ..Batch::default() });
    let lid = IbNodeInfo { guid: 0x99, lid: u32::MAX, ..node.clone() };
    e.invalid(Batch { ib_nodes: vec![lid], ..Batch::default() });
    let table = IbNodeInfo { guid: 0x99, linear_forwarding_table: vec![0; 50_000], ..node };
    e.invalid(Batch { ib_nodes: vec![table], ..Batch::default() });
    let far = IbTopologyMark { generation: i64::MAX, time: i64::MAX, ..IbTopologyMark::default() };
    e.invalid(Batch { ib_topology_marks: vec![far], ..Batch::default() });
    // Nodes, GPUs and jobs are no crawler's.
    e.invalid(Batch { mpi_ops: vec![bin("slurm:1@1000", 0, t)], ..Batch::default() });
    e.invalid(Batch { jobs: vec![job("slurm:3@1000", 1, "cgroup")], ..Batch::default() });
    e.invalid(Batch {
        events: vec![Event { gpu_uuid: "GPU-2".into(), ..event(t, "x") }],
        ..Batch::default()
    });
    finish(random, entry, Batch { fabric: throughline_store::testing::fabric(PREFIX), ..Batch::default() })
}
