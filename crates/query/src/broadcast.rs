//! A job's broadcasts by rank: how many bytes each rank got in the time that it was in MPI_Bcast.
//!
//! A rank that is not the root counts its calls by size class and no bytes: what it received is laid out from what the
//! roots passed. Where all ranks have the same calls of a class and the roots' bytes fit these, the broadcasts went to all
//! ranks, and each got what the others' roots passed. Elsewhere the size class bounds it.

use crate::as_of::AsOf;
use std::collections::{BTreeMap, HashMap};
use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// What one rank did in one size class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BroadcastCell {
    /// In MPI_COMM_WORLD.
    pub rank: i32,
    /// Buffers of more than half of this and at most this, bytes; 0 for empty ones.
    pub size_class_bytes: i64,
    /// Calls.
    pub calls: i64,
    /// Bytes that it passed as the root.
    pub bytes: i64,
    /// Time inside.
    pub elapsed_seconds: f64,
}

/// What one rank got.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankBroadcast {
    /// In MPI_COMM_WORLD.
    pub rank: i32,
    /// Calls.
    pub calls: i64,
    /// Bytes that it passed as the root.
    pub sent_bytes: i64,
    /// Bytes that it received: at least.
    pub received_low_bytes: i64,
    /// At most; as `received_low_bytes` where they are laid out.
    pub received_high_bytes: i64,
    /// Whether they are bounds.
    pub is_bound: bool,
    /// Time inside of MPI_Bcast.
    pub elapsed_seconds: f64,
}

/// Cells of a job's broadcasts, by rank and size class, as of a time of its ranks' rows where there is one.
///
/// # Errors
/// The database's.
pub async fn cells(client: &Client, job: i64, as_of: Option<&AsOf>) -> Result<Vec<BroadcastCell>, Error> {
    let sql = |cells: &str| {
        format!(
            "SELECT rank, size_class_bytes, internal.stored_total(sum(calls)), internal.stored_total(sum(bytes)),
                    coalesce(sum(elapsed_seconds), 0)::float8
             FROM internal.{cells} WHERE operation = 'bcast'
             GROUP BY rank, size_class_bytes ORDER BY rank, size_class_bytes"
        )
    };
    let rows = match as_of {
        Some(at) => client.query(&sql("mpi_op_cells($1, $2)"), &[&job, &at.latest()]).await,
        None => client.query(&sql("job_op_cells($1)"), &[&job]).await,
    };
    let rows = rows.map_err(Error::sql("summing the broadcasts of a job"))?;
    let cell = |row: &Row| BroadcastCell {
        rank: row.get(0),
        size_class_bytes: row.get(1),
        calls: row.get::<_, Option<i64>>(2).unwrap_or_default(),
        bytes: row.get::<_, Option<i64>>(3).unwrap_or_default(),
        elapsed_seconds: row.get(4),
    };
    Ok(rows.iter().map(cell).collect())
}

/// One size class of a job: what all ranks passed, and how many calls each has where all have as many.
#[derive(Clone, Copy, Debug)]
struct Class {
    bytes: i64,
    ranks: usize,
    calls: Option<i64>,
}

/// What each rank got, of a job of so many ranks; ranks without a call are left out.
#[must_use]
pub fn by_rank(cells: &[BroadcastCell], ranks: usize) -> Vec<RankBroadcast> {
    let mut classes: HashMap<i64, Class> = HashMap::new();
    for cell in cells {
        let class = classes.entry(cell.size_class_bytes).or_insert(Class {
            bytes: 0,
            ranks: 0,
            calls: Some(cell.calls),
        });
        class.bytes = class.bytes.saturating_add(cell.bytes);
        class.ranks += 1;
        class.calls = class.calls.filter(|calls| *calls == cell.calls);
    }
    let mut all: BTreeMap<i32, RankBroadcast> = BTreeMap::new();
    for cell in cells {
        let rank = all.entry(cell.rank).or_insert(RankBroadcast { rank: cell.rank, ..Default::default() });
        rank.calls = rank.calls.saturating_add(cell.calls);
        rank.sent_bytes = rank.sent_bytes.saturating_add(cell.bytes);
        rank.elapsed_seconds += cell.elapsed_seconds;
        let most = cell.size_class_bytes;
        // The smallest buffer of a class has a byte more than half of its largest.
        let least = if most > 1 { most / 2 + 1 } else { most };
        let class = classes.get(&most).filter(|class| class.ranks == ranks);
        let to_all = class.and_then(|class| {
            let calls = class.calls?;
            let fits = calls.saturating_mul(least)..=calls.saturating_mul(most);
            fits.contains(&class.bytes).then_some(class.bytes - cell.bytes)
        });
        let (low, high) = to_all.map_or_else(
            || {
                let of = |bytes: i64| cell.calls.saturating_mul(bytes).saturating_sub(cell.bytes).max(0);
                (of(least), of(most))
            },
            |bytes| (bytes, bytes),
        );
        rank.received_low_bytes = rank.received_low_bytes.saturating_add(low);
        rank.received_high_bytes = rank.received_high_bytes.saturating_add(high);
        rank.is_bound |= to_all.is_none() && low != high;
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(rank: i32, size_class_bytes: i64, calls: i64, bytes: i64) -> BroadcastCell {
        BroadcastCell { rank, size_class_bytes, calls, bytes, elapsed_seconds: 0.5 }
    }

    #[test]
    fn broadcasts_to_all_are_laid_out() {
        // Ten of 1,000 bytes: rank 0 is the root of seven, rank 1 of three.
        let cells = [cell(0, 1024, 10, 7000), cell(1, 1024, 10, 3000), cell(2, 1024, 10, 0)];
        let received: Vec<_> = by_rank(&cells, 3)
            .iter()
            .map(|r| (r.received_low_bytes, r.received_high_bytes, r.is_bound))
            .collect();
        assert_eq!(received, [(3000, 3000, false), (7000, 7000, false), (10_000, 10_000, false)]);
        // A fourth rank that has no call was in none of them.
        assert!(by_rank(&cells, 4)[2].is_bound);
    }

    #[test]
    fn broadcasts_to_some_are_bounded_by_their_class() {
        // Two groups of two, each with a root of its own: the same calls, and twice the bytes that these can have.
        let cells = [
            cell(0, 1024, 10, 10_000),
            cell(1, 1024, 10, 0),
            cell(2, 1024, 10, 10_000),
            cell(3, 1024, 10, 0),
        ];
        let all = by_rank(&cells, 4);
        assert_eq!(
            (all[1].received_low_bytes, all[1].received_high_bytes, all[1].is_bound),
            (5130, 10_240, true)
        );
        assert_eq!((all[0].received_low_bytes, all[0].received_high_bytes), (0, 240));
        // Unequal calls.
        let unequal = by_rank(&[cell(0, 8, 2, 16), cell(1, 8, 1, 0)], 2);
        assert_eq!(
            (unequal[1].received_low_bytes, unequal[1].received_high_bytes, unequal[1].is_bound),
            (5, 8, true)
        );
        // Classes of one size and empty buffers need no bound.
        let exact = by_rank(&[cell(0, 0, 3, 0), cell(0, 1, 2, 2), cell(1, 1, 1, 0)], 3);
        assert_eq!(
            (exact[1].received_low_bytes, exact[1].received_high_bytes, exact[1].is_bound),
            (1, 1, false)
        );
        assert_eq!((exact[0].calls, exact[0].elapsed_seconds), (5, 1.0));
    }
}
