//! The last run before of the same command.

use super::{numbers, operations};
use crate::jobs::{self, Job};
use crate::waits;
use throughline_store::Error;
use throughline_verdicts::evidence::EarlierRun;
use tokio_postgres::Client;

/// An earlier run is looked for in this time, days: settings of a year ago are no comparison.
const DAYS: i32 = 30;

const EARLIER: &str = "
    SELECT id, coalesce(native_id, key), extract(epoch FROM end_time - start_time)::float8 FROM internal.run_visible
    WHERE command = $1 AND user_name = $2 AND world_size = $3 AND id <> $4
      AND end_time < (SELECT coalesce(start_time, first_seen) FROM internal.run_visible WHERE id = $4)
      AND end_time > (SELECT coalesce(start_time, first_seen) FROM internal.run_visible WHERE id = $4) - make_interval(days => $5)
      AND start_time IS NOT NULL
    ORDER BY end_time DESC LIMIT 1";

/// # Errors
/// The database's.
pub(super) async fn run(client: &Client, job: &Job) -> Result<Option<EarlierRun>, Error> {
    let (Some(command), Some(user), Some(size)) = (&job.command, &job.user, job.world_size) else {
        return Ok(None);
    };
    let row = client.query_opt(EARLIER, &[command, user, &size, &job.id, &DAYS]).await;
    let Some(row) = row.map_err(Error::sql("looking for an earlier run"))? else { return Ok(None) };
    let id: i64 = row.get(0);
    let cpus = |rank: jobs::Rank| {
        Some((u32::try_from(rank.rank).ok()?, rank.cpus.as_deref().map(numbers).unwrap_or_default()))
    };
    Ok(Some(EarlierRun {
        job: row.get(1),
        seconds: row.get(2),
        cpus: jobs::ranks(client, id).await?.into_iter().filter_map(cpus).collect(),
        operations: operations(&waits::cells(client, id, None).await?),
    }))
}
