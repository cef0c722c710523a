//! Fabrics as things of their own: which one a crawler sees, its name, and its attributes over time.
//!
//! A fabric is known by its switches, never by its subnet prefix or manager, which two may have in common and which change.
//! Where it isn't clear which fabric a topology is, nothing is written of it: an event says so, and the crawler requests
//! a decision once its sweeps agree for a while.

mod choice;
mod merging;
mod naming;

use std::time::{Duration, UNIX_EPOCH};

use throughline_sample::Guid;
use throughline_sample::wire::FabricFingerprint;
use tokio_postgres::{Error, Transaction};

use choice::{FabricChange, FabricMatch, KnownFabric, match_fabric, name_of};
pub(crate) use merging::END_PARTS_OF_NODES;
pub use naming::{FabricState, fabric_states, rename_fabric};

/// What the `instance` of a crawler's rows begins with; the fabric's id follows. Names are put in when they are read.
const INSTANCE: &str = "fabric:";

/// A topology that stays the same is noted again after so long.
const NOTED_AGAIN: Duration = Duration::from_secs(60);

/// The `instance` of rows that the crawlers of a fabric send.
pub(crate) fn instance_of_fabric(id: i64) -> String {
    format!("{INSTANCE}{id}")
}

/// What a crawler sees and what it may report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting<'a> {
    pub fingerprint: &'a FabricFingerprint,
    /// Names of the fabrics that its certificate may report for; none means any.
    pub allowed: &'a [String],
    /// Whether it is to be decided even where it isn't clear.
    pub accept: bool,
}

/// Which fabric a crawler sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FabricAnswer {
    /// This one.
    Known {
        /// Its id.
        id: i64,
        /// Its name now.
        name: String,
    },
    /// That is not clear; why, for people.
    Undecided(String),
    /// Its configuration or certificate forbids it; why, for people.
    Refused(String),
}

/// Finds the fabric that a crawler sees, and makes one where nothing is in common with any.
pub(crate) async fn resolve(
    transaction: &Transaction<'_>,
    sighting: Sighting<'_>,
) -> Result<FabricAnswer, Error> {
    if let Some(fault) = sighting.fingerprint.fault() {
        return Ok(FabricAnswer::Refused(format!("the crawler does not say which fabric it sees: {fault}")));
    }
    let known = read_fabrics(transaction).await?;
    let guids = sighting.fingerprint.guids();
    match match_fabric(guids, &known) {
        FabricMatch::Same(id) if !is_part(&known, id) => return Ok(admit(&known, id, sighting)),
        FabricMatch::Unclear(change, near) if !sighting.accept => {
            let text = unclear_text(change, &near, &known);
            merging::report(transaction, near[0], change, &text).await?;
            return Ok(FabricAnswer::Undecided(text));
        }
        _ => {}
    }
    // Two crawlers may come at once: what is known is read again while nobody else changes it.
    transaction.execute("LOCK TABLE internal.fabric IN SHARE ROW EXCLUSIVE MODE", &[]).await?;
    let known = read_fabrics(transaction).await?;
    match match_fabric(guids, &known) {
        FabricMatch::New => add(transaction, &known, sighting).await,
        FabricMatch::Same(id) => {
            let answer = admit(&known, id, sighting);
            if matches!(answer, FabricAnswer::Known { .. }) && is_part(&known, id) {
                merging::part(transaction, &known, id).await?;
            }
            Ok(answer)
        }
        FabricMatch::Unclear(_, near) => {
            let answer = admit(&known, near[0], sighting);
            if matches!(answer, FabricAnswer::Known { .. }) {
                merging::accept(transaction, &known, &near, guids).await?;
            }
            Ok(answer)
        }
    }
}

fn is_part(known: &[KnownFabric], id: i64) -> bool {
    known.iter().any(|fabric| fabric.id == id && fabric.part_of.is_some())
}

async fn read_fabrics(transaction: &Transaction<'_>) -> Result<Vec<KnownFabric>, Error> {
    let query = "SELECT id, name, guids, part_of FROM internal.fabric ORDER BY id";
    let rows = transaction.query(query, &[]).await?;
    let guids =
        |texts: Vec<String>| texts.iter().filter_map(|text| Some(text.parse::<Guid>().ok()?.0)).collect();
    let fabric = |row: &tokio_postgres::Row| KnownFabric {
        id: row.get(0),
        name: row.get(1),
        guids: guids(row.get(2)),
        part_of: row.get(3),
    };
    Ok(rows.iter().map(fabric).collect())
}

/// Whether the crawler's configuration and certificate allow the fabric that it sees.
fn admit(known: &[KnownFabric], id: i64, sighting: Sighting<'_>) -> FabricAnswer {
    let Some(seen) = known.iter().find(|fabric| fabric.id == id) else {
        return FabricAnswer::Undecided("the fabric is being changed".to_owned());
    };
    let configured = &sighting.fingerprint.name;
    let named = known.iter().find(|fabric| fabric.name == *configured && fabric.id != id);
    let has_nothing_of = |other: &KnownFabric| {
        throughline_sample::CommonGuids::of(sighting.fingerprint.guids(), &other.guids).common == 0
    };
    if let Some(other) = named.filter(|other| has_nothing_of(other)) {
        return FabricAnswer::Refused(format!(
            "fabric.toml names the fabric {}, which has no switch in common with what this crawler sees, the fabric {}: \
             set [fabric] name to {} or leave it out",
            other.name, seen.name, seen.name
        ));
    }
    match forbidden(&seen.name, sighting) {
        Some(refused) => refused,
        None => FabricAnswer::Known { id, name: seen.name.clone() },
    }
}

fn forbidden(name: &str, sighting: Sighting<'_>) -> Option<FabricAnswer> {
    forbidden_text(name, sighting.allowed).map(FabricAnswer::Refused)
}

/// Why a crawler's certificate does not allow a fabric; in words.
pub(crate) fn forbidden_text(name: &str, allowed: &[String]) -> Option<String> {
    let is_allowed = allowed.is_empty() || allowed.iter().any(|allowed| allowed == name);
    let text = || {
        let allowed = allowed.join(", ");
        format!(
            "its certificate is for the fabrics {allowed} by collect.crawlers of the server's configuration, and it sees \
             the fabric {name}"
        )
    };
    (!is_allowed).then(text)
}

/// Makes a fabric that nothing is in common with.
async fn add(
    transaction: &Transaction<'_>,
    known: &[KnownFabric],
    sighting: Sighting<'_>,
) -> Result<FabricAnswer, Error> {
    let fingerprint = sighting.fingerprint;
    let is_taken = |name: &str| known.iter().any(|fabric| fabric.name == name);
    let by_guid = name_of(fingerprint.lowest_guid, is_taken);
    let name = if fingerprint.name.is_empty() { by_guid.clone() } else { fingerprint.name.clone() };
    if is_taken(&name) {
        return Ok(FabricAnswer::Refused(format!(
            "fabric.toml names the fabric {name}, which is known and has no switch in common with what this crawler sees, \
             a new fabric that would be {by_guid}: give it another name in [fabric] name, or none"
        )));
    }
    if let Some(refused) = forbidden(&name, sighting) {
        return Ok(refused);
    }
    let insert = "INSERT INTO internal.fabric (name, guids) VALUES ($1, $2) RETURNING id";
    let id = transaction.query_one(insert, &[&name, &texts(fingerprint.guids())]).await?.get(0);
    note_attributes(transaction, id, fingerprint).await?;
    Ok(FabricAnswer::Known { id, name })
}

fn texts(guids: &[u64]) -> Vec<String> {
    guids.iter().map(|guid| Guid(*guid).to_string()).collect()
}

/// Notes what the crawler that has the lease sees now: the fabric's last topology, its prefix and its manager.
pub(crate) async fn observe(
    transaction: &Transaction<'_>,
    id: i64,
    fingerprint: &FabricFingerprint,
) -> Result<(), Error> {
    let update = "UPDATE internal.fabric SET guids = $2, observed_at = now() WHERE id = $1 \
                  AND (guids <> $2 OR observed_at < now() - $3 * interval '1 second')";
    let noted =
        transaction.execute(update, &[&id, &texts(fingerprint.guids()), &NOTED_AGAIN.as_secs_f64()]).await?;
    if noted > 0 {
        merging::report_shared_ports(transaction, id).await?;
    }
    note_attributes(transaction, id, fingerprint).await
}

/// Begins another row of attributes where they have changed. A manager that isn't known for now is the one before.
async fn note_attributes(
    transaction: &Transaction<'_>,
    id: i64,
    fingerprint: &FabricFingerprint,
) -> Result<(), Error> {
    let current = "SELECT prefix, subnet_manager FROM internal.fabric_attribute WHERE fabric_id = $1 AND valid_to IS NULL";
    let before = transaction.query_opt(current, &[&id]).await?;
    let before: Option<(String, Option<String>)> = before.map(|row| (row.get(0), row.get(1)));
    let prefix = Guid(fingerprint.subnet_prefix).to_string();
    let manager = fingerprint.subnet_manager_guid;
    let manager = if manager == 0 {
        before.clone().and_then(|(_, manager)| manager)
    } else {
        Some(Guid(manager).to_string())
    };
    if before.as_ref() == Some(&(prefix.clone(), manager.clone())) {
        return Ok(());
    }
    let end = "UPDATE internal.fabric_attribute SET valid_to = clock_timestamp() WHERE fabric_id = $1 AND valid_to IS NULL";
    transaction.execute(end, &[&id]).await?;
    let begin = "INSERT INTO internal.fabric_attribute (fabric_id, prefix, subnet_manager, valid_from) \
                 VALUES ($1, $2, $3, clock_timestamp())";
    transaction.execute(begin, &[&id, &prefix, &manager]).await?;
    if let Some((old, _)) = before.filter(|(old, _)| *old != prefix) {
        let text = format!("the subnet prefix was {old} and is {prefix}");
        merging::event(transaction, id, "fabric.prefix", "info", &text).await?;
    }
    Ok(())
}

fn unclear_text(change: FabricChange, near: &[i64], known: &[KnownFabric]) -> String {
    let name =
        |id: &i64| known.iter().find(|fabric| fabric.id == *id).map_or("", |fabric| fabric.name.as_str());
    let names: Vec<&str> = near.iter().map(name).collect();
    let what = match (change, names.len()) {
        (FabricChange::Split, _) => "less than half of the switches of",
        (FabricChange::Merged, 1) => "more switches than all that were known of",
        (FabricChange::Merged, _) => "switches of several fabrics:",
    };
    format!(
        "a crawler sees {what} {}; nothing is stored of that until it has seen the same for a minute, or was started with \
         --accept",
        names.join(", ")
    )
}

/// Seconds since 1970 of a time.
fn seconds(time: std::time::SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
