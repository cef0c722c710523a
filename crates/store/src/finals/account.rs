//! Where the time of a node's ranks went, as it stays of a job: sums over the ranks, packed as rows of a sum's number and its value. By rank
//! it would be a quarter of all that stays of a rank.

use std::collections::BTreeMap;

use throughline_packed::rows::{Row, pack};
use tokio_postgres::Transaction;

use super::WHAT;
use crate::error::Error;
use crate::packed_rows::PackedBits;

/// The sums, in the order of their numbers from 0, as columns of `job_final_account`, and how they are made.
const ACCOUNT_SUMS: [(&str, &str); 13] = [
    ("ranks", "count(*)"),
    ("elapsed_microseconds", "sum(elapsed_nanoseconds) / 1000"),
    ("mpi_microseconds", "sum(mpi_nanoseconds) / 1000"),
    ("off_outside_microseconds", "sum(off_outside_nanoseconds) / 1000"),
    ("queued_outside_microseconds", "sum(queued_outside_nanoseconds) / 1000"),
    ("off_inside_microseconds", "sum(off_inside_nanoseconds) / 1000"),
    ("queued_inside_microseconds", "sum(queued_inside_nanoseconds) / 1000"),
    ("throttled_microseconds", "sum(throttled_nanoseconds) / 1000"),
    ("file_samples", "sum(file_samples)"),
    ("sleep_samples", "sum(sleep_samples)"),
    ("lock_samples", "sum(lock_samples)"),
    ("stopped_samples", "sum(stopped_samples)"),
    ("other_samples", "sum(other_samples)"),
];

/// A node, and its name where ranks were reported by none.
pub(super) type NodeName = (Option<i64>, String);
/// The sums of each node that has some.
pub(super) type Accounts = BTreeMap<NodeName, [i64; ACCOUNT_SUMS.len()]>;

/// Of each rank its last start. Where nothing else is left of a node, what is packed stays.
pub(super) async fn accounts(transaction: &Transaction<'_>, job: i64) -> Result<Accounts, Error> {
    let columns = ACCOUNT_SUMS.map(|(column, _)| column).join(", ");
    let sums =
        ACCOUNT_SUMS.map(|(_, sum)| format!("internal.stored_total(trunc(({sum})::numeric))")).join(", ");
    let packed = format!("SELECT node_id, host, ARRAY[{columns}] FROM internal.job_final_account($1)");
    let counted = format!(
        "SELECT node_id, host, ARRAY[{sums}]
         FROM (SELECT DISTINCT ON (r.rank) r.node_id, r.host, s.*
               FROM internal.job_rank r
               JOIN internal.mpi_rank_scheduling s ON s.job_id = r.job_id AND s.rank = r.rank AND s.epoch = r.start_time
               WHERE r.job_id = $1 AND s.elapsed_nanoseconds IS NOT NULL ORDER BY r.rank, r.start_time DESC) ranks
         GROUP BY node_id, host"
    );
    let mut accounts = Accounts::new();
    for sql in [packed, counted] {
        for row in transaction.query(&sql, &[&job]).await.map_err(Error::sql(WHAT))? {
            let values: Vec<Option<i64>> = row.get(2);
            let of_node = accounts.entry((row.get(0), row.get(1))).or_default();
            of_node.iter_mut().zip(values).for_each(|(sum, value)| *sum = value.unwrap_or(0));
        }
    }
    Ok(accounts)
}

/// A row for each sum that is not 0.
pub(super) fn encode(sums: &[i64; ACCOUNT_SUMS.len()]) -> PackedBits {
    let rows = sums.iter().zip(0_i64..).filter(|(sum, _)| **sum != 0);
    let rows: Vec<Row> =
        rows.map(|(sum, number)| Row { fixed: [number, *sum, 0, 0, 0], optional: [None; 3] }).collect();
    PackedBits::of(pack(&rows))
}
