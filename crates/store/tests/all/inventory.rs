//! Inventory with validity ranges, and the views that people read.

mod gpu_surveys;
mod lost_gpus;
mod moved_gpus;
mod multicast;
mod nvlink_domains;

use crate::batches::{PREFIX, SECOND, START, SWITCH, batch_of_everything, entry, port_sample, values};
use throughline_sample::Guid;
use throughline_sample::catalogue::*;
use throughline_sample::wire::*;
use throughline_store::{Writer, testing};
use tokio_postgres::Client;
use uuid::Uuid;

/// A spool and its writer, with a connection to look at what came of it.
struct Bench {
    client: Client,
    writer: Writer,
    spool: Uuid,
    sequence: u64,
}

impl Bench {
    async fn new() -> Self {
        let database = testing::database().await;
        let client = database.connect().await.unwrap();
        Self { client, writer: Writer::new(database), spool: Uuid::new_v4(), sequence: 0 }
    }

    async fn send(&mut self, batch: Batch) {
        self.sequence += 1;
        let outcome = self.writer.write(&[entry(self.spool, self.sequence, batch)]).await.unwrap();
        assert_eq!((outcome.quarantined, outcome.duplicates), (0, 0));
    }

    async fn number(&self, query: &str) -> i64 {
        self.client.query_one(&format!("SELECT ({query})::bigint"), &[]).await.unwrap().get(0)
    }

    async fn texts(&self, query: &str) -> Vec<String> {
        self.client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

const HOST: u64 = 0x1000;

/// A fabric of one switch and hosts on its ports from 1 on, as found at `generation` seconds.
fn fabric(generation: i64, hosts: u64) -> Batch {
    let at = START + generation * SECOND;
    let port = |number: u32, remote: Option<(u64, u32)>| IbPortInfo {
        port: number,
        port_guid: 1,
        lid: number,
        state: if remote.is_some() { "Active" } else { "Down" }.to_owned(),
        width: "4X".to_owned(),
        speed: "EDR".to_owned(),
        rate_bytes_per_second: if remote.is_some() { 12_500_000_000 } else { 0 },
        remote_guid: remote.map(|(guid, _)| guid),
        remote_port: remote.map(|(_, number)| number),
        lmc: remote.filter(|(guid, _)| *guid == SWITCH).map(|_| 0),
        ..IbPortInfo::default()
    };
    let node = |guid: u64, kind: &str, description: &str, ports| IbNodeInfo {
        generation: at,
        guid,
        r#type: kind.to_owned(),
        description: description.to_owned(),
        ports,
        ..IbNodeInfo::default()
    };
    let ports =
        (1..=4_u32).map(|n| port(n, (u64::from(n) <= hosts).then(|| (HOST + u64::from(n), 1)))).collect();
    let mut nodes = vec![node(SWITCH, "switch", "leaf1", ports)];
    nodes[0].linear_forwarding_table = vec![255, u8::try_from(hosts).unwrap()];
    for n in 1..=hosts {
        let up = Some((SWITCH, u32::try_from(n).unwrap()));
        nodes.push(node(HOST + n, "ca", &format!("host{n}"), vec![port(1, up)]));
    }
    let mark = IbTopologyMark { generation: at, time: at + SECOND, nodes: 0, links: 0 };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_nodes: nodes,
        ib_topology_marks: vec![mark],
        ..Batch::default()
    }
}

#[tokio::test]
async fn a_discovery_that_finds_the_same_adds_nothing() {
    let mut bench = Bench::new().await;
    for generation in [0, 60, 120] {
        bench.send(fabric(generation, 2)).await;
    }
    for (table, rows) in [("ib_node", 3), ("ib_port", 6), ("ib_link", 2), ("ib_lft", 1)] {
        assert_eq!(bench.number(&format!("SELECT count(*) FROM internal.{table}")).await, rows, "{table}");
        assert_eq!(
            bench.number(&format!("SELECT count(*) FROM internal.{table} WHERE valid_to IS NOT NULL")).await,
            0
        );
    }
    let names = bench.texts("SELECT link_name FROM public.ib_port_named ORDER BY guid, port").await;
    let expected = [
        "host1[1] > leaf1[1]",
        "host2[1] > leaf1[2]",
        "leaf1[1] > host1[1]",
        "leaf1[2] > host2[1]",
        "leaf1[3]",
        "leaf1[4]",
    ];
    assert_eq!(names, expected);
    assert_eq!(bench.texts("SELECT name FROM public.ib_link_named ORDER BY 1").await.len(), 2);
}

#[tokio::test]
async fn what_changed_and_what_is_gone_ends_and_history_stays() {
    let mut bench = Bench::new().await;
    bench.send(fabric(0, 3)).await;
    bench.send(fabric(60, 2)).await; // host3 is gone
    let current = |table: &str| format!("SELECT count(*) FROM internal.{table} WHERE valid_to IS NULL");
    for (table, rows) in [("ib_node", 3), ("ib_port", 6), ("ib_link", 2), ("ib_lft", 1)] {
        assert_eq!(bench.number(&current(table)).await, rows, "{table}");
    }
    // Port 3 of the switch has two rows: with a cable, and without.
    let ranges = bench
        .texts(
            "SELECT state || ' ' || extract(epoch FROM p.valid_from - min(p.valid_from) OVER ())::integer || ' ' || \
             coalesce(extract(epoch FROM p.valid_to - p.valid_from)::integer::text, 'now') \
             FROM internal.ib_port p JOIN internal.ib_node n ON n.ib_node_id = p.ib_node_id AND n.type = 'switch' \
             WHERE p.port = 3 ORDER BY p.valid_from",
        )
        .await;
    assert_eq!(ranges, ["Active 0 60", "Down 60 now"]);
    // It comes back, and the same port keeps its identifier.
    bench.send(fabric(120, 3)).await;
    assert_eq!(bench.number(&current("ib_link")).await, 3);
    assert_eq!(bench.number("SELECT count(*) FROM internal.ib_port_key").await, 7);
    assert_eq!(bench.number("SELECT count(*) FROM internal.ib_lft").await, 3);
}

#[tokio::test]
async fn minutes_have_the_names_of_their_time() {
    let mut bench = Bench::new().await;
    bench.send(fabric(0, 3)).await;
    let mut renamed = fabric(600, 3);
    renamed.ib_nodes[0].description = "leaf9".to_owned();
    bench.send(renamed).await;
    bench.send(fabric(1200, 2)).await; // host3 is gone, and the switch has its first name
    let minutes = format!(
        "INSERT INTO internal.ib_port_minutes (time, port_id, epoch, seconds)
         SELECT to_timestamp({}) + at * INTERVAL '1 second', k.id, now(), 60
         FROM unnest(ARRAY[-60, 300, 900, 1260]) at, internal.ib_port_key k JOIN internal.ib_node_key n ON n.id = k.ib_node_id
         WHERE n.guid = '{}'",
        START / SECOND,
        Guid(HOST + 3)
    );
    bench.client.batch_execute(&minutes).await.unwrap();
    let names = "SELECT link_name || ' ' || node_type FROM internal.ib_port_minutes_named ORDER BY time";
    let expected = ["host3[1] ca", "host3[1] > leaf1[3] ca", "host3[1] > leaf9[3] ca", "host3[1] ca"];
    assert_eq!(bench.texts(names).await, expected);
}

#[tokio::test]
async fn how_a_switch_routes_has_a_history_and_stays_where_a_record_does_not_say_it() {
    let mut bench = Bench::new().await;
    let routing = |generation: i64, routing: Option<&str>| {
        let mut batch = fabric(generation, 1);
        batch.ib_nodes[0].routing = routing.map(str::to_owned);
        batch
    };
    // Not known; reported; a walk that did not read it; another kind; a word of a later version; both in one batch.
    for (at, kind) in
        [(0, None), (60, Some("adaptive")), (120, None), (180, Some("static")), (240, Some("?"))]
    {
        bench.send(routing(at, kind)).await;
    }
    let mut both = routing(300, Some("adaptive"));
    let later = routing(360, None);
    both.ib_nodes.extend(later.ib_nodes);
    both.ib_topology_marks = later.ib_topology_marks;
    bench.send(both).await;
    let ranges = bench
        .texts(
            "SELECT coalesce(routing, 'not reported') || ' ' || \
             extract(epoch FROM valid_from - min(valid_from) OVER ())::integer || ' ' || \
             coalesce(extract(epoch FROM valid_to - valid_from)::integer::text, 'now') \
             FROM internal.ib_node WHERE type = 'switch' ORDER BY valid_from",
        )
        .await;
    assert_eq!(ranges, ["not reported 0 60", "adaptive 60 120", "static 180 180", "adaptive 360 now"]);
    assert_eq!(
        bench.number("SELECT count(*) FROM internal.ib_node WHERE type = 'ca' AND routing IS NOT NULL").await,
        0
    );
    // End ports say how many LIDs they have; ports of switches have none of their own.
    let lmc =
        "SELECT count(*) FROM internal.ib_port p JOIN internal.ib_node n USING (ib_node_id) WHERE n.type = ";
    assert_eq!(bench.number(&format!("{lmc}'ca' AND n.valid_to IS NULL AND p.lmc = 0")).await, 1);
    assert_eq!(bench.number(&format!("{lmc}'switch' AND p.lmc IS NOT NULL")).await, 0);
}

#[tokio::test]
async fn a_late_message_does_not_undo_the_present() {
    let mut bench = Bench::new().await;
    bench.send(fabric(60, 2)).await;
    bench.send(fabric(0, 3)).await;
    let down = "SELECT count(*) FROM internal.ib_port WHERE valid_to IS NULL AND state = 'Down'";
    assert_eq!(bench.number(down).await, 2);
    let names = "SELECT description FROM internal.ib_node WHERE valid_to IS NULL AND type = 'switch'";
    assert_eq!(bench.texts(names).await, ["leaf1"]);
}

#[tokio::test]
async fn a_cable_put_elsewhere_ends_the_old_link() {
    let mut bench = Bench::new().await;
    bench.send(fabric(0, 2)).await;
    let mut moved = fabric(60, 2);
    moved.ib_nodes[0].ports[0].remote_guid = Some(HOST + 2);
    moved.ib_nodes[0].ports[1].remote_guid = Some(HOST + 1);
    moved.ib_nodes[1].ports[0].remote_port = Some(2);
    moved.ib_nodes[2].ports[0].remote_port = Some(1);
    bench.send(moved).await;
    let names =
        bench.texts("SELECT link_name FROM public.ib_port_named WHERE node_type = 'ca' ORDER BY 1").await;
    assert_eq!(names, ["host1[1] > leaf1[2]", "host2[1] > leaf1[1]"]);
    assert_eq!(bench.number("SELECT count(*) FROM internal.ib_link").await, 4);
    assert_eq!(bench.number("SELECT count(*) FROM internal.ib_link WHERE valid_to IS NULL").await, 2);
}

#[tokio::test]
async fn a_job_and_its_ranks_end() {
    let mut bench = Bench::new().await;
    bench.send(batch_of_everything()).await;
    let mut end = Batch { node: "node2".to_owned(), ..Batch::default() };
    let all = batch_of_everything();
    let job = Job { end: START + 9 * SECOND, user: String::new(), ..all.jobs[0].clone() };
    let rank = JobRank { end: START + 8 * SECOND, ending: "clean".to_owned(), ..all.job_ranks[0].clone() };
    end.jobs = vec![all.jobs[0].clone(), job];
    end.job_ranks = vec![all.job_ranks[0].clone(), rank];
    bench.send(end).await;
    let texts = bench
        .texts("SELECT j.user_name || ' ' || (j.end_time - j.start_time) || ' ' || r.ending FROM internal.run j JOIN internal.job_rank r ON r.job_id = j.id")
        .await;
    assert_eq!(texts, ["ada 00:00:08 clean"]);
    // A late word of the beginning does not make it run again.
    let start = Batch { jobs: all.jobs.clone(), job_ranks: all.job_ranks.clone(), ..all };
    bench
        .send(Batch { jobs: start.jobs, job_ranks: start.job_ranks, node: start.node, ..Batch::default() })
        .await;
    assert_eq!(bench.number("SELECT count(*) FROM internal.run WHERE end_time IS NOT NULL").await, 1);
    assert_eq!(bench.number("SELECT count(*) FROM internal.job_rank WHERE ending = 'clean'").await, 1);
}

#[tokio::test]
async fn rates_stay_within_an_epoch_and_unfold_the_wrap() {
    let mut bench = Bench::new().await;
    bench.send(fabric(0, 2)).await;
    let top = u64::MAX >> 1;
    let sample = |seconds, epoch, bytes| {
        let pairs = [(&TRANSMIT_DATA_BYTES, bytes), (&PORT_RATE_BYTES_PER_SECOND, 1000)];
        port_sample(1, seconds, epoch, &pairs)
    };
    let samples = vec![sample(10, 0, top - 999), sample(12, 0, 1000), sample(14, 13, 5), sample(15, 13, 905)];
    bench
        .send(Batch {
            fabric: throughline_store::testing::fabric(PREFIX),
            ib_ports: samples,
            ..Batch::default()
        })
        .await;
    let rows = bench
        .client
        .query(
            "SELECT link_name, interval_seconds, transmit_bytes_per_second, transmit_utilisation, \
             receive_bytes_per_second FROM public.ib_port_rates('2026-01-01', '2027-01-01') ORDER BY time",
            &[],
        )
        .await
        .unwrap();
    let rows: Vec<(&str, f64, f64, f64, Option<f64>)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))).collect();
    assert_eq!(
        rows,
        [("leaf1[1] > host1[1]", 2.0, 1000.0, 1.0, None), ("leaf1[1] > host1[1]", 1.0, 900.0, 0.9, None),]
    );
}

#[tokio::test]
async fn the_schema_of_inams_paper_shows_our_rows() {
    let mut bench = Bench::new().await;
    bench.send(batch_of_everything()).await;
    let mut later = batch_of_everything();
    later.gpu_links[0].time += 2 * SECOND;
    later.gpu_links[0].links[1].values =
        values(&[(&NVLINK_TRANSMIT_BYTES, 2100), (&NVLINK_RECEIVE_BYTES, 200)]);
    later.mpi_peers[0].time += 2 * SECOND;
    later.mpi_peers[0].cells[0].bytes += 2048;
    let mut back = later.mpi_peers[0].clone();
    (back.rank, back.cells) = (3, vec![MpiPeerCell { peer: 2, bytes: 7, messages: 1 }]);
    let mpi_peers = vec![later.mpi_peers[0].clone(), back];
    bench.send(Batch { node: later.node, gpu_links: later.gpu_links, mpi_peers, ..Batch::default() }).await;
    let topology = bench
        .client
        .query_one("SELECT node_name, physical_link_count, link_capacity, source, destination_id FROM public.intra_node_topo", &[])
        .await
        .unwrap();
    assert_eq!(topology.get::<_, &str>(0), "node1");
    assert_eq!(topology.get::<_, i64>(1), 1);
    assert_eq!(topology.get::<_, i64>(2), 25_000_000_000);
    assert_eq!(topology.get::<_, &str>(3), "H200 0");
    assert_eq!(topology.get::<_, i32>(4), 1);
    let link = bench
        .client
        .query_one("SELECT source_name, dest_name, dest_port, data_sent, data_sent_rate, data_recv_rate FROM public.nvlink_metrics_between('2026-01-01', '2027-01-01') \
                    WHERE link_id = 0 AND data_sent_rate IS NOT NULL", &[])
        .await
        .unwrap();
    assert_eq!(
        (link.get::<_, &str>(0), link.get::<_, &str>(1), link.get::<_, i32>(2)),
        ("H200 0", "H200 1", 1)
    );
    assert_eq!((link.get::<_, i64>(3), link.get::<_, f64>(4), link.get::<_, f64>(5)), (2100, 1000.0, 0.0));
    let pvar = bench
        .client
        .query_one("SELECT source_global_rank, dest_global_rank, data_sent, data_sent_rate, data_recv, source_rank, node_name \
                    FROM public.pvar_table WHERE source_global_rank = 2 AND data_sent_rate IS NOT NULL", &[])
        .await
        .unwrap();
    assert_eq!((pvar.get::<_, i32>(0), pvar.get::<_, i32>(1)), (2, 3));
    assert_eq!(
        (pvar.get::<_, i64>(2), pvar.get::<_, f64>(3), pvar.get::<_, i64>(4)),
        (81920 + 2048, 1024.0, 7)
    );
    assert_eq!((pvar.get::<_, i64>(5), pvar.get::<_, &str>(6)), (0, "node1"));
}

/// Times, bytes and the algorithm of all rows of `pvar_table` of a rank.
async fn pvar_rows(client: &tokio_postgres::Client, rank: i32) -> Vec<PvarRow> {
    let sql = "SELECT extract(epoch FROM added_on - min(added_on) OVER ())::integer, data_sent, data_recv, \
                      data_recv_rate, algorithm, algorithm_source \
               FROM public.pvar_table WHERE source_global_rank = $1 ORDER BY added_on";
    let rows = client.query(sql, &[&rank]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4), row.get(5))).collect()
}

type PvarRow = (i32, Option<i64>, Option<i64>, Option<f64>, Option<String>, Option<String>);

#[tokio::test]
async fn inams_table_has_what_both_ranks_sent_and_the_algorithms_of_the_time_between() {
    for is_whole in [false, true] {
        check_inams_table(is_whole).await;
    }
}

async fn check_inams_table(is_whole: bool) {
    let mut bench = Bench::new().await;
    let first = batch_of_everything();
    let peers = |seconds: i64, rank: u32, peer: u32, bytes: u64| {
        let mut row = first.mpi_peers[0].clone();
        // Ranks of a node report some microseconds apart.
        (row.time, row.rank) = (row.time + seconds * SECOND + i64::from(rank == 3) * 7000, rank);
        row.cells = vec![MpiPeerCell { peer, bytes, messages: 1 }];
        row.is_whole = is_whole;
        row
    };
    let ops = |milliseconds: i64, cells: &[(&str, &str, &str)]| {
        let mut row = first.mpi_ops[0].clone();
        row.time += milliseconds * 1_000_000;
        let cell = row.cells[0].clone();
        row.cells = (cells.iter())
            .map(|&(operation, algorithm, algorithm_source)| MpiOpCell {
                operation: operation.to_owned(),
                algorithm: algorithm.to_owned(),
                algorithm_source: algorithm_source.to_owned(),
                ..cell.clone()
            })
            .collect();
        row
    };
    let batch = Batch {
        // Rank 3 sends first, then both, then rank 2 alone.
        mpi_peers: vec![peers(0, 3, 2, 100), peers(2, 3, 2, 700), peers(2, 2, 3, 40), peers(4, 2, 3, 50)],
        mpi_ops: vec![
            ops(1_100, &[("allreduce", "ring", "observed"), ("send", "", "")]),
            ops(2_000, &[("allreduce", "ring", "observed"), ("bcast", "", "unknown")]),
            // After the last report of peers: in none.
            ops(4_100, &[("barrier", "linear", "forced")]),
        ],
        jobs: first.jobs.clone(),
        job_ranks: first.job_ranks.clone(),
        node: first.node.clone(),
        ..Batch::default()
    };
    bench.send(batch).await;
    let text = |text: &str| Some(text.to_owned());
    let algorithms = || text("allreduce ring");
    assert_eq!(
        pvar_rows(&bench.client, 2).await,
        [
            (0, None, Some(100), None, None, None),
            (2, Some(40), Some(700), Some(300.0), algorithms(), text("observed")),
            (4, Some(50), Some(700), None, None, None),
        ]
    );
    // Rank 3 reported no collectives: at the time of a common row the other one's are known.
    let of_3 = pvar_rows(&bench.client, 3).await;
    assert_eq!(of_3[0], (0, Some(100), None, None, None, None));
    assert_eq!(of_3[1], (2, Some(700), Some(40), None, algorithms(), text("observed")));
    assert_eq!(of_3[2], (4, Some(700), Some(50), Some(5.0), None, None));
}

/// One-sided reads are reported by who reads.
#[tokio::test]
async fn what_a_rank_reads_its_peer_has_sent() {
    let mut bench = Bench::new().await;
    let first = batch_of_everything();
    let peers = |kind: &str, rank: u32, peer: u32, bytes: u64| {
        let mut row = first.mpi_peers[0].clone();
        (row.kind, row.rank) = (kind.to_owned(), rank);
        row.cells = vec![MpiPeerCell { peer, bytes, messages: 4 }];
        row
    };
    let batch = Batch {
        mpi_peers: vec![peers("read", 2, 3, 1000), peers("logical", 3, 2, 100), peers("logical", 2, 3, 7)],
        jobs: first.jobs.clone(),
        job_ranks: first.job_ranks.clone(),
        node: first.node.clone(),
        ..Batch::default()
    };
    bench.send(batch).await;
    let totals = bench
        .texts(
            "SELECT concat_ws(' ', rank, peer, kind, bytes, messages) FROM public.mpi_peer_totals ORDER BY 1",
        )
        .await;
    assert_eq!(totals, ["2 3 logical 7 4", "3 2 logical 1100 8"]);
    let inam = "SELECT concat_ws(' ', source_global_rank, dest_global_rank, kind, coalesce(data_sent, -1), coalesce(data_recv, -1)) \
                FROM public.pvar_table ORDER BY 1";
    let rows = bench.texts(inam).await;
    assert_eq!(rows, ["2 3 logical 7 100", "2 3 read -1 1000", "3 2 logical 100 7", "3 2 read 1000 -1"]);
}

#[tokio::test]
async fn totals_are_the_last_cumulative_values_summed_over_epochs() {
    let mut bench = Bench::new().await;
    let mut first = batch_of_everything();
    // As agents have it: a rank's epoch is its start.
    first.job_ranks[0].start = first.mpi_ops[0].epoch;
    bench.send(first).await;
    let mut again = batch_of_everything();
    again.mpi_ops[0].time += SECOND;
    again.mpi_ops[0].cells.iter_mut().for_each(|cell| cell.calls += 5);
    let mut restarted = again.mpi_ops[0].clone();
    restarted.epoch += 1000;
    restarted.time += SECOND;
    restarted.cells.truncate(1);
    restarted.cells[0].calls = 1;
    let mpi_ops = vec![again.mpi_ops[0].clone(), restarted];
    bench.send(Batch { node: again.node, mpi_ops, ..Batch::default() }).await;
    let totals = bench
        .texts(
            "SELECT job_key || ' ' || rank || ' ' || operation || ' ' || calls FROM public.mpi_op_totals ORDER BY 1",
        )
        .await;
    assert_eq!(totals, ["slurm:42.0 2 allreduce 16", "slurm:42.0 2 barrier 6", "slurm:42.0 2 scan 2"]);
    let peers = bench
        .texts("SELECT rank || '>' || peer || ' ' || kind || ' ' || bytes FROM public.mpi_peer_totals")
        .await;
    assert_eq!(peers, ["2>3 logical 81920"]);
}

#[tokio::test]
async fn a_whole_fabric_of_inams_size_is_stored() {
    let mut bench = Bench::new().await;
    let mut batch = fabric(0, 0);
    batch.ib_nodes = (0..1542_u64)
        .map(|n| IbNodeInfo {
            generation: START,
            guid: n,
            r#type: "switch".to_owned(),
            ports: (1..=4)
                .map(|port| IbPortInfo {
                    port,
                    remote_guid: Some((n + 1) % 1542),
                    remote_port: Some(port + 4),
                    ..IbPortInfo::default()
                })
                .collect(),
            ..IbNodeInfo::default()
        })
        .collect();
    // The second time nothing is new.
    bench.send(batch.clone()).await;
    bench.send(batch).await;
    assert_eq!(bench.number("SELECT count(*) FROM internal.ib_link WHERE valid_to IS NULL").await, 1542 * 4);
}
