//! Multicast groups with validity ranges: a group's record holds all of its members, and a complete reading of a
//! fabric ends the groups that it did not find.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use serde_json::{Map, Value, json};
use throughline_sample::wire::{Batch, IbMulticastGroup};
use throughline_sample::{Guid, to_rfc3339};
use tokio_postgres::Transaction;

use super::keys::Keys;
use super::record_times::EARLIEST_TIME;
use super::rows::{newest_time, now_nanoseconds};
use super::versioned::{VersionedTable, execute};
use super::{WriteError, failed};

const GROUP: VersionedTable = VersionedTable {
    table: "ib_multicast_group",
    key: &[("fabric_id", "bigint"), ("mgid", "text")],
    attributes: &[
        ("mlid", "integer"),
        ("pkey", "integer"),
        ("mtu_bytes", "integer"),
        ("rate_bytes_per_second", "bigint"),
        ("service_level", "integer"),
        ("name", "text"),
        ("member_count", "integer"),
        ("members", "jsonb"),
    ],
};

const UPDATE_GENERATIONS: &str = "
UPDATE internal.ib_multicast_group g SET generation = s.generation
FROM jsonb_to_recordset($1) AS s(fabric_id bigint, mgid text, generation bigint)
WHERE g.fabric_id = s.fabric_id AND g.mgid = s.mgid AND g.valid_to IS NULL AND g.generation < s.generation";

/// Ends groups that a complete reading ($1 fabric, $2 generation, $3 time, $4 how many groups it has) did not find. Where
/// fewer of it have arrived, a batch was lost, and it is not known what is gone.
const END_GROUPS: &str = "
UPDATE internal.ib_multicast_group SET valid_to = greatest($3::text::timestamptz, valid_from)
WHERE fabric_id = $1 AND valid_to IS NULL AND generation < $2
AND (SELECT count(*) FROM internal.ib_multicast_group WHERE fabric_id = $1 AND generation = $2 AND valid_to IS NULL) >= $4";

/// A complete reading of one fabric.
struct Mark {
    fabric: i64,
    generation: i64,
    at: String,
    groups: i64,
}

/// Groups of some batches, the newest record of each.
#[derive(Default)]
pub(super) struct MulticastGroups {
    groups: BTreeMap<(i64, String), Value>,
    marks: Vec<Mark>,
}

impl MulticastGroups {
    /// Adds a batch's groups.
    pub fn add(&mut self, batch: &Batch, keys: &Keys) -> Result<(), String> {
        if batch.ib_multicast_groups.is_empty() && batch.ib_multicast_marks.is_empty() {
            return Ok(());
        }
        let fabric = keys.fabric(batch)?;
        let batch_time = newest_time(batch).unwrap_or_else(now_nanoseconds);
        let time =
            |generation: i64| to_rfc3339(if generation > EARLIEST_TIME { generation } else { batch_time });
        for group in &batch.ib_multicast_groups {
            let (mgid, row) = row(fabric, group, &time(group.generation))?;
            self.groups.insert((fabric, mgid), row);
        }
        self.marks.extend(batch.ib_multicast_marks.iter().map(|mark| Mark {
            fabric,
            generation: mark.generation,
            at: time(mark.generation),
            groups: i64::from(mark.groups),
        }));
        Ok(())
    }

    /// Brings the table up to date.
    pub async fn apply(self, transaction: &Transaction<'_>) -> Result<(), WriteError> {
        let what = "generations of multicast groups";
        execute(transaction, what, UPDATE_GENERATIONS, generations(&self.groups)).await?;
        GROUP.apply(transaction, self.groups.into_values().collect()).await?;
        for Mark { fabric, generation, at, groups } in self.marks {
            transaction
                .execute(END_GROUPS, &[&fabric, &generation, &at, &groups])
                .await
                .map_err(failed("inventory: multicast groups that are gone"))?;
        }
        Ok(())
    }
}

/// Rows without their members.
fn generations(groups: &BTreeMap<(i64, String), Value>) -> BTreeMap<&(i64, String), Value> {
    let generation = |((fabric, mgid), row): &(&(i64, String), &Value)| json!({"fabric_id": fabric, "mgid": mgid, "generation": row["generation"]});
    groups.iter().map(|group| (group.0, generation(&group))).collect()
}

/// A group's MGID as an IPv6 address, and its row.
fn row(fabric: i64, group: &IbMulticastGroup, at: &str) -> Result<(String, Value), String> {
    let bytes: [u8; 16] =
        group.mgid.as_slice().try_into().map_err(|_| format!("a MGID of {} bytes", group.mgid.len()))?;
    let mgid = Ipv6Addr::from(bytes).to_string();
    let has_all = group.member_count.is_some_and(|count| count as usize == group.members.len());
    let members: Option<Map<String, Value>> = has_all.then(|| {
        let member = |guid: u64, state: u32| (Guid(guid).to_string(), json!(state));
        group.members.iter().map(|listed| member(listed.port_guid, listed.join_state)).collect()
    });
    let row = json!({
        "fabric_id": fabric, "mgid": mgid, "mlid": group.mlid, "pkey": group.pkey, "mtu_bytes": group.mtu_bytes,
        "rate_bytes_per_second": group.rate_bytes_per_second, "service_level": group.service_level,
        "name": (!group.name.is_empty()).then_some(&group.name), "member_count": group.member_count,
        "members": members, "generation": group.generation, "at": at,
    });
    Ok((mgid, row))
}
