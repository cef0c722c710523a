//! Fabrics that become one, or several again: what is noted of it in the database, and the events.

use throughline_sample::CommonGuids;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Transaction};

use super::choice::{FabricChange, KnownFabric};
use super::instance_of_fabric;

/// The same event is not repeated within an hour, however often crawlers ask.
const REPEATED_AFTER_SECONDS: f64 = 3600.0;

/// A port that was plugged over is in two fabrics until the crawler of the former one has looked again.
const SHARED_AFTER_SECONDS: f64 = 120.0;
/// Ports that are reported at once: two fabrics whose switches were cloned are a few events.
const SHARED_PORTS_REPORTED: i64 = 20;

/// Ends what belongs to nodes ($1) that ended at a time ($2): ports, links at either end, tables.
pub(crate) const END_PARTS_OF_NODES: [&str; 5] = [
    "UPDATE internal.ib_port SET valid_to = greatest($2::text::timestamptz, valid_from)
WHERE ib_node_id = ANY($1) AND valid_to IS NULL",
    "UPDATE internal.ib_link SET valid_to = greatest($2::text::timestamptz, valid_from)
WHERE valid_to IS NULL AND port_a_id IN (SELECT id FROM internal.ib_port_key WHERE ib_node_id = ANY($1))",
    "UPDATE internal.ib_link SET valid_to = greatest($2::text::timestamptz, valid_from)
WHERE valid_to IS NULL AND port_b_id IN (SELECT id FROM internal.ib_port_key WHERE ib_node_id = ANY($1))",
    "UPDATE internal.ib_lft SET valid_to = greatest($2::text::timestamptz, valid_from)
WHERE ib_node_id = ANY($1) AND valid_to IS NULL",
    "UPDATE internal.ib_mft SET valid_to = greatest($2::text::timestamptz, valid_from)
WHERE ib_node_id = ANY($1) AND valid_to IS NULL",
];

/// Writes an event about a fabric, unless it is there already.
pub(super) async fn event(
    transaction: &Transaction<'_>,
    fabric: i64,
    kind: &str,
    severity: &str,
    text: &str,
) -> Result<(), Error> {
    let insert = "INSERT INTO internal.events (time, instance, source, kind, severity, text) \
                  SELECT clock_timestamp(), $1, 'collector', $2, $3, $4 WHERE NOT EXISTS ( \
                    SELECT FROM internal.events WHERE instance = $1 AND kind = $2 AND text = $4 \
                    AND time > now() - $5 * interval '1 second')";
    let instance = instance_of_fabric(fabric);
    transaction.execute(insert, &[&instance, &kind, &severity, &text, &REPEATED_AFTER_SECONDS]).await?;
    Ok(())
}

fn kind(change: FabricChange) -> &'static str {
    match change {
        FabricChange::Merged => "fabric.merged",
        FabricChange::Split => "fabric.split",
    }
}

/// Reports that it isn't clear which fabric a crawler sees.
pub(super) async fn report(
    transaction: &Transaction<'_>,
    fabric: i64,
    change: FabricChange,
    text: &str,
) -> Result<(), Error> {
    event(transaction, fabric, kind(change), "warning", text).await
}

/// The first of these fabrics is what a crawler sees for good. Those that are in it by half or more become parts of it:
/// their inventory ends, since it goes on there.
pub(super) async fn accept(
    transaction: &Transaction<'_>,
    known: &[KnownFabric],
    near: &[i64],
    guids: &[u64],
) -> Result<(), Error> {
    let Some(whole) = known.iter().find(|fabric| near.first() == Some(&fabric.id)) else { return Ok(()) };
    for part in known.iter().filter(|fabric| near[1..].contains(&fabric.id)) {
        if !CommonGuids::of(guids, &part.guids).holds_second() {
            continue;
        }
        let update = "UPDATE internal.fabric SET part_of = $2 WHERE id = $1";
        transaction.execute(update, &[&part.id, &whole.id]).await?;
        end_inventory(transaction, part.id).await?;
        let text = format!("the fabric {} is a part of {} from now on", part.name, whole.name);
        event(transaction, part.id, "fabric.merged", "warning", &text).await?;
    }
    let update = "UPDATE internal.fabric SET part_of = NULL WHERE id = $1 AND part_of IS NOT NULL";
    transaction.execute(update, &[&whole.id]).await?;
    Ok(())
}

/// A part of another fabric is one of its own again.
pub(super) async fn part(transaction: &Transaction<'_>, known: &[KnownFabric], id: i64) -> Result<(), Error> {
    transaction.execute("UPDATE internal.fabric SET part_of = NULL WHERE id = $1", &[&id]).await?;
    let name =
        |id: Option<i64>| known.iter().find(|fabric| Some(fabric.id) == id).map_or("", |fabric| &fabric.name);
    let whole = known.iter().find(|fabric| fabric.id == id).and_then(|fabric| fabric.part_of);
    let text = format!("the fabric {} is no longer a part of {}", name(Some(id)), name(whole));
    event(transaction, id, "fabric.split", "warning", &text).await
}

/// Events about ports whose GUID another fabric has as well, once an hour each: hosts' ports are joined with neither.
pub(super) async fn report_shared_ports(transaction: &Transaction<'_>, fabric: i64) -> Result<(), Error> {
    let insert = "INSERT INTO internal.events (time, instance, source, kind, severity, text, ib_guid, ib_port) \
                  SELECT clock_timestamp(), $1, 'collector', 'fabric.port_shared', 'warning', \
                         format('the port GUID %s is also in the fabric %s: no port of a host is joined with either', \
                                p.port_guid, min(of.name)), min(k.guid), min(p.port) \
                  FROM internal.ib_node_key k \
                  JOIN internal.ib_port p ON p.ib_node_id = k.id AND p.valid_to IS NULL \
                  JOIN internal.ib_port o ON o.port_guid = p.port_guid AND o.valid_to IS NULL \
                  JOIN internal.ib_node_key ok ON ok.id = o.ib_node_id AND ok.fabric_id <> k.fabric_id \
                  JOIN internal.fabric of ON of.id = ok.fabric_id \
                  WHERE k.fabric_id = $2 AND p.port_guid <> '0x0000000000000000' \
                    AND greatest(p.valid_from, o.valid_from) < now() - $3 * interval '1 second' \
                    AND NOT EXISTS (SELECT FROM internal.events e WHERE e.kind = 'fabric.port_shared' AND e.instance = $1 \
                                    AND e.ib_guid = k.guid AND e.time > now() - $4 * interval '1 second') \
                  GROUP BY p.port_guid ORDER BY p.port_guid LIMIT $5";
    let (instance, limit) = (instance_of_fabric(fabric), SHARED_PORTS_REPORTED);
    let parameters: [&(dyn ToSql + Sync); 5] =
        [&instance, &fabric, &SHARED_AFTER_SECONDS, &REPEATED_AFTER_SECONDS, &limit];
    transaction.execute(insert, &parameters).await?;
    Ok(())
}

/// Ends the inventory of a fabric whose nodes are another one's now.
async fn end_inventory(transaction: &Transaction<'_>, fabric: i64) -> Result<(), Error> {
    let at = "SELECT now()::text";
    let at: String = transaction.query_one(at, &[]).await?.get(0);
    let nodes = "UPDATE internal.ib_node n SET valid_to = greatest(now(), n.valid_from) FROM internal.ib_node_key k \
                 WHERE k.id = n.ib_node_id AND k.fabric_id = $1 AND n.valid_to IS NULL RETURNING n.ib_node_id";
    let ended: Vec<i64> = transaction.query(nodes, &[&fabric]).await?.iter().map(|row| row.get(0)).collect();
    for sql in END_PARTS_OF_NODES {
        transaction.execute(sql, &[&ended, &at]).await?;
    }
    let groups = "UPDATE internal.ib_multicast_group SET valid_to = greatest(now(), valid_from) \
                  WHERE fabric_id = $1 AND valid_to IS NULL";
    transaction.execute(groups, &[&fabric]).await?;
    Ok(())
}
