//! Late arrivals: readings whose rollups were made before they arrived (`crate::rollups`). They are noted in the transaction that writes them, so
//! that upkeep makes those minutes again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use throughline_sample::wire::Batch;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::keys::Keys;
use super::row_rules::KnownRules;
use super::{Failed, failed};
use crate::rollups::Kind;

/// Readings of one thing this far apart are one note.
const TOGETHER: i64 = 60_000_000_000;

/// Longest time of one note, so that upkeep can take them in order.
const LONGEST: i64 = 3600 * 1_000_000_000;

/// Notes the late arrivals of these batches. Takes a lock that upkeep waits for, so nothing may be waited for after it.
pub(super) async fn note(
    transaction: &Transaction<'_>,
    batches: &[&Batch],
    keys: &Keys,
    rules: &KnownRules,
) -> Result<(), Failed> {
    let has_any = |batch: &&Batch| {
        !(batch.ib_ports.is_empty() && batch.host_ports.is_empty() && batch.gpu_links.is_empty())
    };
    if !batches.iter().any(has_any) {
        return Ok(());
    }
    let what = "noting late arrivals";
    let rows = transaction.query_typed("SELECT minutes_noticed()", &[]).await.map_err(failed(what))?;
    let noticed = rows.first().and_then(|row| row.get::<_, Option<SystemTime>>(0));
    // Upkeep has not begun: what it begins with is still to come.
    let Some(noticed) = noticed else { return Ok(()) };
    let mut late = Vec::new();
    for batch in batches {
        // A reading also changes the time since the one before it.
        let late_until = nanoseconds(noticed + rules.largest_gap(batch));
        collect(batch, keys, late_until, &mut late).map_err(Failed::Data)?;
    }
    let notes = together(late);
    if notes.is_empty() {
        return Ok(());
    }
    let insert = "INSERT INTO minute_late (kind, id, since, until) \
                  SELECT * FROM unnest($1::text[], $2::integer[], $3::timestamptz[], $4::timestamptz[])";
    let kinds: Vec<&str> = notes.iter().map(|note| note.kind.table()).collect();
    let ids: Vec<i32> = notes.iter().map(|note| note.id).collect();
    let since: Vec<SystemTime> = notes.iter().map(|note| time(note.since)).collect();
    let until: Vec<SystemTime> = notes.iter().map(|note| time(note.until)).collect();
    transaction
        .query_typed(
            insert,
            &[
                (&kinds, Type::TEXT_ARRAY),
                (&ids, Type::INT4_ARRAY),
                (&since, Type::TIMESTAMPTZ_ARRAY),
                (&until, Type::TIMESTAMPTZ_ARRAY),
            ],
        )
        .await
        .map_err(failed(what))?;
    Ok(())
}

/// Late readings of one thing; nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Note {
    kind: Kind,
    id: i32,
    since: i64,
    until: i64,
}

fn collect(batch: &Batch, keys: &Keys, late_until: i64, late: &mut Vec<Note>) -> Result<(), String> {
    let mut note = |kind, id, time| late.push(Note { kind, id, since: time, until: time });
    for sample in batch.ib_ports.iter().filter(|sample| sample.time < late_until) {
        note(Kind::IbPorts, keys.ib_port(batch.subnet_prefix, sample.node_guid, sample.port)?, sample.time);
    }
    for sample in batch.host_ports.iter().filter(|sample| sample.time < late_until) {
        note(Kind::HostPorts, keys.host_port(&batch.node, &sample.device, sample.port)?, sample.time);
    }
    for sample in batch.gpu_links.iter().filter(|sample| sample.time < late_until) {
        note(Kind::Nvlinks, keys.gpu(&sample.gpu_uuid)?, sample.time);
    }
    Ok(())
}

/// Few notes of many.
fn together(mut late: Vec<Note>) -> Vec<Note> {
    late.sort_unstable();
    late.dedup_by(|next, last| {
        let is_same = (next.kind, next.id) == (last.kind, last.id)
            && next.until.saturating_sub(last.until) <= TOGETHER
            && next.until.saturating_sub(last.since) <= LONGEST;
        if is_same {
            last.until = last.until.max(next.until);
        }
        is_same
    });
    late
}

fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn time(nanoseconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_a_thing_are_one_note_for_an_hour_at_most() {
        let second = 1_000_000_000;
        let note = |id, since: i64, until: i64| Note {
            kind: Kind::Nvlinks,
            id,
            since: since * second,
            until: until * second,
        };
        let late = vec![note(2, 5, 5), note(1, 50, 50), note(1, 10, 10), note(1, 200, 200)];
        assert_eq!(together(late), [note(1, 10, 50), note(1, 200, 200), note(2, 5, 5)]);
        let day = (0..24 * 60).map(|minute| note(1, minute * 60, minute * 60)).collect();
        let notes = together(day);
        assert!(notes.iter().all(|note| note.until - note.since <= LONGEST), "{notes:?}");
        assert_eq!(notes.len(), 24);
    }
}
