//! Records that can be so and that can't, and the size of what is not decoded yet.

use super::*;
use throughline_sample::Message;
use throughline_sample::wire::*;

const NOW: i64 = 1_790_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

fn stat(time: i64, value: f64) -> SelfStat {
    SelfStat { time, source: "mpi".into(), name: "records".into(), value, ..SelfStat::default() }
}

fn event(text: &str) -> Event {
    Event {
        time: NOW,
        source: "mpi".into(),
        kind: "test".into(),
        severity: "info".into(),
        text: text.into(),
        ..Event::default()
    }
}

fn reasons(verdict: &Verdict) -> Vec<(&'static str, &'static str, u64)> {
    verdict.rejected.iter().map(|one| (one.kind, one.reason.reason(), one.records)).collect()
}

#[test]
fn times_and_numbers_are_judged_one_by_one() {
    let day = 24 * 3600 * SECOND;
    let stats = vec![
        stat(NOW - 6 * day, 1.0),
        stat(NOW - 8 * day, 1.0),
        stat(NOW + 60 * SECOND, 1.0),
        stat(NOW + 200 * SECOND, 1.0),
        stat(i64::MAX, 1.0),
        stat(i64::MIN, 1.0),
        stat(NOW, f64::NAN),
        stat(NOW, f64::INFINITY),
    ];
    let mut batch = Batch { node: "n".into(), self_stats: stats, ..Batch::default() };
    let verdict = judge(&mut batch, AcceptTimes::default(), NOW);
    assert_eq!(batch.self_stats, [stat(NOW - 6 * day, 1.0), stat(NOW + 60 * SECOND, 1.0)]);
    assert_eq!(
        reasons(&verdict),
        [("self_stats", "time_past", 2), ("self_stats", "time_future", 2), ("self_stats", "number", 2)]
    );
    assert_eq!(verdict.oldest, NOW - 6 * day);
    assert!(!verdict.rejected[0].example.is_empty());
}

#[test]
fn names_are_refused_and_texts_cleaned() {
    let bin = |operation: &str| MpiRankBin {
        time: NOW,
        job_key: "slurm:1".into(),
        source: "pmpi".into(),
        cells: vec![MpiOpCell { operation: operation.into(), ..MpiOpCell::default() }],
        ..MpiRankBin::default()
    };
    let mut batch = Batch {
        node: "n".into(),
        mpi_ops: vec![
            bin("bcast"),
            bin(""),
            bin("b\0"),
            bin("\u{202e}b"),
            bin(&"b".repeat(257)),
            bin("größe"),
        ],
        events: vec![event("a\0\u{202e}b"), event(&"x".repeat(5000))],
        ..Batch::default()
    };
    let verdict = judge(&mut batch, AcceptTimes::default(), NOW);
    assert_eq!(reasons(&verdict), [("mpi_ops", "name", 4)]);
    assert_eq!(batch.mpi_ops, [bin("bcast"), bin("größe")]);
    assert_eq!(batch.events[0].text, "a\u{fffd}\u{fffd}b");
    assert_eq!(batch.events[1].text.len(), 2048);
}

#[test]
fn a_node_reports_itself_and_a_crawler_the_fabric() {
    let port = IbPortSample { time: NOW, source: "mad".into(), ..IbPortSample::default() };
    let info = |name: &str| NodeInfo { name: name.into(), ..NodeInfo::default() };
    let rank = |host: &str| JobRank { job_key: "slurm:1".into(), host: host.into(), ..JobRank::default() };
    let all = Batch {
        node: "n1".into(),
        ib_ports: vec![port.clone()],
        ib_port_lanes: vec![IbPortLanesSample { time: NOW, source: "mad".into(), ..Default::default() }],
        ib_nodes: vec![IbNodeInfo::default()],
        ib_topology_marks: vec![IbTopologyMark::default()],
        ib_multicast_tables: vec![IbMulticastTable::default()],
        ib_multicast_groups: vec![IbMulticastGroup { mgid: vec![0xFF; 16], ..Default::default() }],
        ib_multicast_marks: vec![IbMulticastMark::default()],
        nodes: vec![info("n1"), info("n2")],
        job_ranks: vec![rank("n1"), rank("n2"), rank("")],
        events: vec![event("own"), Event { remote_ib_guid: 7, ..event("of a cable") }],
        self_stats: vec![stat(NOW, 1.0)],
        ..Batch::default()
    };
    let mut node = all.clone();
    let verdict = judge(&mut node, AcceptTimes::default(), NOW);
    assert_eq!(
        reasons(&verdict),
        [
            ("nodes", "node", 1),
            ("job_ranks", "job", 1),
            ("ib_nodes", "fabric", 1),
            ("ib_multicast_tables", "fabric", 1),
            ("ib_multicast_groups", "fabric", 1),
            ("ib_multicast_marks", "fabric", 1),
            ("ib_topology_marks", "fabric", 1),
            ("ib_ports", "fabric", 1),
            ("ib_port_lanes", "fabric", 1),
            ("events", "fabric", 1)
        ]
    );
    let mut crawler = Batch { node: String::new(), ..all };
    crawler.events[0].gpu_uuid = "GPU-1".into();
    let verdict = judge(&mut crawler, AcceptTimes::default(), NOW);
    assert_eq!(reasons(&verdict), [("nodes", "node", 2), ("job_ranks", "node", 3), ("events", "gpu", 1)]);
    assert_eq!((crawler.ib_ports.len(), crawler.self_stats.len()), (1, 1));
}

#[test]
fn sizes_are_bounded() {
    let node = |ports: usize, table: usize| IbNodeInfo {
        ports: vec![IbPortInfo::default(); ports],
        linear_forwarding_table: vec![0; table],
        ..IbNodeInfo::default()
    };
    let nodes = vec![node(256, 49_152), node(257, 0), node(0, 49_153)];
    let mut batch = Batch { ib_nodes: nodes, ..Batch::default() };
    assert_eq!(reasons(&judge(&mut batch, AcceptTimes::default(), NOW)), [("ib_nodes", "size", 2)]);
    let mut batch = Batch { ib_nodes: vec![node(256, 0); 300], ..Batch::default() };
    assert_eq!(reasons(&judge(&mut batch, AcceptTimes::default(), NOW)), [("ib_nodes", "size", 44)]);
    let jobs = (0..INVENTORY_MAX + 3).map(|n| Job { key: format!("slurm:{n}"), ..Job::default() }).collect();
    let mut batch = Batch { node: "n".into(), jobs, ..Batch::default() };
    assert_eq!(reasons(&judge(&mut batch, AcceptTimes::default(), NOW)), [("jobs", "size", 3)]);
    assert_eq!(batch.jobs.len(), INVENTORY_MAX);
}

#[test]
fn empty_messages_are_counted_before_they_are_decoded() {
    // 4 MiB of empty events: two bytes each, some 300 in memory.
    let bytes = [0x92, 0x01, 0x00].repeat((4 << 20) / 3);
    let measured = measure(&bytes).unwrap();
    assert_eq!(measured.elements, (4 << 20) / 3);
    assert!(!measured.fits() && measured.bytes > 300 << 20, "{measured:?}");
    // Within a message, too.
    let bin = MpiRankBin { cells: vec![MpiOpCell::default(); 300_000], ..MpiRankBin::default() };
    let bytes = Batch { mpi_ops: vec![bin], ..Batch::default() }.encode_to_vec();
    assert_eq!(measure(&bytes).unwrap().elements, 300_001);
    // A spool's largest entry of a rank's peers is taken.
    let peers = MpiRankPeers {
        cells: (0..200_000).map(|peer| MpiPeerCell { peer, bytes: 9999, messages: 2 }).collect(),
        ..MpiRankPeers::default()
    };
    let bytes = Batch { mpi_peers: vec![peers], ..Batch::default() }.encode_to_vec();
    assert!(bytes.len() > 2 << 20 && measure(&bytes).unwrap().fits());
}

#[test]
fn damaged_bytes_are_no_batch_and_what_is_measured_is_not_too_little() {
    for damaged in [&[0xff; 20][..], &[0x93, 0x01], &[0x92, 0x01, 0x05, 0x00], &[0x80; 11]] {
        assert_eq!(measure(damaged), None, "{damaged:?}");
    }
    let values = Values { metric: (0..40).collect(), value: vec![1 << 60; 40] };
    let names = Names { name: vec!["mlx5_0/1".into(); 5] };
    let batch = Batch {
        node: "n".into(),
        host_ports: vec![HostPortSample { values: Some(values), ..Default::default() }; 3],
        job_ranks: vec![JobRank { hca_ports: Some(names), numa_nodes: vec![1; 9], ..Default::default() }],
        coverage: vec![Coverage { reasons: [("timeout".to_owned(), 3)].into(), ..Default::default() }],
        ..Batch::default()
    };
    let measured = measure(&batch.encode_to_vec()).unwrap();
    // Messages 3 + 3 (values) + 240 numbers + rank, names and 5 texts, 9 numbers + coverage with a reason.
    assert_eq!(measured.elements, 6 + 240 + 7 + 9 + 2);
    let texts = 5 * (24 + 8) + 7;
    assert!(measured.bytes > 3 * (std::mem::size_of::<HostPortSample>() + 40 * 12) + texts);
}
