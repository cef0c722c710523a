//! Fabrics by what a crawler knows of its own.

use tokio_postgres::{Error, GenericClient};

/// The fabric that has this subnet prefix; a new one, named by it, where there is none.
pub(crate) async fn fabric_of_prefix<C: GenericClient>(client: &C, prefix: &str) -> Result<i64, Error> {
    let find = "SELECT id FROM internal.fabric WHERE prefix = $1 ORDER BY id LIMIT 1";
    if let Some(row) = client.query_opt(find, &[&prefix]).await? {
        return Ok(row.get(0));
    }
    let add = "WITH added AS (INSERT INTO internal.fabric (name, prefix) VALUES ($1, $1) ON CONFLICT DO NOTHING RETURNING id)
               INSERT INTO internal.fabric_attribute (fabric_id, prefix) SELECT id, $1 FROM added";
    client.execute(add, &[&prefix]).await?;
    Ok(client.query_one(find, &[&prefix]).await?.get(0))
}
