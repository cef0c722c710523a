//! Which fabric a crawler sees: by its switches, whatever prefixes, managers, LIDs and names are.

use std::time::Duration;

use crate::batches::{PREFIX, SECOND, entry, port_sample};
use throughline_sample::catalogue::TRANSMIT_DATA_BYTES;
use throughline_sample::wire::{
    Batch, FabricFingerprint, IbNodeInfo, IbPortInfo, IbPortSample, IbTopologyMark, SelfStat,
};
use throughline_store::{
    Database, TermClient, TermGrant, TermRequest, Writer, fabric_states, rename_fabric, testing,
};
use tokio_postgres::Client;
use uuid::Uuid;

/// A crawler that sees these switches.
struct Crawler {
    id: Uuid,
    terms: TermClient,
    writer: Writer,
    sequence: u64,
    seen: FabricFingerprint,
    /// Now, UTC nanoseconds: the server notes its own time beside it.
    began: i64,
}

impl Crawler {
    fn new(database: &Database, switches: impl IntoIterator<Item = u64>) -> Crawler {
        Crawler {
            id: Uuid::new_v4(),
            terms: TermClient::new(database.clone()),
            writer: Writer::new(database.clone()),
            sequence: 0,
            seen: seeing(switches),
            began: now(),
        }
    }

    fn request(&self) -> TermRequest {
        TermRequest {
            fabric: self.seen.clone(),
            allowed: Vec::new(),
            accept: false,
            crawler: self.id,
            name: "host".to_owned(),
            since: self.began,
            lease: Duration::from_secs(600),
            release: false,
        }
    }

    async fn ask(&mut self) -> TermGrant {
        self.terms.ask(&self.request()).await.unwrap()
    }

    /// The name of the fabric that it sweeps.
    async fn swept(&mut self) -> String {
        let grant = self.ask().await;
        assert!(grant.granted, "{grant:?}");
        grant.fabric
    }

    async fn unclear(&mut self) -> String {
        let grant = self.ask().await;
        assert!(!grant.granted && grant.fabric.is_empty() && grant.refused.is_empty(), "{grant:?}");
        grant.undecided
    }

    /// Gives the lease back, for others.
    async fn end(&mut self) {
        let back = TermRequest { release: true, ..self.request() };
        self.terms.ask(&back).await.unwrap();
    }

    fn sees(&mut self, switches: impl IntoIterator<Item = u64>) {
        self.seen = FabricFingerprint { name: self.seen.name.clone(), ..seeing(switches) };
    }

    /// Writes a whole discovery: each switch with a port of this GUID, and a reading of each.
    async fn write(&mut self, second: i64, port_guid: u64) -> Option<String> {
        self.sequence += 1;
        let time = self.began + second * SECOND;
        let port = IbPortInfo { port: 1, port_guid, lid: 7, ..IbPortInfo::default() };
        let node = |guid: &u64| IbNodeInfo {
            generation: time,
            guid: *guid,
            r#type: "ca".to_owned(),
            description: "n1 mlx5_0".to_owned(),
            lid: 7,
            ports: vec![port.clone()],
            ..IbNodeInfo::default()
        };
        let sample = |guid: &u64| {
            let sample = port_sample(1, second, 0, &[(&TRANSMIT_DATA_BYTES, *guid)]);
            IbPortSample { node_guid: *guid, time, epoch: self.began, ..sample }
        };
        let guids = self.seen.guids();
        let batch = Batch {
            fabric: Some(self.seen.clone()),
            ib_nodes: guids.iter().map(node).collect(),
            ib_ports: guids.iter().map(sample).collect(),
            ib_topology_marks: vec![IbTopologyMark { generation: time, time, ..IbTopologyMark::default() }],
            ..Batch::default()
        };
        let outcome = self.writer.write(&[entry(self.id, self.sequence, batch)]).await.unwrap();
        outcome.held_back.first().map(|(_, reason)| reason.clone())
    }
}

fn seeing(switches: impl IntoIterator<Item = u64>) -> FabricFingerprint {
    FabricFingerprint { subnet_prefix: PREFIX, ..FabricFingerprint::of_guids(switches, []) }
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap()
}

async fn database() -> (Database, Client) {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    (database, client)
}

async fn number(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// Kinds of events about fabrics, each once.
async fn events(client: &Client) -> Vec<String> {
    let query = "SELECT DISTINCT kind FROM internal.events WHERE kind LIKE 'fabric.%' ORDER BY 1";
    client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// GUIDs of the nodes that a fabric has now.
async fn nodes(client: &Client, fabric: &str) -> Vec<String> {
    let query = "SELECT k.guid FROM internal.ib_node n JOIN internal.ib_node_key k ON k.id = n.ib_node_id \
                 JOIN internal.fabric f ON f.id = k.fabric_id WHERE f.name = $1 AND n.valid_to IS NULL ORDER BY 1";
    client.query(query, &[&fabric]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn equal_prefixes_descriptions_and_lids_are_two_fabrics() {
    let (database, client) = database().await;
    let mut a = Crawler::new(&database, [0xa0000, 0xa0100]);
    let mut b = Crawler::new(&database, [0xb0000, 0xb0100]);
    assert_eq!(a.swept().await, "fabric-0a0000");
    assert_eq!(b.swept().await, "fabric-0b0000", "both sweep at once");
    assert_eq!((a.write(1, 1).await, b.write(1, 2).await), (None, None));
    assert_eq!(nodes(&client, "fabric-0a0000").await, ["0x00000000000a0000", "0x00000000000a0100"]);
    assert_eq!(nodes(&client, "fabric-0b0000").await, ["0x00000000000b0000", "0x00000000000b0100"]);
    const OWN: &str = "SELECT count(*) FROM internal.ib_port_counters c JOIN public.ib_port_named p USING (port_id) \
                       WHERE c.transmit_data_bytes = ('x' || substr(p.guid, 3))::bit(64)::bigint \
                         AND right(p.fabric, 6) LIKE left(right(p.guid, 6), 2) || '%'";
    assert_eq!(number(&client, OWN).await, 4, "each reading is of its own fabric");

    // A second crawler stands by for the one that it sees.
    let mut other = Crawler::new(&database, [0xb0000, 0xb0100]);
    let grant = other.ask().await;
    assert_eq!((grant.granted, grant.fabric.as_str()), (false, "fabric-0b0000"));
    // They fail over in any order, and no fabric changes.
    a.end().await;
    b.end().await;
    assert_eq!(other.swept().await, "fabric-0b0000");
    assert_eq!(a.swept().await, "fabric-0a0000");
    assert!(events(&client).await.is_empty());
}

#[tokio::test]
async fn prefix_and_manager_are_attributes_with_times() {
    let (database, client) = database().await;
    let mut crawler = Crawler::new(&database, [1, 2, 3]);
    crawler.seen.subnet_prefix = 0;
    let name = crawler.swept().await;
    crawler.seen.subnet_prefix = PREFIX;
    crawler.seen.subnet_manager_guid = 0x11;
    assert_eq!(crawler.swept().await, name, "the prefix was set late");
    crawler.seen.subnet_manager_guid = 0x22;
    assert_eq!(crawler.swept().await, name, "the manager failed over");
    crawler.seen.subnet_manager_guid = 0;
    assert_eq!(crawler.swept().await, name, "nobody knows the manager now");
    let query =
        "SELECT prefix, subnet_manager, valid_to IS NULL FROM internal.fabric_attribute ORDER BY valid_from";
    let rows = client.query(query, &[]).await.unwrap();
    let rows: Vec<(String, Option<String>, bool)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let (prefix, none) = ("0xfe80000000000000".to_owned(), "0x0000000000000000".to_owned());
    let manager = |guid: u64| Some(throughline_sample::Guid(guid).to_string());
    assert_eq!(
        rows,
        [(none, None, false), (prefix.clone(), manager(0x11), false), (prefix, manager(0x22), true)]
    );
    assert_eq!(events(&client).await, ["fabric.prefix"]);
    assert_eq!(number(&client, "SELECT count(*) FROM internal.fabric").await, 1);
}

#[tokio::test]
async fn a_name_is_given_once_and_one_row_changes_with_it() {
    let (database, client) = database().await;
    let mut crawler = Crawler::new(&database, [0xabcdef, 0xfff000]);
    assert_eq!(crawler.swept().await, "fabric-abcdef");
    let stat = SelfStat {
        time: now(),
        source: "mad".into(),
        name: "mads_sent".into(),
        value: 1.0,
        ..SelfStat::default()
    };
    let batch = Batch { fabric: Some(crawler.seen.clone()), self_stats: vec![stat], ..Batch::default() };
    crawler.writer.write(&[entry(crawler.id, 1, batch)]).await.unwrap();
    // Its lowest switch goes, and the name stays; another one with that end has more digits.
    crawler.sees([0xfff000]);
    assert_eq!(crawler.swept().await, "fabric-abcdef");
    let mut other = Crawler::new(&database, [0x1_23ab_cdef]);
    assert_eq!(other.swept().await, "fabric-3abcdef");

    rename_fabric(&client, "fabric-abcdef", "compute").await.unwrap();
    assert_eq!(crawler.swept().await, "compute");
    const SHOWN: &str =
        "SELECT count(*) FROM public.self_stats WHERE instance = 'compute' AND instance_key LIKE 'fabric:%'";
    assert_eq!(number(&client, SHOWN).await, 1, "what was stored before has the name");
    for (old, new, words) in [
        ("compute", "fabric-3abcdef", "is the name of a fabric already"),
        ("nothing", "storage", "there are compute, fabric-3abcdef"),
        ("compute", "a b", "letters, digits"),
    ] {
        let error = rename_fabric(&client, old, new).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let names: Vec<String> = fabric_states(&client).await.unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["compute", "fabric-3abcdef"]);
}

#[tokio::test]
async fn a_configured_name_of_another_fabric_is_refused_with_both_names() {
    let (database, client) = database().await;
    let mut a = Crawler::new(&database, [1, 2]);
    a.seen.name = "compute".to_owned();
    assert_eq!(a.swept().await, "compute");
    // The same file on the crawler of a new fabric, and nobody holds a lease any more.
    a.end().await;
    let expire = "UPDATE internal.crawler_term SET expires_at = now() - interval '1 second'";
    client.execute(expire, &[]).await.unwrap();
    let mut b = Crawler::new(&database, [0xb0000]);
    b.seen.name = "compute".to_owned();
    let refused = b.ask().await;
    assert!(!refused.granted && refused.fabric.is_empty());
    assert!(["compute", "fabric-0b0000"].iter().all(|name| refused.refused.contains(name)), "{refused:?}");
    let reason = b.write(1, 1).await.unwrap();
    assert!(reason.contains("fabric-0b0000"), "{reason}");
    assert_eq!(number(&client, "SELECT count(*) FROM internal.fabric").await, 1);
    // And on the crawler of one that is known.
    b.seen.name.clear();
    assert_eq!(b.swept().await, "fabric-0b0000");
    b.seen.name = "compute".to_owned();
    let refused = b.ask().await.refused;
    assert!(["compute", "fabric-0b0000"].iter().all(|name| refused.contains(name)), "{refused}");
    // A name that nobody has is as good as none: fabrics keep theirs.
    b.seen.name = "storage".to_owned();
    assert_eq!(b.swept().await, "fabric-0b0000");
    // A certificate that is for other fabrics.
    let request = TermRequest { allowed: vec!["compute".to_owned()], ..b.request() };
    let refused = b.terms.ask(&request).await.unwrap().refused;
    assert!(["compute", "fabric-0b0000"].iter().all(|name| refused.contains(name)), "{refused}");
}

#[tokio::test]
async fn a_cable_between_two_fabrics_ends_nothing_until_it_is_accepted() {
    let (database, client) = database().await;
    let mut a = Crawler::new(&database, 0xa00..0xa04);
    let mut b = Crawler::new(&database, 0xb00..0xb04);
    let names = [a.swept().await, b.swept().await];
    assert_eq!((a.write(1, 1).await, b.write(1, 2).await), (None, None));
    let before = [nodes(&client, &names[0]).await, nodes(&client, &names[1]).await];
    let both = || (0xa00..0xa04).chain(0xb00..0xb04);
    // The cable is laid: both crawlers see all switches.
    a.sees(both());
    b.sees(both());
    for crawler in [&mut a, &mut b] {
        let reason = crawler.unclear().await;
        assert!(names.iter().all(|name| reason.contains(name)), "{reason}");
        assert!(crawler.write(2, 3).await.is_some(), "what is read meanwhile goes back to the crawler");
    }
    assert_eq!(events(&client).await, ["fabric.merged"]);
    assert_eq!([nodes(&client, &names[0]).await, nodes(&client, &names[1]).await], before);
    // It is removed: each is what it was.
    a.sees(0xa00..0xa04);
    b.sees(0xb00..0xb04);
    assert_eq!([a.swept().await, b.swept().await], names);
    assert_eq!((a.write(3, 1).await, b.write(3, 2).await), (None, None));
    assert_eq!([nodes(&client, &names[0]).await, nodes(&client, &names[1]).await], before);
    // It is laid for good.
    a.sees(both());
    let accepted = a.terms.ask(&TermRequest { accept: true, ..a.request() }).await.unwrap();
    assert_eq!((accepted.granted, accepted.fabric.as_str()), (true, names[0].as_str()));
    assert_eq!(a.write(4, 1).await, None);
    assert_eq!(nodes(&client, &names[0]).await.len(), 8);
    assert!(nodes(&client, &names[1]).await.is_empty(), "it is a part of the other one");
    b.sees(both());
    assert_eq!(b.ask().await.fabric, names[0], "and its crawler stands by");
    // And removed once more.
    a.sees(0xa00..0xa04);
    b.sees(0xb00..0xb04);
    assert_eq!([a.swept().await, b.swept().await], names);
    assert_eq!((a.write(5, 1).await, b.write(5, 2).await), (None, None));
    assert_eq!([nodes(&client, &names[0]).await, nodes(&client, &names[1]).await], before);
    assert_eq!(events(&client).await, ["fabric.merged", "fabric.split"]);
}

#[tokio::test]
async fn of_a_fabric_that_is_torn_apart_the_larger_part_stays_it() {
    let (database, client) = database().await;
    let mut whole = Crawler::new(&database, 1..=10);
    let name = whole.swept().await;
    let mut part = Crawler::new(&database, 8..=10);
    let reason = part.unclear().await;
    assert!(reason.contains(&name), "{reason}");
    assert_eq!(events(&client).await, ["fabric.split"]);
    whole.sees(1..=7);
    assert_eq!(whole.swept().await, name);
    let rest = part.swept().await;
    assert_ne!(rest, name, "nothing of it is in the larger part any more");
    // What is left of a fabric that is mostly off is that fabric, once it is accepted.
    whole.sees(1..=2);
    whole.unclear().await;
    let accepted = whole.terms.ask(&TermRequest { accept: true, ..whole.request() }).await.unwrap();
    assert_eq!(accepted.fabric, name);
}

#[tokio::test]
async fn a_fabric_without_switches_is_known_by_its_hosts() {
    let (database, client) = database().await;
    let of = |ports: [u64; 2]| FabricFingerprint {
        subnet_prefix: PREFIX,
        ..FabricFingerprint::of_guids([], ports)
    };
    let mut a = Crawler::new(&database, []);
    let mut b = Crawler::new(&database, []);
    assert!(a.ask().await.refused.contains("does not say"), "nothing is seen");
    (a.seen, b.seen) = (of([0x11, 0x12]), of([0x21, 0x22]));
    assert_eq!([a.swept().await, b.swept().await], ["fabric-000011", "fabric-000021"]);
    assert_eq!(number(&client, "SELECT count(*) FROM internal.fabric").await, 2);
}

#[tokio::test]
async fn a_port_guid_in_two_fabrics_joins_neither() {
    let (database, client) = database().await;
    let mut a = Crawler::new(&database, [0xa0000]);
    let mut b = Crawler::new(&database, [0xb0000]);
    let name = a.swept().await;
    b.swept().await;
    assert_eq!((a.write(1, 0x77).await, b.write(1, 0x88).await), (None, None));
    let of = async |guid: &str| -> Option<String> {
        let query = "SELECT f.name FROM internal.fabric_port_of($1, NULL, 1) w JOIN internal.ib_port_key p ON p.id = w.port_id \
                     JOIN internal.ib_node_key k ON k.id = p.ib_node_id JOIN internal.fabric f ON f.id = k.fabric_id";
        client.query_opt(query, &[&guid]).await.unwrap().map(|row| row.get(0))
    };
    let guid = "0x0000000000000077";
    assert_eq!(of(guid).await, Some(name.clone()));
    // A copied GUID: it is in both at once.
    assert_eq!(b.write(2, 0x77).await, None);
    assert_eq!(of(guid).await, None);
    let hour_ago = "UPDATE internal.fabric SET observed_at = now() - interval '1 hour'; \
                    UPDATE internal.ib_port SET valid_from = valid_from - interval '1 hour'";
    client.batch_execute(hour_ago).await.unwrap();
    a.swept().await;
    assert_eq!(events(&client).await, ["fabric.port_shared"]);
    // By the adapter's GUID alone it is found where only one fabric has it.
    let query = "SELECT count(w.port_id) FROM internal.fabric_port_of(NULL, '0x00000000000a0000', 1) w";
    assert_eq!(number(&client, query).await, 1);
}
