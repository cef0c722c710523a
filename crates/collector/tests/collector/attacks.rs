//! Attacks with one stolen certificate, on a collector with TLS and a real database: what they did to others.

use crate::site::*;
use std::time::{Duration, Instant};
use throughline_sample::Message;
use throughline_sample::wire::*;
use throughline_store::{Writer, testing};
use uuid::Uuid;

const CHUNKS: &str =
    "SELECT count(*) FROM timescaledb_information.chunks WHERE hypertable_name = 'mpi_rank_rows'";

/// A node's batch of a job and its bins.
fn job_batch(node: &str, key: &str, bins: Vec<MpiRankBin>) -> Batch {
    Batch {
        node: node.into(),
        jobs: vec![job(key, 1000, "cgroup")],
        job_ranks: vec![rank(key, 0, node)],
        mpi_ops: bins,
        ..Batch::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_01_bins_of_the_past_hold_up_nobody() {
    let site = Site::start().await;
    let began = now();
    let honest = site.ship("good");
    let first = (0..100).map(|n| bin("slurm:1@1000", 0, began + n * 1000)).collect();
    honest.append(&job_batch("good", "slurm:1@1000", first));
    // 26 entries of 400 hours each, more than a year back.
    let bins = |from: i64, hours: i64| -> Vec<MpiRankBin> {
        (from..from + hours).map(|hour| bin("slurm:9@1000", 0, began - hour * HOUR)).collect()
    };
    let spool = Uuid::new_v4();
    let entries: Vec<_> = (0..26_i64)
        .map(|n| {
            (spool, n as u64 + 1, job_batch("evil", "slurm:9@1000", bins(200 + n * 400, 400)).encode_to_vec())
        })
        .collect();
    site.put("evil", &entries).await.unwrap();
    assert_eq!(site.rejected("time_past"), 26 * 400);
    // Within the window: more hours in one entry than any has, and many entries of as many hours as one may have.
    site.batch("evil", &job_batch("evil", "slurm:9@1000", bins(10, 150))).await.unwrap();
    assert_eq!(site.rejected("quota"), 150);
    let spool = Uuid::new_v4();
    let entries: Vec<_> = (0..4_i64)
        .map(|n| {
            (spool, n as u64 + 1, job_batch("evil", "slurm:9@1000", bins(10 + n * 35, 35)).encode_to_vec())
        })
        .collect();
    let refused = site.put("evil", &entries).await.unwrap_err();
    assert!(refused.contains("send it again later"), "{refused}");
    // Others meanwhile: every row, at once.
    let at = Instant::now();
    for n in 0..10 {
        let more = (0..10).map(|k| bin("slurm:1@1000", 0, began + (1000 + n * 10 + k) * 1000)).collect();
        honest.append(&job_batch("good", "slurm:1@1000", more));
    }
    honest.end().await;
    assert!(at.elapsed() < Duration::from_secs(10), "{:?}", at.elapsed());
    let of_job = "SELECT count(*) FROM internal.mpi_op_rows o JOIN internal.run j ON j.id = o.job_id WHERE j.key = 'slurm:1@1000'";
    assert_eq!(site.number(of_job).await, 200);
    let chunks = site.number(CHUNKS).await;
    assert!((1..=70).contains(&chunks), "{chunks} chunks");
    // And the attacker's node itself goes on.
    site.batch("evil", &job_batch("evil", "slurm:9@1000", vec![bin("slurm:9@1000", 0, now())]))
        .await
        .unwrap();
    assert_eq!(site.number("SELECT count(*) FROM internal.batch_quarantine").await, 0);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_01_a_batch_that_the_database_is_too_slow_for_is_isolated() {
    let database = testing::database().await;
    let slow = "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                IF NEW.text = 'slow' THEN PERFORM pg_sleep(3600); END IF; RETURN NEW; END $$; \
                CREATE TRIGGER slow BEFORE INSERT ON internal.events FOR EACH ROW EXECUTE FUNCTION public.slow()";
    database.connect().await.unwrap().batch_execute(slow).await.unwrap();
    let writer = Writer::new(database.clone()).with_statement_limit(Duration::from_millis(500));
    let site = Site::start_with(database, vec![writer]).await;
    let (evil, good) = (site.ship("evil"), site.ship("good"));
    let began = now();
    let texts = ["a", "b", "c", "slow", "d", "e", "f"];
    let events = texts.iter().zip(0..).map(|(text, n)| event(began + n, text)).collect();
    evil.append(&Batch { node: "evil".into(), events, ..Batch::default() });
    evil.append(&Batch { node: "evil".into(), events: vec![event(began, "next")], ..Batch::default() });
    for n in 0..20 {
        let events = (0..10).map(|k| event(began + n * 10 + k, "good")).collect();
        good.append(&Batch { node: "good".into(), events, ..Batch::default() });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    good.end().await;
    evil.end().await;
    assert_eq!(site.number("SELECT count(*) FROM internal.events WHERE instance = 'good'").await, 200);
    let stored = site.texts("SELECT text FROM internal.events WHERE instance = 'evil' ORDER BY text").await;
    assert_eq!(stored, ["a", "b", "c", "d", "e", "f", "next"]);
    assert_eq!(site.rejected("database"), 1);
    let listed =
        "SELECT sender || ' ' || reason || ' ' || records || ' ' || kinds FROM internal.rejected_records";
    assert_eq!(site.texts(listed).await, ["node:evil database 1 events"]);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_02_a_frame_of_the_year_2200_costs_nobody_a_row() {
    let site = Site::start().await;
    let began = now();
    let node = site.ship("n1");
    let key = |user: u32| format!("slurm:{user}");
    let introduced = Batch {
        node: "n1".into(),
        jobs: (0..3).map(|user| job(&key(user), 1000 + user, "cgroup")).collect(),
        job_ranks: (0..3).map(|user| rank(&key(user), 0, "n1")).collect(),
        ..Batch::default()
    };
    node.append(&introduced);
    // 40 seconds of three users, of whom one sends a frame a second that is dated 2200.
    for second in 0..40 {
        let mut bins: Vec<_> = (0..3).map(|user| bin(&key(user), 0, began + second * 1000)).collect();
        bins.insert(second as usize % 4, bin(&key(0), 0, 7_258_118_400 * SECOND + second * 1000));
        node.append(&Batch { node: "n1".into(), mpi_ops: bins, ..Batch::default() });
    }
    node.end().await;
    assert_eq!(site.number("SELECT count(*) FROM internal.mpi_op_rows").await, 120);
    assert_eq!(site.number("SELECT count(*) FROM internal.batch_quarantine").await, 0);
    assert_eq!(site.rejected("time_future"), 40);
    assert_eq!(
        site.number("SELECT records FROM internal.rejected_records WHERE reason = 'time_future'").await,
        40
    );
    site.end().await;
}

/// What others have reported, as one text.
async fn of_others(site: &Site) -> Vec<String> {
    let mut all = Vec::new();
    for table in [
        "ib_node",
        "ib_port",
        "ib_link",
        "ib_lft",
        "ib_mft",
        "ib_multicast_group",
        "ib_port_counters",
        "ib_port_lane_counters",
        "host_port_counters",
        "nvlink_counters",
        "gpu_pcie_counters",
        "gpu_pm_counters",
    ] {
        // What the node says of a GPU that it does not have is a row of its own, and nobody else's.
        let own = match table {
            "nvlink_counters" | "gpu_pcie_counters" | "gpu_pm_counters" => {
                "WHERE gpu_id NOT IN (SELECT k.id FROM internal.gpu_key k JOIN internal.node_key n ON n.id = k.node_id WHERE n.name = 'evil')"
            }
            _ => "",
        };
        let rows = format!("SELECT '{table} ' || t::text FROM internal.{table} t {own} ORDER BY 1");
        all.extend(site.texts(&rows).await);
    }
    for of_node2 in [
        "SELECT 'node ' || t::text FROM internal.node t WHERE name <> 'evil' ORDER BY 1",
        "SELECT 'gpu ' || t::text FROM internal.gpu t JOIN internal.node_key n ON n.id = t.node_id WHERE n.name <> 'evil' ORDER BY 1",
        "SELECT 'link ' || t::text FROM internal.gpu_link t JOIN internal.gpu_key k ON k.id = t.gpu_id
         JOIN internal.node_key n ON n.id = k.node_id WHERE n.name <> 'evil' ORDER BY 1",
        "SELECT 'job ' || t::text FROM internal.run t WHERE key = 'slurm:900@1000' ORDER BY 1",
        "SELECT 'rank ' || r::text FROM internal.job_rank r JOIN internal.run j ON j.id = r.job_id WHERE j.key = 'slurm:900@1000' ORDER BY 1",
        "SELECT 'ops ' || t::text FROM internal.mpi_op_rows t JOIN internal.run j ON j.id = t.job_id WHERE key = 'slurm:900@1000' ORDER BY 1",
        "SELECT 'comm ' || t::text FROM internal.job_comm t JOIN internal.run j ON j.id = t.job_id WHERE key = 'slurm:900@1000' ORDER BY 1",
        "SELECT 'event ' || t::text FROM internal.events t WHERE instance NOT IN ('evil', 'server') ORDER BY 1",
    ] {
        all.extend(site.texts(of_node2).await);
    }
    all
}

fn gpu(uuid: &str) -> GpuInfo {
    GpuInfo { uuid: uuid.into(), name: "H200".into(), link_count: 18, ..GpuInfo::default() }
}

fn pcie(uuid: &str, time: i64) -> GpuPcieSample {
    GpuPcieSample { time, gpu_uuid: uuid.into(), source: "nvml".into(), ..GpuPcieSample::default() }
}

fn ib_node(guid: u64, generation: i64) -> IbNodeInfo {
    let port = IbPortInfo { port: 1, state: "Active".into(), ..IbPortInfo::default() };
    IbNodeInfo { generation, guid, r#type: "switch".into(), ports: vec![port], ..IbNodeInfo::default() }
}

fn sweep(time: i64, guid: u64) -> Batch {
    let sample = IbPortSample { time, node_guid: guid, port: 1, source: "mad".into(), ..Default::default() };
    Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_nodes: vec![ib_node(guid, time)],
        ib_ports: vec![sample],
        ..Batch::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_04_a_stolen_certificate_speaks_of_its_own_node_only() {
    let site = Site::start().await;
    let t = now();
    site.batch("fab1", &sweep(t, 0x50)).await.unwrap();
    let victim = Batch {
        nodes: vec![NodeInfo { name: "n2".into(), hca_guids: vec![0x20], ..NodeInfo::default() }],
        gpus: vec![gpu("GPU-2")],
        gpu_pcie: vec![pcie("GPU-2", t)],
        job_comms: vec![JobComm {
            job_key: "slurm:900@1000".into(),
            name: "rows".into(),
            ..Default::default()
        }],
        events: vec![event(t, "of n2")],
        ..job_batch("n2", "slurm:900@1000", vec![bin("slurm:900@1000", 0, t)])
    };
    site.batch("n2", &victim).await.unwrap();
    let before = of_others(&site).await;
    // In another's name, in no name, as a crawler, as a crawler of another fabric.
    for (certificate, batch) in [
        ("evil", Batch { node: "n2".into(), ..victim.clone() }),
        ("evil", sweep(t, 0x50)),
        ("n2", sweep(t, 0x50)),
        ("fab1", Batch { fabric: throughline_store::testing::fabric(PREFIX + 1), ..sweep(t, 0x50) }),
    ] {
        let refused = site.batch(certificate, &batch).await.unwrap_err();
        assert!(
            refused.contains("permission") || refused.contains("certificate") || refused.contains("crawler"),
            "{refused}"
        );
    }
    // All of it in one batch of its own name, among what it may report.
    let about = |guid: u64, gpu: &str, job: &str| Event {
        ib_guid: guid,
        gpu_uuid: gpu.into(),
        job_key: job.into(),
        ..event(t + 1, "forged")
    };
    let forged = Batch {
        node: "evil".into(),
        fabric: throughline_store::testing::fabric(PREFIX),
        nodes: vec![
            NodeInfo { name: "evil".into(), hca_guids: vec![0x10], ..NodeInfo::default() },
            NodeInfo { name: "n2".into(), ..NodeInfo::default() },
            NodeInfo { name: "evil".into(), hca_guids: vec![0x10, 0x20], ..NodeInfo::default() },
            NodeInfo { name: "evil".into(), hca_guids: vec![0x50], ..NodeInfo::default() },
        ],
        gpus: vec![gpu("GPU-2")],
        gpu_pcie: vec![pcie("GPU-2", t + 1), pcie("GPU-2", t + 2)],
        gpu_link_infos: vec![GpuLinkInfo { gpu_uuid: "GPU-2".into(), ..Default::default() }],
        jobs: vec![job("slurm:900@1000", 4242, "cgroup"), job("slurm:901@1000", 1000, "cgroup")],
        job_ranks: vec![
            rank("slurm:900@1000", 1, "evil"),
            rank("slurm:900@1000", 0, "evil"),
            rank("slurm:901@1000", 0, "evil"),
            rank("slurm:901@1000", 1, "n2"),
        ],
        mpi_ops: vec![
            bin("slurm:900@1000", 0, t + 1),
            bin("slurm:900@1000", 7, t + 1),
            bin("slurm:901@1000", 0, t + 1),
            bin("slurm:901@1000", 1, t + 1),
        ],
        job_comms: vec![JobComm {
            job_key: "slurm:900@1000".into(),
            name: "x".into(),
            time: t,
            ..Default::default()
        }],
        events: vec![
            about(0x10, "", ""),
            about(0x50, "", ""),
            about(0x20, "", ""),
            about(0, "GPU-2", ""),
            about(0, "", "slurm:900@1000"),
            about(0, "", "slurm:901@1000"),
        ],
        ib_topology_marks: vec![IbTopologyMark { generation: t + 5, time: t + 5, ..Default::default() }],
        ib_multicast_tables: vec![IbMulticastTable { guid: 0x50, ..Default::default() }],
        ib_multicast_groups: vec![IbMulticastGroup { mgid: vec![0xFF; 16], ..Default::default() }],
        ib_multicast_marks: vec![IbMulticastMark { generation: t + 5, groups: 0 }],
        self_stats: vec![SelfStat {
            time: t,
            source: "mpi".into(),
            name: "records".into(),
            value: 1.0,
            ..SelfStat::default()
        }],
        ..sweep(t + 1, 0x50)
    };
    let forged = Batch { node: "evil".into(), ..forged };
    site.batch("evil", &forged).await.unwrap();
    assert_eq!(of_others(&site).await, before);
    // What it says of itself is there: two adapters, one of them another's as well, a job that it alone reports a rank of, events,
    // a figure.
    let own =
        site.texts("SELECT array_to_string(hca_guids, ',') FROM internal.node WHERE name = 'evil'").await;
    assert_eq!(own, ["0x0000000000000010,0x0000000000000020"]);
    let claimed = "SELECT r.rank || ' ' || r.host FROM internal.run j JOIN internal.job_rank r ON r.job_id = j.id \
                   WHERE key = 'slurm:901@1000'";
    assert_eq!(site.texts(claimed).await, ["0 evil"]);
    let rows = "SELECT count(*) FROM internal.mpi_op_rows o JOIN internal.run j ON j.id = o.job_id WHERE j.key = 'slurm:901@1000'";
    assert_eq!(site.number(rows).await, 1);
    assert_eq!(site.number("SELECT count(*) FROM internal.events WHERE instance = 'evil'").await, 4);
    assert_eq!(site.number("SELECT count(*) FROM public.self_stats WHERE instance = 'evil'").await, 1);
    let counted = ["node", "gpu", "job", "fabric"].map(|reason| site.rejected(reason));
    // node: another's name, a switch, its event. job: the claim of another user's, its ranks (2), another's host, 3 bins, a
    // communicator, an event. fabric: node, port, mark, table, group and its mark.
    assert_eq!(counted, [3, 0, 9, 6]);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_04_a_job_number_in_the_environment_does_not_keep_the_owner_out() {
    let site = Site::start().await;
    // Another user's claim to it; as its own job the number is another key.
    let decoy = Batch {
        jobs: vec![job("slurm:77@1000", 4242, "environment"), job("slurm:77@4242", 4242, "environment")],
        ..job_batch("evil", "slurm:77@1000", vec![bin("slurm:77@1000", 0, now())])
    };
    site.batch("evil", &decoy).await.unwrap();
    site.batch("good", &job_batch("good", "slurm:77@1000", vec![bin("slurm:77@1000", 0, now())]))
        .await
        .unwrap();
    let owner =
        "SELECT uid || ' ' || user_name || ' ' || evidence FROM internal.run WHERE key = 'slurm:77@1000'";
    assert_eq!(site.texts(owner).await, ["1000 user1000 cgroup"]);
    let open = "SELECT host FROM internal.job_rank r JOIN internal.run j ON j.id = r.job_id WHERE key = 'slurm:77@1000' AND r.end_time IS NULL";
    assert_eq!(site.texts(open).await, ["good"]);
    // The decoy comes again, and is refused.
    site.batch("evil", &Batch { events: vec![event(now(), "x")], ..decoy }).await.unwrap();
    assert_eq!(site.texts(owner).await, ["1000 user1000 cgroup"]);
    // The claim, its rank and the rank's bin, twice.
    assert_eq!(site.rejected("job"), 6);
    site.end().await;
}

/// The ledger is never trimmed: each spool leaves a row there for ever.
#[tokio::test(flavor = "multi_thread")]
async fn attack_17_one_certificate_uses_new_spools_without_end() {
    let site = Site::start().await;
    let batch = |node: &str| Batch { node: node.into(), ..Batch::default() }.encode_to_vec();
    let first = Uuid::new_v4();
    site.put("evil", &[(first, 1, batch("evil"))]).await.unwrap();
    let mut refused = 0;
    for _ in 0..20 {
        let many: Vec<_> = (0..20).map(|_| (Uuid::new_v4(), 1, batch("evil"))).collect();
        refused +=
            u64::from(site.put("evil", &many).await.is_err_and(|why| why.contains("spools within an hour")));
    }
    assert!(refused > 10, "{refused}");
    let rows = site.number("SELECT count(*) FROM internal.batch_ledger WHERE owner = 'node:evil'").await;
    assert!(rows <= i64::try_from(throughline_collector::SPOOLS_PER_SENDER).unwrap(), "{rows}");
    // What it had goes on, and so do others.
    site.put("evil", &[(first, 2, batch("evil"))]).await.unwrap();
    site.put("good", &[(Uuid::new_v4(), 1, batch("good"))]).await.unwrap();
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_08_a_spool_belongs_to_who_used_it_first() {
    let site = Site::start().await;
    let spool = Uuid::new_v4();
    let entry = |node: &str, sequence: u64| {
        let events = vec![event(now(), &sequence.to_string())];
        (spool, sequence, Batch { node: node.into(), events, ..Batch::default() }.encode_to_vec())
    };
    site.put("n2", &[entry("n2", 1), entry("n2", 2)]).await.unwrap();
    let refused = site.put("evil", &[entry("evil", 1 << 62)]).await.unwrap_err();
    assert!(refused.contains("belongs to another sender"), "{refused}");
    // A crawler neither, and bytes that are no batch go to the quarantine without moving the spool.
    let crawled = Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        events: vec![event(now(), "x")],
        ..Batch::default()
    };
    site.put("fab1", &[(spool, 1 << 61, crawled.encode_to_vec())]).await.unwrap_err();
    site.put("evil", &[(spool, 1 << 62, vec![0xff; 9])]).await.unwrap();
    for sequence in 3..=20 {
        site.put("n2", &[entry("n2", sequence)]).await.unwrap();
    }
    assert_eq!(site.number("SELECT count(*) FROM internal.events WHERE instance = 'n2'").await, 20);
    assert_eq!(
        site.number("SELECT count(*) FROM internal.events WHERE instance IN ('evil', '0xfe80000000000000')")
            .await,
        0
    );
    let ledger = "SELECT sequence || ' ' || owner FROM internal.batch_ledger WHERE sequence = 20";
    assert_eq!(site.texts(ledger).await, ["20 node:n2"]);
    assert_eq!(site.rejected("spool"), 2);
    // A renewed certificate of the same node goes on; a spool from before owners had names is adopted.
    site.client
        .execute("UPDATE internal.batch_ledger SET owner = NULL WHERE spool_id = $1", &[&spool])
        .await
        .unwrap();
    site.put("n2", &[entry("n2", 21)]).await.unwrap();
    assert_eq!(site.texts("SELECT owner FROM internal.batch_ledger WHERE sequence = 21").await, ["node:n2"]);
    site.end().await;
}
