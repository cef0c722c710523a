//! Shares of links on a small fabric: two leaves under a spine, two jobs, a host that reports nothing and sends to another
//! one, all over one uplink. What each sends is known, so the shares are.

mod hours;
mod minutes;
mod places;
mod routing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use throughline_sample::catalogue::{
    Metric, PORT_DATA_TRANSMITTED_BYTES, RECEIVE_DATA_BYTES, TRANSMIT_DATA_BYTES,
};
use throughline_sample::wire::{
    Batch, Coverage, HostPortSample, IbNodeInfo, IbPortInfo, IbPortSample, IbTopologyMark, Job, JobRank,
    MpiNodeTraffic, MpiPeerCell, Names, NodeInfo, Values,
};
use throughline_store::{
    Content, Entry, Groups, LinkShareCache, LinkSharesMade, Retention, Sender, Writer, largest_contributions,
    link_shares_made_until, make_link_shares, testing,
};
use tokio_postgres::Client;
use uuid::Uuid;

const PREFIX: u64 = 0xfe80_0000_0000_0000;
const SECOND: i64 = 1_000_000_000;
const SPEED: u64 = 25_000_000_000;
/// Longer than a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

const LEAF: [u64; 2] = [0x11, 0x12];
const SPINE: u64 = 0x21;
/// Adapters of hosts: three at each leaf, with LIDs from 5 on. The third ones have no agent.
const HOSTS: [(u64, &str); 6] = [
    (0x101, "n1 mlx5_0"),
    (0x102, "n2 mlx5_0"),
    (0x103, "x7 mlx5_0"),
    (0x201, "n3 mlx5_0"),
    (0x202, "n4 mlx5_0"),
    (0x203, "oss1 mlx5_0"),
];

/// Bytes a second that go from the first leaf to the second, as ports count them, headers included.
const ALICE: u64 = 60_000_000;
const BOB: u64 = 10_000_000;
const STRANGER: u64 = 30_000_000;
/// Payload of a message, and what three packets of headers make of it.
const MESSAGE: u64 = 10_000;
const MESSAGE_COUNTED: u64 = MESSAGE + 3 * 24;

/// A site whose time begins a little before now.
struct Site {
    client: Client,
    writer: Writer,
    begin: i64,
    sequence: BTreeMap<u128, u64>,
    cache: LinkShareCache,
    groups: Groups,
    retention: Retention,
    form: Form,
}

fn cables() -> Vec<(u64, u32, u64, u32)> {
    let hosts = HOSTS.iter().enumerate();
    let mut cables: Vec<_> =
        hosts.map(|(place, (guid, _))| (*guid, 1, LEAF[place / 3], place as u32 % 3 + 1)).collect();
    cables.extend([(LEAF[0], 4, SPINE, 1), (LEAF[1], 4, SPINE, 2)]);
    cables
}

fn node(guid: u64, kind: &str, description: &str, lid: u32, generation: i64) -> IbNodeInfo {
    let cables = cables();
    let both = cables.iter().flat_map(|(a, pa, b, pb)| [(*a, *pa, *b, *pb), (*b, *pb, *a, *pa)]);
    let port = |(_, port, other, other_port): (u64, u32, u64, u32)| IbPortInfo {
        port,
        port_guid: guid + 0x1000,
        lid,
        state: "Active".into(),
        width: "4x".into(),
        speed: "50.0 Gbps".into(),
        rate_bytes_per_second: SPEED,
        remote_guid: Some(other),
        remote_port: Some(other_port),
        physical_state: "LinkUp".into(),
        ..IbPortInfo::default()
    };
    let ports: Vec<IbPortInfo> = both.filter(|(own, ..)| *own == guid).map(port).collect();
    let table = match LEAF.iter().position(|leaf| *leaf == guid) {
        // LIDs 5, 6, 7 at the first leaf, 8, 9, 10 at the second.
        Some(0) => vec![255, 0, 4, 4, 255, 1, 2, 3, 4, 4, 4],
        Some(_) => vec![255, 4, 0, 4, 255, 4, 4, 4, 1, 2, 3],
        None if guid == SPINE => vec![255, 1, 2, 0, 255, 1, 1, 1, 2, 2, 2],
        None => Vec::new(),
    };
    IbNodeInfo {
        generation,
        guid,
        r#type: kind.into(),
        description: description.into(),
        lid,
        device_id: 0x1017,
        vendor_id: 0x15b3,
        system_guid: guid,
        port_count: ports.len() as u32,
        ports,
        linear_forwarding_table: table,
        ..IbNodeInfo::default()
    }
}

fn values(pairs: &[(&'static Metric, u64)]) -> Option<Values> {
    let mut values = Values::default();
    for (metric, value) in pairs {
        values.put(metric, *value);
    }
    Some(values)
}

impl Site {
    /// Fabric, hosts and both jobs, `ago` seconds before now.
    async fn new(ago: i64) -> Site {
        let database = testing::database().await;
        let client = database.connect().await.unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let begin = (now - ago).div_euclid(10) * 10 * SECOND;
        let writer = Writer::new(database);
        let groups = Groups::new([("lustre".to_owned(), vec!["oss*".to_owned()])]);
        let (sequence, cache) = (BTreeMap::new(), LinkShareCache::default());
        let retention = Retention::default();
        let mut site = Site { client, writer, begin, sequence, cache, groups, retention, form: Form::Wholes };
        site.discover().await;
        for (place, (guid, description)) in HOSTS.iter().enumerate().filter(|(place, _)| place % 3 != 2) {
            site.agent(place, *guid, description.split(' ').next().unwrap()).await;
        }
        site
    }

    fn at(&self, seconds: f64) -> i64 {
        self.begin + (seconds * SECOND as f64) as i64
    }

    async fn write(&mut self, spool: u128, batch: Batch) {
        let sequence = self.sequence.entry(spool).or_default();
        *sequence += 1;
        let entry = Entry {
            spool_id: Uuid::from_u128(spool),
            sequence: *sequence,
            content: Content::Batch(batch),
            sender: Sender::default(),
        };
        let outcome = self.writer.write(&[entry]).await.unwrap();
        assert_eq!((outcome.quarantined, outcome.unknown_values), (0, 0));
    }

    async fn discover(&mut self) {
        let generation = self.at(-60.0);
        let mut nodes = vec![
            node(LEAF[0], "switch", "leaf1", 1, generation),
            node(LEAF[1], "switch", "leaf2", 2, generation),
            node(SPINE, "switch", "spine", 3, generation),
        ];
        nodes.extend(
            HOSTS
                .iter()
                .enumerate()
                .map(|(place, (guid, name))| node(*guid, "ca", name, place as u32 + 5, generation)),
        );
        let mark = IbTopologyMark { generation, time: generation, nodes: 9, links: 8 };
        let found = Batch {
            fabric: throughline_store::testing::fabric(PREFIX),
            ib_nodes: nodes,
            ib_topology_marks: vec![mark],
            ..Batch::default()
        };
        self.write(1, found).await;
    }

    /// An agent with a rank of a job: alice has n1 and n3, bob n2 and n4.
    async fn agent(&mut self, place: usize, guid: u64, host: &str) {
        let (number, user) = if place.is_multiple_of(3) { (1, "alice") } else { (2, "bob") };
        let start = self.at(-30.0);
        let job = Job {
            key: format!("slurm:{number}.0@1000"),
            scheduler: "slurm".into(),
            native_id: number.to_string(),
            uid: 1000,
            user: user.into(),
            start,
            world_size: 2,
            seen: start,
            ..Job::default()
        };
        let rank = JobRank {
            job_key: job.key.clone(),
            rank: place as u32 / 3,
            pid: 100,
            world_size: 2,
            start,
            host: host.into(),
            hca_ports: Some(Names { name: vec!["mlx5_0/1".into()] }),
            ..JobRank::default()
        };
        let port = HostPortSample {
            time: start,
            epoch: start - 1,
            device: "mlx5_0".into(),
            port: 1,
            node_guid: guid,
            port_guid: 0,
            source: "sysfs".into(),
            values: values(&[(&PORT_DATA_TRANSMITTED_BYTES, 1)]),
        };
        let info =
            NodeInfo { name: host.into(), boot_id: "b".into(), boot_time: start - 1, hca_guids: vec![guid] };
        let batch = Batch {
            node: host.into(),
            nodes: vec![info],
            host_ports: vec![port],
            jobs: vec![job],
            job_ranks: vec![rank],
            ..Batch::default()
        };
        self.write(10 + place as u128, batch).await;
    }

    /// A sweep of all ports at a time, with what each had sent by then.
    async fn sweep(&mut self, seconds: f64) {
        let time = self.at(seconds);
        let bytes = |rate: u64| (rate as f64 * seconds.max(0.0)) as u64;
        let (forth, back) = (bytes(ALICE + BOB + STRANGER), 0);
        // Sent and received by each port of hosts, leaves and the spine.
        let own = [(ALICE, 0), (BOB, 0), (STRANGER, 0), (0, ALICE), (0, BOB), (0, STRANGER)];
        let mut ports = Vec::new();
        for (place, (guid, _)) in HOSTS.iter().enumerate() {
            let (sent, received) = (bytes(own[place].0), bytes(own[place].1));
            ports.push((*guid, 1, sent, received));
            ports.push((LEAF[place / 3], place as u32 % 3 + 1, received, sent));
        }
        ports.extend([(LEAF[0], 4, forth, back), (SPINE, 1, back, forth)]);
        ports.extend([(SPINE, 2, forth, back), (LEAF[1], 4, back, forth)]);
        let sample = |(guid, port, sent, received)| IbPortSample {
            time,
            epoch: self.begin - 9,
            node_guid: guid,
            port,
            values: values(&[(&TRANSMIT_DATA_BYTES, sent), (&RECEIVE_DATA_BYTES, received)]),
            saturated: vec![],
            source: "mad".into(),
        };
        let ib_ports = ports.into_iter().map(sample).collect();
        let round = Coverage {
            time: time + SECOND / 10,
            source: "mad".into(),
            expected: 16,
            read: 16,
            elapsed_seconds: 0.1,
            ..Coverage::default()
        };
        self.write(
            1,
            Batch {
                fabric: throughline_store::testing::fabric(PREFIX),
                ib_ports,
                coverage: vec![round],
                ..Batch::default()
            },
        )
        .await;
    }

    /// What a job's node has sent to rank 1 by a time, in whole messages, reported for the second before.
    fn traffic(&self, place: usize, seconds: f64, messages: u64) -> Batch {
        let (number, operation, kind) =
            if place == 0 { (1, "alltoall", "modelled") } else { (2, "isend", "measured") };
        // And to rank 0, its own, each third time: that is on no link.
        let second = seconds as u64;
        let is_whole = match self.form {
            Form::Wholes => second % 4 == 1,
            Form::Changes => false,
        };
        let mut cells = vec![MpiPeerCell { peer: 1, bytes: messages * MESSAGE, messages }];
        if second.is_multiple_of(3) || is_whole && second > 3 {
            cells.push(MpiPeerCell { peer: 0, bytes: second / 3 * 64, messages: second / 3 });
        }
        let traffic = MpiNodeTraffic {
            time: self.at(seconds),
            epoch: self.at(-30.0),
            since: self.at(seconds - 1.0),
            job_key: format!("slurm:{number}.0@1000"),
            operation: operation.into(),
            kind: kind.into(),
            direction: "transmit".into(),
            source: "pmpi".into(),
            cells,
            is_whole,
        };
        Batch {
            node: HOSTS[place].1.split(' ').next().unwrap().into(),
            mpi_traffic: vec![traffic],
            ..Batch::default()
        }
    }

    /// Sweeps each 5 s and traffic each second from 0 until a time; `without` is a host that reports nothing.
    async fn run(&mut self, until: u32, without: Option<usize>) {
        for second in 0..=until {
            let seconds = f64::from(second);
            for (place, rate) in [(0, ALICE), (1, BOB)] {
                if without == Some(place) || second == 0 {
                    continue;
                }
                let batch = self.traffic(place, seconds, u64::from(second) * rate / MESSAGE_COUNTED);
                self.write(10 + place as u128, batch).await;
            }
            if second % 5 == 0 {
                self.sweep(seconds + 0.3).await;
            }
        }
    }

    async fn make(&mut self) -> LinkSharesMade {
        make_link_shares(&mut self.client, &mut self.cache, &self.groups, &self.retention, PATIENCE)
            .await
            .unwrap()
    }

    /// Begins with a window.
    async fn begin_with(&self, seconds: f64) {
        self.client
            .execute(
                "UPDATE internal.link_share_state SET computed_until = $1",
                &[&(UNIX_EPOCH + Duration::from_nanos(self.at(seconds) as u64))],
            )
            .await
            .unwrap();
    }

    /// Rows of a port in the window that ends at a time: their names, bytes, kind, and what was counted.
    async fn rows(&self, guid: u64, port: i32, end: f64) -> BTreeMap<String, (i64, String, Option<i64>)> {
        let sql = "SELECT contributor || coalesce(' ' || j.user_name || ' ' || operation, '') || coalesce(' ' || s.name, ''),
                          bytes, kind, counted_bytes, low_bytes, high_bytes
                   FROM internal.link_shares s LEFT JOIN internal.run j ON j.id = s.job_id
                   JOIN internal.ib_port_key p ON p.id = s.port_id JOIN internal.ib_node_key k ON k.id = p.ib_node_id
                   WHERE k.guid = $1 AND p.port = $2 AND s.time = $3";
        let time = UNIX_EPOCH + Duration::from_nanos(self.at(end) as u64);
        let guid = format!("0x{guid:016x}");
        let rows = self.client.query(sql, &[&guid, &port, &time]).await.unwrap();
        rows.iter()
            .map(|row| {
                let (bytes, low, high): (i64, i64, i64) = (row.get(1), row.get(4), row.get(5));
                assert!(low <= bytes && bytes <= high, "{}: {low} {bytes} {high}", row.get::<_, &str>(0));
                (row.get(0), (bytes, row.get(2), row.get(3)))
            })
            .collect()
    }

    /// Of all ports and windows that were counted the rows add up to what was counted. Returns how many there are.
    async fn check_sums(&self) -> usize {
        let sql =
            "SELECT sum(bytes)::bigint, max(counted_bytes), count(*) FILTER (WHERE contributor = 'rest'),
                          count(DISTINCT counted_bytes)
                   FROM internal.link_shares WHERE counted_bytes IS NOT NULL GROUP BY port_id, time";
        let rows = self.client.query(sql, &[]).await.unwrap();
        for row in &rows {
            let (sum, counted): (i64, i64) = (row.get(0), row.get(1));
            assert_eq!((sum, row.get::<_, i64>(2), row.get::<_, i64>(3)), (counted, 1, 1));
        }
        rows.len()
    }
}

/// How traffic comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// All peers in a row, each fourth time those that did not change, too.
    Wholes,
    /// In a row those that changed.
    Changes,
}

/// All shares, and the totals of all traffic, but for their times.
async fn everything(site: &Site) -> Vec<String> {
    let sql = "SELECT s::text FROM (
                   SELECT rank() OVER (ORDER BY time) AS window, port_id, contributor, job_id, operation, name, bytes, low_bytes,
                          high_bytes, kind, counted_bytes FROM internal.link_shares) s
               UNION ALL
               SELECT concat_ws(' ', job_id, node_name, operation, kind, direction, peer, bytes, messages) FROM internal.mpi_traffic_totals
               ORDER BY 1";
    site.client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Within so many percent points of a whole.
fn is_near(bytes: i64, expected: u64, whole: u64, points: f64) -> bool {
    (bytes as f64 - expected as f64).abs() / whole as f64 * 100.0 <= points
}

#[tokio::test]
async fn shares_are_what_each_sent_and_add_up_to_the_counters() {
    let totals = check_shares(Form::Wholes).await;
    assert!(totals.iter().any(|line| line.ends_with("isend measured transmit 0 1280 20")), "{totals:#?}");
    assert_eq!(check_shares(Form::Changes).await, totals);
}

async fn check_shares(form: Form) -> Vec<String> {
    let mut site = Site { form, ..Site::new(90).await };
    site.run(60, None).await;
    site.begin_with(0.0).await;
    let made = site.make().await;
    assert!((5..=7).contains(&made.windows), "{made:?}");
    assert!(site.check_sums().await >= 5 * 8);
    let whole = (ALICE + BOB + STRANGER) * 10;
    for (guid, port) in [(LEAF[0], 4), (SPINE, 2)] {
        let rows = site.rows(guid, port, 30.0).await;
        let of = |name: &str| rows.get(name).unwrap_or_else(|| panic!("{name} is not in {rows:#?}"));
        let (alice, bob, stranger) = (of("job alice alltoall"), of("job bob isend"), of("host x7"));
        assert!(is_near(alice.0, ALICE * 10, whole, 0.5), "{rows:#?}");
        assert!(is_near(bob.0, BOB * 10, whole, 0.5), "{rows:#?}");
        assert!(is_near(stranger.0, STRANGER * 10, whole, 0.5), "{rows:#?}");
        assert_eq!([&alice.1, &bob.1, &stranger.1], ["modelled", "measured", "unreported"]);
        assert!(is_near(alice.2.unwrap(), whole, whole, 0.01), "{rows:#?}");
    }
    // Series have the GUIDs of the crawler's page: a switch's own, of an adapter its port's.
    let until = UNIX_EPOCH + Duration::from_nanos(site.at(60.0).cast_unsigned());
    let largest =
        largest_contributions(&site.client, until - Duration::from_secs(60), until, 8).await.unwrap();
    let has = |guid: u64| largest.iter().any(|one| one.guid == format!("{guid:#018x}"));
    assert!(has(LEAF[0]) && has(HOSTS[2].0 + 0x1000) && !has(HOSTS[2].0), "{largest:#?}");
    // The sender that no job knows is on its own cable alone, and nobody else's bytes are.
    let rows = site.rows(HOSTS[2].0, 1, 30.0).await;
    assert!(is_near(rows["host x7"].0, STRANGER * 10, STRANGER * 10, 1.0), "{rows:#?}");
    assert!(rows.keys().all(|name| !name.starts_with("job")), "{rows:#?}");
    // Nothing goes back.
    assert!(site.rows(LEAF[1], 4, 30.0).await.is_empty());
    everything(&site).await
}

#[tokio::test]
async fn the_largest_contributors_have_names_and_what_they_are_of() {
    let mut site = Site::new(90).await;
    site.run(60, None).await;
    site.begin_with(0.0).await;
    site.make().await;
    let until = link_shares_made_until(&site.client).await.unwrap().unwrap();
    let window = Duration::from_secs(10);
    let uplink = format!("0x{:016x}", LEAF[0]);
    for (most, expected) in [(8, vec!["alice", "bob", "x7"]), (1, vec!["alice"])] {
        let all = largest_contributions(&site.client, until - window, until, most).await.unwrap();
        let of_port: Vec<_> = all.iter().filter(|one| one.guid == uplink && one.port == 4).collect();
        let named: Vec<&str> = of_port
            .iter()
            .filter(|one| one.contributor != "rest")
            .map(|one| one.user.as_deref().or(one.name.as_deref()).unwrap())
            .collect();
        let mut sorted = named.clone();
        sorted.sort_unstable();
        assert_eq!(sorted.len(), expected.len(), "{of_port:#?}");
        assert!(most == 1 || sorted == expected, "{of_port:#?}");
        // The port itself is there once, with what it counted.
        assert_eq!(of_port.iter().filter(|one| one.contributor == "rest").count(), 1);
        assert!(of_port.iter().all(|one| one.counted > 0 && one.bytes <= one.counted && one.time == until));
        assert!(of_port.windows(2).all(|pair| pair[0].bytes >= pair[1].bytes), "{of_port:#?}");
    }
    let jobs = largest_contributions(&site.client, until - window, until, 8).await.unwrap();
    let job =
        jobs.iter().find(|one| one.contributor == "job" && one.user.as_deref() == Some("alice")).unwrap();
    assert_eq!((job.operation.as_deref(), job.known.as_str()), (Some("alltoall"), "modelled"));
    assert!(job.job_key.as_deref().unwrap().contains(job.job.as_deref().unwrap()), "{job:#?}");
    // Nothing twice: what was read before is not in what comes after it.
    assert_eq!(largest_contributions(&site.client, until, until, 8).await.unwrap(), []);
    // The view writes names as alerts do.
    let labels =
        "SELECT DISTINCT label FROM public.link_contributors WHERE contributor IN ('job', 'host') ORDER BY 1";
    let labels: Vec<String> =
        site.client.query(labels, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(labels.contains(&"unmonitored host x7".to_owned()), "{labels:?}");
    assert!(
        labels.iter().any(|label| label.starts_with("alltoall of job ") && label.ends_with(" (alice)")),
        "{labels:?}"
    );
}

#[tokio::test]
async fn what_arrives_late_is_made_again() {
    check_late(Site::new(90).await).await;
}

async fn check_late(mut site: Site) {
    // Nothing of bob is there.
    site.run(60, Some(1)).await;
    site.begin_with(20.0).await;
    let made = site.make().await;
    assert!(made.windows >= 3 && made.late == 0, "{made:?}");
    let before = site.rows(LEAF[0], 4, 40.0).await;
    assert!(!before.contains_key("job bob isend"), "{before:#?}");
    crate::columnstore::to_columns(&site.client).await;
    for second in 1..=60_u32 {
        let messages = u64::from(second) * BOB / MESSAGE_COUNTED;
        let batch = site.traffic(1, f64::from(second), messages);
        site.write(11, batch).await;
    }
    let waiting = "UPDATE internal.link_share_late SET noted_at = noted_at - INTERVAL '1 minute'";
    assert!(site.client.execute(waiting, &[]).await.unwrap() > 0);
    let made = site.make().await;
    assert!(made.late >= 3, "{made:?}");
    let after = site.rows(LEAF[0], 4, 40.0).await;
    let whole = (ALICE + BOB + STRANGER) * 10;
    assert!(is_near(after["job bob isend"].0, BOB * 10, whole, 0.5), "{after:#?}");
    assert!(is_near(after["job alice alltoall"].0, ALICE * 10, whole, 0.5), "{after:#?}");
    site.check_sums().await;
    assert_eq!(site.make().await.late, 0, "each is made once");
}

#[tokio::test]
async fn another_server_goes_on_where_one_ended() {
    for form in [Form::Wholes, Form::Changes] {
        check_another(Site { form, ..Site::new(60).await }).await;
    }
}

async fn check_another(mut site: Site) {
    site.run(30, None).await;
    site.begin_with(0.0).await;
    let first = site.make().await;
    assert!(first.windows >= 2, "{first:?}");
    // A new one has cached nothing; time has passed and more is there.
    site.cache = LinkShareCache::default();
    let back = "UPDATE internal.link_share_state SET computed_until = $1";
    let time = UNIX_EPOCH + Duration::from_nanos(site.at(10.0) as u64);
    site.client.execute(back, &[&time]).await.unwrap();
    site.client.execute("DELETE FROM internal.link_shares WHERE time > $1", &[&time]).await.unwrap();
    let second = site.make().await;
    assert_eq!(second.windows, first.windows - 1);
    let rows = site.rows(LEAF[0], 4, 20.0).await;
    let whole = (ALICE + BOB + STRANGER) * 10;
    assert!(is_near(rows["job alice alltoall"].0, ALICE * 10, whole, 0.5), "{rows:#?}");
    site.check_sums().await;
}

#[tokio::test]
async fn groups_have_names_and_without_jobs_everything_is_hosts() {
    let mut site = Site::new(60).await;
    site.groups = Groups::new([("visitors".to_owned(), vec!["x*".to_owned()])]);
    for tick in 0..=6 {
        site.sweep(f64::from(tick) * 5.0 + 0.3).await;
    }
    site.begin_with(0.0).await;
    assert!(site.make().await.windows >= 2);
    let rows = site.rows(LEAF[0], 4, 20.0).await;
    let whole = (ALICE + BOB + STRANGER) * 10;
    assert!(is_near(rows["group visitors"].0, STRANGER * 10, whole, 0.5), "{rows:#?}");
    assert!(is_near(rows["host n1"].0, ALICE * 10, whole, 0.5), "{rows:#?}");
    site.check_sums().await;
}
