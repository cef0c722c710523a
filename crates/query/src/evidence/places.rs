//! Where a job's ranks are, and the ports of the fabric that their hosts have.

use crate::links::{Ranks, job_ports};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use throughline_store::Error;
use throughline_verdicts::evidence::Rank;
use tokio_postgres::Client;

/// A port of a host that a job uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HostPort {
    /// The adapter's port, by its number in the tables: what the host sends.
    pub own: i64,
    /// The switch's port at the other end: what the host receives.
    pub remote: Option<i64>,
    /// Bytes per second; 0 where it is not known.
    pub speed: i64,
}

/// Hosts and their ports.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// By host.
    pub ports: BTreeMap<String, Vec<HostPort>>,
    /// By host: the switch that it is connected to.
    switches: HashMap<String, String>,
}

/// By the adapters that hosts name.
const PORTS: &str = "
    WITH hosts AS (
        SELECT DISTINCT k.name, u.guid
        FROM internal.job_rank r
        JOIN internal.node_key k ON k.id = r.node_id
        JOIN internal.node n ON n.node_id = r.node_id AND n.valid_to IS NULL
        CROSS JOIN unnest(n.hca_guids) u (guid)
        WHERE r.job_id = $1
    )
    SELECT h.name, p.id, b.remote_port_id, coalesce(b.rate_bytes_per_second, 0), s.guid
    FROM internal.ib_port_key p
    JOIN internal.ib_node_key g ON g.id = p.ib_node_id
    JOIN hosts h ON h.guid = g.guid
    LEFT JOIN internal.ib_port b ON b.port_id = p.id AND b.valid_to IS NULL
    LEFT JOIN internal.ib_port_key q ON q.id = b.remote_port_id
    LEFT JOIN internal.ib_node_key s ON s.id = q.ib_node_id
    WHERE p.id = ANY($2) ORDER BY 1, 2";

/// # Errors
/// The database's.
pub(super) async fn of_job(client: &Client, id: i64) -> Result<Places, Error> {
    let ports: Vec<i64> = job_ports(client, Ranks::Of(id)).await?.iter().map(|port| port.port_id).collect();
    let rows = client.query(PORTS, &[&id, &ports]).await;
    let rows = rows.map_err(Error::sql("reading the ports of a job's hosts"))?;
    let mut places = Places::default();
    for row in &rows {
        let host: String = row.get(0);
        let port = HostPort { own: row.get(1), remote: row.get(2), speed: row.get(3) };
        if let Some(switch) = row.get::<_, Option<String>>(4) {
            places.switches.entry(host.clone()).or_insert(switch);
        }
        places.ports.entry(host).or_default().push(port);
    }
    Ok(places)
}

impl Places {
    /// What ranks have of their hosts.
    pub fn put_into(&self, ranks: &mut [Rank]) {
        for rank in ranks {
            let ports = self.ports.get(&rank.host).map_or(&[][..], Vec::as_slice);
            let speed: i64 = ports.iter().map(|port| port.speed).sum();
            #[allow(clippy::cast_precision_loss)] // below 2^53
            let speed = (speed > 0).then_some(speed as f64);
            rank.port_bytes_per_second = speed;
        }
    }

    /// The switch of each of these hosts, as a number; none where one of them is not known.
    pub fn leaves(&self, hosts: &BTreeMap<&str, u32>) -> Vec<u32> {
        let switches: Option<Vec<&String>> = hosts.keys().map(|host| self.switches.get(*host)).collect();
        let Some(switches) = switches else { return Vec::new() };
        let numbers: BTreeMap<&String, u32> =
            switches.iter().copied().collect::<BTreeSet<_>>().into_iter().zip(0..).collect();
        switches.into_iter().map(|switch| numbers[switch]).collect()
    }

    /// Bytes per second of all ports of a host.
    #[allow(clippy::cast_precision_loss)] // below 2^53
    pub fn speed(&self, host: &str) -> f64 {
        self.ports.get(host).map_or(0.0, |ports| ports.iter().map(|port| port.speed as f64).sum())
    }

    /// All ports, what hosts send and what they receive.
    pub fn all(&self) -> Vec<i64> {
        let both = |port: &HostPort| [Some(port.own), port.remote];
        self.ports.values().flatten().flat_map(both).flatten().collect()
    }

    /// Hosts and whether they send, by port.
    pub fn directions(&self) -> HashMap<i64, (&str, bool)> {
        let mut all = HashMap::new();
        for (host, ports) in &self.ports {
            for port in ports {
                all.insert(port.own, (host.as_str(), true));
                if let Some(remote) = port.remote {
                    all.insert(remote, (host.as_str(), false));
                }
            }
        }
        all
    }
}
