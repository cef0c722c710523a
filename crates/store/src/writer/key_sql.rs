//! Statements that find keys of one kind and add those that are not there.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::{WriteError, failed};

/// Finding and adding keys of one kind; parameters are arrays in step.
pub(super) struct KeySql {
    pub find: &'static str,
    pub add: &'static str,
}

impl KeySql {
    /// Positions (from 0) and identifiers of all `count` keys.
    pub async fn resolve(
        &self,
        client: &Client,
        count: usize,
        arrays: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<(usize, i64)>, WriteError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut rows = client.query(self.find, arrays).await.map_err(failed("looking up keys"))?;
        if rows.len() < count {
            client.execute(self.add, arrays).await.map_err(failed("adding keys"))?;
            rows = client.query(self.find, arrays).await.map_err(failed("looking up keys"))?;
        }
        Ok(rows.iter().map(position_and_id).collect())
    }
}

pub(super) fn position_and_id(row: &Row) -> (usize, i64) {
    // WITH ORDINALITY counts from 1.
    (usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or_default(), row.get(1))
}
