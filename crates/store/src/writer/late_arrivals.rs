//! Late arrivals: readings whose rollups were made before they arrived (`crate::rollups`), and readings and traffic whose
//! shares of links were (`crate::link_shares`), and samples of windows that were exported (`late_exports`). They are noted in the transaction that writes them, so that upkeep makes those
//! minutes and windows again.

use std::collections::BTreeSet;
use std::time::SystemTime;

use throughline_sample::wire::Batch;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::keys::Keys;
use super::record_times::{nanoseconds, time};
use super::row_rules::KnownRules;
use super::{WriteError, failed, late_exports};
use crate::link_shares::WINDOW;
use crate::rollup_kind::Kind;

/// Readings of one thing this far apart are one note.
const TOGETHER: i64 = 60_000_000_000;

/// Longest time of one note, so that upkeep can take them in order.
const LONGEST: i64 = 3600 * 1_000_000_000;

/// Older windows of link shares are not made again: a day.
const OLDEST_WINDOW: i64 = 24 * 3600 * 1_000_000_000;

/// Notes the late arrivals of these batches. Takes a lock that upkeep waits for, so nothing may be waited for after it.
pub(super) async fn note(
    transaction: &Transaction<'_>,
    batches: &[&Batch],
    keys: &Keys,
    rules: &KnownRules,
) -> Result<(), WriteError> {
    let has_any = |batch: &&Batch| {
        !(batch.ib_ports.is_empty()
            && batch.host_ports.is_empty()
            && batch.gpu_links.is_empty()
            && batch.gpu_pcie.is_empty()
            && batch.mpi_traffic.is_empty())
            || late_exports::has_any(batch)
    };
    if !batches.iter().any(has_any) {
        return Ok(());
    }
    let what = "noting late arrivals";
    let all = "SELECT internal.minutes_noticed(), internal.link_shares_noticed(), internal.export_noticed()";
    let rows = transaction.query_typed(all, &[]).await.map_err(failed(what))?;
    let noticed = |column: usize| rows.first().and_then(|row| row.get::<_, Option<SystemTime>>(column));
    if let Some(noticed) = noticed(2) {
        late_exports::note(transaction, batches, keys, nanoseconds(noticed)).await?;
    }
    if let Some(noticed) = noticed(1) {
        note_windows(transaction, &late_windows(batches, nanoseconds(noticed))).await?;
    }
    let noticed = noticed(0);
    // Upkeep has not begun: what it begins with is still to come.
    let Some(noticed) = noticed else { return Ok(()) };
    let mut late = Vec::new();
    for batch in batches {
        // A reading also changes the time since the one before it.
        let late_until = nanoseconds(noticed + rules.largest_gap(batch, keys));
        collect(batch, keys, late_until, &mut late).map_err(WriteError::Data)?;
    }
    let notes = together(late);
    if notes.is_empty() {
        return Ok(());
    }
    let insert = "INSERT INTO internal.minute_late (kind, id, since, until) \
                  SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[])";
    let kinds: Vec<&str> = notes.iter().map(|note| note.kind.table()).collect();
    let ids: Vec<i64> = notes.iter().map(|note| note.id).collect();
    let since: Vec<SystemTime> = notes.iter().map(|note| time(note.since)).collect();
    let until: Vec<SystemTime> = notes.iter().map(|note| time(note.until)).collect();
    transaction
        .query_typed(
            insert,
            &[
                (&kinds, Type::TEXT_ARRAY),
                (&ids, Type::INT8_ARRAY),
                (&since, Type::TIMESTAMPTZ_ARRAY),
                (&until, Type::TIMESTAMPTZ_ARRAY),
            ],
        )
        .await
        .map_err(failed(what))?;
    Ok(())
}

/// Windows of link shares, by their ends, for which upkeep has read what was there until `noticed`, and for which something is
/// in these batches. Nanoseconds since 1970.
fn late_windows(batches: &[&Batch], noticed: i64) -> BTreeSet<i64> {
    let window = WINDOW * 1000;
    let mut ends = BTreeSet::new();
    let mut note = |since: i64, until: i64| {
        let first = (since.max(noticed - OLDEST_WINDOW).div_euclid(window) + 1) * window;
        let mut end = first;
        while end - window < until && end - window < noticed {
            ends.insert(end);
            end += window;
        }
    };
    for batch in batches {
        for sample in batch.ib_ports.iter().filter(|sample| sample.time <= noticed) {
            // It changes what is known of the time to its neighbours.
            note(sample.time - window, sample.time + window);
        }
        for traffic in batch.mpi_traffic.iter().filter(|traffic| traffic.time <= noticed) {
            note(traffic.since.max(traffic.epoch).min(traffic.time - 1), traffic.time);
        }
    }
    ends
}

async fn note_windows(transaction: &Transaction<'_>, ends: &BTreeSet<i64>) -> Result<(), WriteError> {
    if ends.is_empty() {
        return Ok(());
    }
    let ends: Vec<SystemTime> = ends.iter().map(|end| time(*end)).collect();
    let insert = "INSERT INTO internal.link_share_late (time) SELECT unnest($1::timestamptz[])";
    let noted = transaction.query_typed(insert, &[(&ends, Type::TIMESTAMPTZ_ARRAY)]).await;
    noted.map(drop).map_err(failed("noting late arrivals for shares of links"))
}

/// Late readings of one thing; nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Note {
    kind: Kind,
    id: i64,
    since: i64,
    until: i64,
}

fn collect(batch: &Batch, keys: &Keys, late_until: i64, late: &mut Vec<Note>) -> Result<(), String> {
    let mut note = |kind, id, time| late.push(Note { kind, id, since: time, until: time });
    let fabric = keys.fabric(batch);
    for sample in batch.ib_ports.iter().filter(|sample| sample.time < late_until) {
        note(Kind::IbPorts, keys.ib_port(fabric.clone()?, sample.node_guid, sample.port)?, sample.time);
    }
    for sample in batch.host_ports.iter().filter(|sample| sample.time < late_until) {
        note(Kind::HostPorts, keys.host_port(&batch.node, &sample.device, sample.port)?, sample.time);
    }
    for sample in batch.gpu_links.iter().filter(|sample| sample.time < late_until) {
        note(Kind::Nvlinks, keys.gpu(&batch.node, &sample.gpu_uuid)?, sample.time);
    }
    for sample in batch.gpu_pcie.iter().filter(|sample| sample.time < late_until) {
        note(Kind::GpuPcie, keys.gpu(&batch.node, &sample.gpu_uuid)?, sample.time);
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

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{IbPortSample, MpiNodeTraffic};

    #[test]
    fn windows_that_were_made_are_noted_and_those_to_come_are_not() {
        let second = 1_000_000_000;
        let traffic = |since: i64, time: i64| MpiNodeTraffic {
            since: since * second,
            time: time * second,
            ..MpiNodeTraffic::default()
        };
        let port = |time: i64| IbPortSample { time: time * second, ..IbPortSample::default() };
        let late = |batch: Batch| -> Vec<i64> {
            // Windows until 100 s are made: rows until 110 s were read, which are of the next one, too.
            late_windows(&[&batch], 110 * second).into_iter().map(|end| end / second).collect()
        };
        let of = |all: Vec<MpiNodeTraffic>| Batch { mpi_traffic: all, ..Batch::default() };
        assert_eq!(late(of(vec![traffic(41, 42), traffic(58, 61)])), [50, 60, 70]);
        // What is still to be read, and of a window to come what was read already.
        assert_eq!(late(of(vec![traffic(111, 112), traffic(95, 112)])), Vec::<i64>::new());
        assert_eq!(late(of(vec![traffic(85, 105)])), [90, 100, 110]);
        assert_eq!(late(Batch { ib_ports: vec![port(55)], ..Batch::default() }), [50, 60, 70]);
        assert_eq!(late(Batch { ib_ports: vec![port(99), port(120)], ..Batch::default() }), [90, 100, 110]);
        // Of a month: only those of a day.
        let month = late_windows(&[&of(vec![traffic(0, 100)])], 30 * 24 * 3600 * second);
        assert!(month.is_empty());
    }

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
