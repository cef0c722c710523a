//! Rows of a statement that reads samples, each waited for as long as the request has patience.

use super::HistoryQuery;
use futures::{FutureExt, Stream, TryStreamExt};
use throughline_store::Error;

/// The next of the rows that a statement has.
pub(super) async fn next<T>(
    request: &HistoryQuery<'_>,
    rows: &mut (impl Stream<Item = Result<T, tokio_postgres::Error>> + Unpin),
) -> Result<Option<T>, Error> {
    // A message is a row: a clock for each of those that are there already would cost more than they do.
    match rows.try_next().now_or_never() {
        Some(next) => next.map_err(failing),
        None => request.in_time(async { rows.try_next().await.map_err(failing) }).await,
    }
}

pub(super) fn failing(error: tokio_postgres::Error) -> Error {
    Error::sql("reading samples")(error)
}
