//! Rows of a window into `link_shares`, in one transaction with the minute that it completes and how far windows are made.

use std::pin::pin;

use futures::SinkExt;
use tokio_postgres::Client;

use super::minutes;
use super::progress::DueWindow;
use super::window::{ShareOwner, ShareRow};
use super::{kind_name, system_time};
use crate::copy::RowBuffer;
use crate::error::Error;

const WHAT: &str = "writing shares of links";

const COPY: &str = "COPY internal.link_shares (time, port_id, contributor, job_id, operation, name, bytes, low_bytes, high_bytes, \
                    kind, is_bound, counted_bytes) FROM STDIN BINARY";

/// Writes the rows of a window; `is_again` in place of those of `ports` that there are. `operation` names operations by their
/// numbers. Nothing is written where another server has made the window.
pub(super) async fn write<'a>(
    client: &mut Client,
    due: &DueWindow,
    ports: &[i64],
    rows: &[ShareRow],
    operation: impl Fn(u32) -> &'a str,
    is_again: bool,
) -> Result<(), Error> {
    let mut buffer = RowBuffer::new(12);
    for row in rows {
        buffer.row();
        buffer.time(due.end * 1000);
        buffer.int8(row.port);
        let (contributor, job, operation, name) = match &row.who {
            ShareOwner::Job(job, number) => ("job", Some(*job), Some(operation(*number)), None),
            ShareOwner::Group(name) => ("group", None, None, Some(name.as_str())),
            ShareOwner::Host(name) => ("host", None, None, Some(name.as_str())),
            ShareOwner::Other => ("other", None, None, None),
            ShareOwner::Rest => ("rest", None, None, None),
        };
        buffer.text(contributor);
        match job {
            Some(job) => buffer.int8(job),
            None => buffer.null(),
        }
        buffer.optional_text(operation);
        buffer.optional_text(name);
        buffer.int8(row.bytes);
        buffer.int8(row.low);
        buffer.int8(row.high);
        buffer.text(kind_name(row.kind));
        buffer.boolean(row.is_bound);
        buffer.optional_int8(row.counted);
    }
    let transaction = client.transaction().await.map_err(Error::sql(WHAT))?;
    if is_again {
        let removal = format!(
            "DELETE FROM internal.link_shares WHERE time = {} AND port_id = ANY($1)",
            super::moment(due.end)
        );
        transaction.execute(&removal, &[&ports]).await.map_err(Error::sql(WHAT))?;
    }
    if !is_again {
        let advance = "UPDATE internal.link_share_state SET computed_until = $1 WHERE computed_until IS NOT DISTINCT FROM $2";
        let times = (system_time(due.end), due.made_until.map(system_time));
        if transaction.execute(advance, &[&times.0, &times.1]).await.map_err(Error::sql(WHAT))? == 0 {
            return Ok(());
        }
    }
    if buffer.rows() > 0 {
        let mut sink = pin!(transaction.copy_in(COPY).await.map_err(Error::sql(WHAT))?);
        sink.send(buffer.finish()).await.map_err(Error::sql(WHAT))?;
        sink.close().await.map_err(Error::sql(WHAT))?;
    }
    if is_again {
        minutes::make_again(&transaction, due.end, ports).await?;
    } else {
        minutes::make(&transaction, due.made_until, due.end, ports).await?;
    }
    transaction.commit().await.map_err(Error::sql(WHAT))
}
