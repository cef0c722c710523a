//! The links on a job's way: whose bytes are on those that were full, what the job's own bytes need at its hosts' ports, and links
//! that are slower than their peers.

use super::FRESH;
use super::places::Places;
use crate::link_shares::{self, ContributorKey, JobLabel, JobPort, PortPlace, ShareRow, Source};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;
use throughline_store::Error;
use throughline_store::SHARE_WINDOW;
use throughline_store::sql_time::moment;
use throughline_verdicts::evidence::{Contribution, IdealTime, Link, LinkWindow, Peers, Rank};
use tokio_postgres::{Client, Row};

/// Links that are looked at, the most utilised first.
const LINKS_MAX: i64 = 64;

/// From this part of its speed on, at its peak, a link's windows are read.
const BUSY: f64 = 0.5;

/// Windows with their contributors that are read of all links.
const ROWS_MAX: i64 = 100_000;

/// From so many errors on it is read in how many packets.
const ERRORS: i64 = 100;

/// Bytes and links of a job.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub links: Vec<Link>,
    /// Bytes on ports of its hosts, by port and operation.
    own: Vec<(i64, String, i64)>,
    /// Errors of what arrived at ports of links and of hosts, by port.
    errors: HashMap<i64, i64>,
}

#[allow(clippy::cast_precision_loss)] // below 2^53
fn number(value: i64) -> f64 {
    value as f64
}

/// # Errors
/// The database's.
pub(super) async fn of_job(
    client: &Client,
    job: i64,
    places: &Places,
    range: (i64, i64),
    source: &Source,
    known: &mut KnownPorts,
) -> Result<Links, Error> {
    let sums = source.by_minute();
    let (_, ports) = link_shares::of_job(client, job, range.0, range.1, LINKS_MAX, &sums).await?;
    if ports.is_empty() {
        let errors = errors(client, &places.all(), range).await?;
        return Ok(Links { errors, ..Links::default() });
    }
    let own = link_shares::operations_on(client, job, &places.all(), range, &sums).await?;
    let ids: Vec<i64> = ports.iter().map(|port| port.port).collect();
    known.read(client, &ids).await?;
    let busy: Vec<i64> = ports.iter().filter(|port| is_busy(port)).map(|port| port.port).collect();
    let rows = if busy.is_empty() {
        Vec::new()
    } else {
        link_shares::windows_of(client, job, &busy, range, source, ROWS_MAX).await?
    };
    let jobs: HashSet<i64> = rows.iter().filter_map(|row| row.who.job).collect();
    let labels = link_shares::job_labels(client, &jobs.into_iter().collect::<Vec<_>>()).await?;
    let arriving: Vec<i64> = ids.iter().filter_map(|id| known.0.get(id)?.remote).collect();
    let errors = errors(client, &[arriving, places.all()].concat(), range).await?;
    let packets = packets(client, known, &ids, &errors, range).await?;
    let mut windows = windows(job, &rows, &labels);
    let link = |port: &JobPort| {
        let of_port = known.0.get(&port.port);
        let errors = of_port.and_then(|port| errors.get(&port.remote?)).copied();
        Link {
            name: of_port.map(|port| port.name.clone()).unwrap_or_default(),
            bytes_per_second: number(port.bytes_per_second),
            peers: of_port.and_then(|port| port.peers),
            errors: errors.map(i64::unsigned_abs),
            packets: packets.get(&port.port).copied().map(i64::unsigned_abs),
            windows: windows.remove(&port.port).unwrap_or_else(|| vec![one_window(port)]),
        }
    };
    let links = ports.iter().map(link).collect();
    Ok(Links { links, own, errors })
}

fn is_busy(port: &JobPort) -> bool {
    let most = number(port.bytes_per_second) * SHARE_WINDOW.as_secs_f64();
    port.peak.is_some_and(|peak| number(peak) >= BUSY * most)
}

/// Of a link that was never full the sums of all windows are enough.
#[allow(clippy::cast_precision_loss)] // windows
fn one_window(port: &JobPort) -> LinkWindow {
    LinkWindow {
        from_ms: 0,
        seconds: port.counted_windows as f64 * SHARE_WINDOW.as_secs_f64(),
        counted: port.counted.map_or(0.0, number),
        wait_ratio: None,
        own: vec![Contribution {
            name: String::new(),
            job: None,
            bytes: number(port.own.bytes),
            low: number(port.own.low),
            high: number(port.own.high),
        }],
        others: Vec::new(),
    }
}

/// By port, of the windows in which it was read.
fn windows(job: i64, rows: &[ShareRow], labels: &HashMap<i64, JobLabel>) -> HashMap<i64, Vec<LinkWindow>> {
    let mut all: HashMap<i64, BTreeMap<i64, LinkWindow>> = HashMap::new();
    for row in rows {
        let window = all.entry(row.port).or_default().entry(row.to).or_default();
        if row.who.contributor == "rest" {
            #[allow(clippy::cast_precision_loss)] // windows
            let seconds = row.windows as f64 * SHARE_WINDOW.as_secs_f64();
            window.seconds = seconds;
            #[allow(clippy::cast_possible_truncation)] // minutes
            let length = (seconds * 1e3) as i64;
            window.from_ms = row.to - length;
            window.counted = row.counted.map_or(0.0, number);
        }
        let contribution = contribution(job, row, labels);
        if row.who.job == Some(job) {
            window.own.push(contribution);
        } else if !matches!(row.who.contributor.as_str(), "rest" | "other") {
            window.others.push(contribution);
        }
    }
    let is_read = |window: &LinkWindow| window.seconds > 0.0 && window.counted > 0.0;
    all.into_iter().map(|(port, windows)| (port, windows.into_values().filter(is_read).collect())).collect()
}

fn contribution(job: i64, row: &ShareRow, labels: &HashMap<i64, JobLabel>) -> Contribution {
    let label = row.who.job.and_then(|job| labels.get(&job));
    let is_own = row.who.job == Some(job);
    let name = match &row.who {
        ContributorKey { operation: Some(operation), .. } if is_own => operation.clone(),
        who => link_shares::label(who, label),
    };
    let other = label.filter(|_| !is_own).map(|label| label.key.clone());
    Contribution {
        name,
        job: other,
        bytes: number(row.part.bytes),
        low: number(row.part.low),
        high: number(row.part.high.max(row.part.bytes)),
    }
}

/// What changes little of ports, and costs most to read.
#[derive(Debug, Default)]
pub(super) struct KnownPorts(HashMap<i64, KnownPort>);

#[derive(Debug)]
struct KnownPort {
    since: Instant,
    /// `leaf1[5] → spine1[1]`.
    name: String,
    /// The port at the other end.
    remote: Option<i64>,
    /// The same switch's links to the same kind of node, where there are three or more.
    peers: Option<Peers>,
}

const PEERS: &str = "
    WITH own AS MATERIALIZED (
        SELECT b.port_id, k.ib_node_id, n.type AS remote_type, b.rate_bytes_per_second AS speed
        FROM internal.ib_port b JOIN internal.ib_port_key k ON k.id = b.port_id
        JOIN internal.ib_port_key r ON r.id = b.remote_port_id
        LEFT JOIN internal.ib_node n ON n.ib_node_id = r.ib_node_id AND n.valid_to IS NULL
        WHERE b.port_id = ANY($1) AND b.valid_to IS NULL
    ), peers AS (
        SELECT o.ib_node_id, o.remote_type, array_agg(b.rate_bytes_per_second::float8) AS speeds
        FROM (SELECT DISTINCT ib_node_id, remote_type FROM own) o
        JOIN internal.ib_port_key k ON k.ib_node_id = o.ib_node_id
        JOIN internal.ib_port b ON b.port_id = k.id AND b.valid_to IS NULL AND b.rate_bytes_per_second > 0
        JOIN internal.ib_port_key r ON r.id = b.remote_port_id
        JOIN internal.ib_node n ON n.ib_node_id = r.ib_node_id AND n.valid_to IS NULL AND n.type = o.remote_type
        GROUP BY 1, 2 HAVING count(*) >= 3
    )
    SELECT o.port_id, o.speed::float8, p.speeds FROM own o
    JOIN peers p ON p.ib_node_id = o.ib_node_id AND p.remote_type = o.remote_type";

impl KnownPorts {
    /// Forgets what is old.
    pub fn forget(&mut self) {
        self.0.retain(|_, port| port.since.elapsed() < FRESH);
    }

    /// Reads what is not known of these ports.
    async fn read(&mut self, client: &Client, ids: &[i64]) -> Result<(), Error> {
        let ids: Vec<i64> = ids.iter().copied().filter(|id| !self.0.contains_key(id)).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let mut places = link_shares::places(client, &ids).await?;
        let remote: Vec<i64> = places.values().filter_map(|place| place.remote).collect();
        places.extend(link_shares::places(client, &remote).await?);
        let rows = client.query(PEERS, &[&ids]).await.map_err(Error::sql("reading speeds of links"))?;
        let peers = |row: &Row| Some((row.get(0), Peers::of(row.get(1), &row.get::<_, Vec<f64>>(2))?));
        let peers: HashMap<i64, Peers> = rows.iter().filter_map(peers).collect();
        for id in ids {
            let Some(place) = places.get(&id) else { continue };
            let to = place.remote.and_then(|remote| places.get(&remote)).map(PortPlace::label);
            let name = to.map_or_else(|| place.label(), |to| format!("{} → {to}", place.label()));
            let port = KnownPort {
                since: Instant::now(),
                name,
                remote: place.remote,
                peers: peers.get(&id).copied(),
            };
            self.0.insert(id, port);
        }
        Ok(())
    }
}

/// Errors of what arrived at each of these ports.
async fn errors(client: &Client, ports: &[i64], (from, to): (i64, i64)) -> Result<HashMap<i64, i64>, Error> {
    let sql = format!(
        "SELECT port_id, sum(errors)::bigint FROM internal.ib_port_minutes
         WHERE port_id = ANY($1) AND time >= {} AND time < {} AND errors IS NOT NULL GROUP BY port_id",
        moment(from),
        moment(to)
    );
    let rows = client.query(&sql, &[&ports]).await.map_err(Error::sql("counting errors of links"))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Packets of directions, counted where they arrive, of links with many errors.
async fn packets(
    client: &Client,
    known: &KnownPorts,
    ids: &[i64],
    errors: &HashMap<i64, i64>,
    range: (i64, i64),
) -> Result<HashMap<i64, i64>, Error> {
    let mut all = HashMap::new();
    for (id, remote) in ids.iter().filter_map(|id| Some((*id, known.0.get(id)?.remote?))) {
        if errors.get(&remote).is_some_and(|errors| *errors >= ERRORS)
            && let Some(packets) = packets_at(client, remote, range).await?
        {
            all.insert(id, packets);
        }
    }
    Ok(all)
}

/// Packets that a port received, as far as readings are retained.
async fn packets_at(client: &Client, port: i64, (from, to): (i64, i64)) -> Result<Option<i64>, Error> {
    let sql = format!(
        "SELECT sum(packets)::bigint FROM (
             SELECT max(receive_packets) - min(receive_packets) AS packets FROM public.ib_port_readings({from}, {to})
             WHERE port_id = $1 AND time < {to} GROUP BY epoch) e",
        from = moment(from),
        to = moment(to)
    );
    let row = client.query_one(&sql, &[&port]).await.map_err(Error::sql("counting a link's packets"))?;
    Ok(row.get(0))
}

impl Links {
    /// Errors at both ends of the links of ranks' hosts.
    pub fn put_errors(&self, ranks: &mut [Rank], places: &Places) {
        for rank in ranks {
            let ports = places.ports.get(&rank.host).into_iter().flatten();
            let ends = ports.flat_map(|port| [Some(port.own), port.remote]).flatten();
            let errors = ends.filter_map(|port| self.errors.get(&port)).copied();
            rank.port_errors = errors.map(i64::unsigned_abs).reduce(u64::saturating_add);
        }
    }

    /// Seconds that operations' bytes need at their hosts' ports, summed over ranks; by so many times the range.
    pub fn ideals(&self, ranks: &[Rank], places: &Places, times: f64) -> Vec<IdealTime> {
        let directions = places.directions();
        let mut hosts: BTreeMap<(&str, &str), (f64, f64)> = BTreeMap::new();
        for (port, operation, bytes) in &self.own {
            let Some((host, is_sent)) = directions.get(port) else { continue };
            let (sent, received) = hosts.entry((operation, host)).or_default();
            *if *is_sent { sent } else { received } += number(*bytes);
        }
        let mut by: BTreeMap<&str, f64> = BTreeMap::new();
        for ((operation, host), (sent, received)) in hosts {
            let speed = places.speed(host);
            if speed > 0.0 {
                // Ranks of a host share its ports, and are in the operation at the same time.
                #[allow(clippy::cast_precision_loss)] // ranks
                let there = ranks.iter().filter(|rank| rank.host == host).count() as f64;
                *by.entry(operation).or_default() += sent.max(received) / speed * there * times;
            }
        }
        by.into_iter()
            .map(|(operation, seconds)| IdealTime { operation: operation.to_owned(), seconds })
            .collect()
    }
}
