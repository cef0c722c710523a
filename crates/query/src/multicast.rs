//! Multicast groups as the subnet administrator reported them, with members; and the multicast packets that ports counted,
//! as pairs of readings one inside the other, so that two ports can be held against each other.

use crate::Horizons;
use crate::row_rules::{look_back_ms, rules};
use crate::time::{CLOCK_AHEAD_MS, QueryTime};
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use throughline_store::Error;
use throughline_store::rollup_kind::Kind;
use throughline_store::sql_time::moment;
use tokio_postgres::{Client, Row};

/// A reading has the time at which its answer came, and a counter was read up to one attempt at a request before. What
/// is to lie inside of something else lies so far inside, milliseconds.
pub const SLACK_MS: i64 = 500;

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Multicast GID, as an IPv6 address.
    pub mgid: String,
    /// Multicast LID.
    pub mlid: u16,
    /// Partition key.
    pub pkey: i32,
    /// Largest payload of a packet.
    pub mtu_bytes: Option<i32>,
    /// Rate that members must have.
    pub rate_bytes_per_second: Option<i64>,
    /// Service level.
    pub service_level: i32,
    /// What the MGID is known to be for.
    pub name: Option<String>,
    /// Members; `None` where they are not reported.
    pub member_count: Option<i32>,
    /// Whether their list is recorded.
    pub is_listed: bool,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The group's multicast GID.
    pub mgid: String,
    /// GUID of its port.
    pub port_guid: String,
    /// Bits: 1 full member, 2 non-member, 4 send-only.
    pub join_state: i32,
    /// The node's number in the tables and the port; `None` where no discovery found the port.
    pub port: Option<(i64, i32)>,
}

/// Groups of a subnet at a time, by multicast LID and GID.
///
/// # Errors
/// The database's.
pub async fn groups(client: &Client, subnet: i64, at: QueryTime) -> Result<Vec<Group>, Error> {
    let sql = format!(
        "SELECT mgid, mlid, pkey, mtu_bytes, rate_bytes_per_second, service_level, name, member_count, members IS NOT NULL
         FROM internal.ib_multicast_group g WHERE fabric_id = $1 AND {} ORDER BY mlid, mgid",
        at.valid("g")
    );
    let rows = client.query(&sql, &[&subnet]).await.map_err(Error::sql("reading multicast groups"))?;
    let group = |row: &Row| {
        Some(Group {
            mgid: row.get(0),
            mlid: u16::try_from(row.get::<_, i32>(1)).ok()?,
            pkey: row.get(2),
            mtu_bytes: row.get(3),
            rate_bytes_per_second: row.get(4),
            service_level: row.get(5),
            name: row.get(6),
            member_count: row.get(7),
            is_listed: row.get(8),
        })
    };
    Ok(rows.iter().filter_map(group).collect())
}

/// Members of all groups of a multicast LID at a time, by group and port GUID.
///
/// # Errors
/// The database's.
pub async fn members(client: &Client, subnet: i64, mlid: u16, at: QueryTime) -> Result<Vec<Member>, Error> {
    // All ports of a switch have the GUID of its port 0: the first one stands for it.
    let sql = format!(
        "WITH listed AS (
             SELECT g.mgid, m.key AS port_guid, m.value::integer AS join_state
             FROM internal.ib_multicast_group g, jsonb_each_text(g.members) m
             WHERE g.fabric_id = $1 AND g.mlid = $2 AND {group_valid}
         ), ports AS (
             SELECT DISTINCT ON (p.port_guid) p.port_guid, p.ib_node_id, p.port
             FROM internal.ib_port p JOIN internal.ib_node_key k ON k.id = p.ib_node_id AND k.fabric_id = $1
             WHERE {port_valid} ORDER BY p.port_guid, p.port
         )
         SELECT l.mgid, l.port_guid, l.join_state, p.ib_node_id, p.port
         FROM listed l LEFT JOIN ports p USING (port_guid) ORDER BY l.mgid, l.port_guid",
        group_valid = at.valid("g"),
        port_valid = at.valid("p"),
    );
    let rows = client
        .query(&sql, &[&subnet, &i32::from(mlid)])
        .await
        .map_err(Error::sql("reading members of a multicast group"))?;
    let member = |row: &Row| Member {
        mgid: row.get(0),
        port_guid: row.get(1),
        join_state: row.get(2),
        port: row.get::<_, Option<i64>>(3).zip(row.get(4)),
    };
    Ok(rows.iter().map(member).collect())
}

/// What a port counted from one reading to a later one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// When it was read first and last, milliseconds since 1970.
    pub from: i64,
    /// See `from`.
    pub to: i64,
    /// Multicast packets sent.
    pub sent: Option<i64>,
    /// Multicast packets received.
    pub received: Option<i64>,
}

impl Count {
    /// How long it is, seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // milliseconds
    pub fn seconds(&self) -> f64 {
        (self.to - self.from) as f64 / 1e3
    }
}

/// What ports counted, by their number in the tables: from the last reading before `begin`, or the first one after it, to
/// the newest one up to `at` (milliseconds; for the present those whose crawler's clock is ahead as well). Ports without
/// two readings of one epoch are left out.
///
/// # Errors
/// The database's.
pub async fn around(
    client: &Client,
    ports: &[i64],
    begin: i64,
    at: i64,
    is_latest: bool,
) -> Result<HashMap<i64, Count>, Error> {
    // All ports of a call are those of one crawler.
    let rules = rules(client, Kind::IbPorts, &ports[..ports.len().min(1)], begin, at).await?;
    let (oldest, end) = (begin - look_back_ms(&rules), at + if is_latest { CLOCK_AHEAD_MS } else { 0 });
    let (readings, with) = source(client, "$1", oldest, end).await?;
    let (oldest, begin, end) = (moment(oldest), moment(begin), moment(end));
    let same = "c.epoch = l.epoch AND c.time < l.time";
    let reading = |name: &str, condition: String, order: &str| reading(readings, name, &condition, order);
    let last = reading("l", format!("c.time > {oldest} AND c.time <= {end}"), "DESC");
    let before = reading("b", format!("c.time > {oldest} AND c.time <= {begin} AND {same}"), "DESC");
    let after = reading("f", format!("c.time > {begin} AND c.time <= {end} AND {same}"), "ASC");
    let since = |column: &str| format!("CASE WHEN b.time IS NOT NULL THEN b.{column} ELSE f.{column} END");
    let sql = format!(
        "{with} SELECT p.id, coalesce(b.time, f.time), l.time,
                {sent}, {received}
         FROM unnest($1::bigint[]) AS p (id) {last} {before} {after}
         WHERE l.time IS NOT NULL AND coalesce(b.time, f.time) IS NOT NULL",
        sent = increase(&since("multicast_transmit_packets"), "multicast_transmit_packets"),
        received = increase(&since("multicast_receive_packets"), "multicast_receive_packets"),
    );
    let rows =
        client.query(&sql, &[&ports]).await.map_err(Error::sql("reading multicast packets of ports"))?;
    Ok(rows.iter().map(|row| (row.get(0), count(row))).collect())
}

/// What ports counted inside of times: each port with the earliest and the latest time of a reading, milliseconds; in the
/// same order. `None` where there are not two readings of one epoch.
///
/// # Errors
/// The database's.
pub async fn inside(client: &Client, ranges: &[(i64, i64, i64)]) -> Result<Vec<Option<Count>>, Error> {
    let ports: Vec<i64> = ranges.iter().map(|range| range.0).collect();
    let earliest = ranges.iter().map(|range| range.1).min().unwrap_or_default();
    let latest = ranges.iter().map(|range| range.2).max().unwrap_or_default();
    let (readings, with) = source(client, "$1", earliest, latest).await?;
    // The constants let the planner leave out chunks.
    let within = format!("c.time >= {} AND c.time <= {}", moment(earliest), moment(latest));
    let time = |milliseconds: i64| {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default())
    };
    let (from, to): (Vec<SystemTime>, Vec<SystemTime>) =
        ranges.iter().map(|(_, from, to)| (time(*from), time(*to))).unzip();
    let last = reading(
        readings,
        "l",
        &format!("{within} AND c.time >= p.from_time AND c.time <= p.to_time"),
        "DESC",
    );
    let same = "c.time < l.time AND c.epoch = l.epoch";
    let first = reading(readings, "f", &format!("{within} AND c.time >= p.from_time AND {same}"), "ASC");
    let sql = format!(
        "{with} SELECT p.place::integer, f.time, l.time, {sent}, {received}
         FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[]) WITH ORDINALITY
              AS p (id, from_time, to_time, place) {last} {first}
         WHERE l.time IS NOT NULL AND f.time IS NOT NULL",
        sent = increase("f.multicast_transmit_packets", "multicast_transmit_packets"),
        received = increase("f.multicast_receive_packets", "multicast_receive_packets"),
    );
    let rows = client
        .query(&sql, &[&ports, &from, &to])
        .await
        .map_err(Error::sql("reading multicast packets inside of others"))?;
    let mut counts = vec![None; ranges.len()];
    for row in &rows {
        let place = usize::try_from(row.get::<_, i32>(0) - 1).ok();
        if let Some(slot) = place.and_then(|place| counts.get_mut(place)) {
            *slot = Some(count(row));
        }
    }
    Ok(counts)
}

/// Where readings of ports are, which a parameter has, and what to begin the statement with. Of hours that are packed only they are
/// unpacked once.
async fn source(client: &Client, ports: &str, from: i64, to: i64) -> Result<(&'static str, String), Error> {
    let source = Horizons::read(client).await?.source(Kind::IbPorts, from, to);
    const ROWS: &str = "internal.ib_port_counters";
    if source == ROWS {
        return Ok((ROWS, String::new()));
    }
    let with = format!(
        "WITH unpacked AS MATERIALIZED (
             SELECT port_id, time, epoch, multicast_transmit_packets, multicast_receive_packets FROM {source}
             WHERE port_id = ANY ({ports}::bigint[])
               AND (multicast_transmit_packets IS NOT NULL OR multicast_receive_packets IS NOT NULL))"
    );
    Ok(("unpacked", with))
}

/// A reading of the port `p.id` that has multicast packets.
fn reading(readings: &str, name: &str, condition: &str, order: &str) -> String {
    format!(
        "LEFT JOIN LATERAL (
             SELECT c.time, c.epoch, c.multicast_transmit_packets, c.multicast_receive_packets FROM {readings} c
             WHERE c.port_id = p.id AND {condition}
               AND (c.multicast_transmit_packets IS NOT NULL OR c.multicast_receive_packets IS NOT NULL)
             ORDER BY c.time {order} LIMIT 1) {name} ON true "
    )
}

fn increase(from: &str, column: &str) -> String {
    format!("CASE WHEN l.{column} >= {from} THEN l.{column} - {from} END")
}

fn count(row: &Row) -> Count {
    let time = |place: usize| crate::time::milliseconds(row.get(place));
    Count { from: time(1), to: time(2), sent: row.get(3), received: row.get(4) }
}
