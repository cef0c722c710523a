//! The list of fabrics, and another name for one.

use throughline_sample::{Guid, fabric_name_fault};
use tokio_postgres::{Client, Row};

use super::seconds;
use crate::error::Error;

/// A fabric with its attributes now.
#[derive(Clone, Debug, PartialEq)]
pub struct FabricState {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Its subnet prefix.
    pub prefix: Option<String>,
    /// GUID of the port of its master subnet manager.
    pub subnet_manager: Option<Guid>,
    /// When a crawler last reported its topology, seconds since 1970.
    pub observed_at: f64,
    /// The name of the fabric that it became a part of.
    pub part_of: Option<String>,
    /// The host of the crawler that sweeps it.
    pub crawler: Option<String>,
}

/// All fabrics by name.
///
/// # Errors
/// The database's.
pub async fn fabric_states(client: &Client) -> Result<Vec<FabricState>, Error> {
    let query = "SELECT f.id, f.name, a.prefix, a.subnet_manager, f.observed_at, w.name, t.name \
                 FROM internal.fabric f \
                 LEFT JOIN internal.fabric_attribute a ON a.fabric_id = f.id AND a.valid_to IS NULL \
                 LEFT JOIN internal.fabric w ON w.id = f.part_of \
                 LEFT JOIN internal.crawler_term t ON t.fabric_id = f.id AND t.ended_at IS NULL AND t.expires_at > now() \
                 ORDER BY f.name";
    let rows = client.query(query, &[]).await.map_err(Error::sql("reading the fabrics"))?;
    let state = |row: &Row| FabricState {
        id: row.get(0),
        name: row.get(1),
        prefix: row.get(2),
        subnet_manager: row.get::<_, Option<String>>(3).and_then(|text| text.parse().ok()),
        observed_at: seconds(row.get(4)),
        part_of: row.get(5),
        crawler: row.get(6),
    };
    Ok(rows.iter().map(state).collect())
}

/// Gives a fabric another name: one row changes. The error, in words for people, names what is in the way.
///
/// # Errors
/// No such fabric, a name that can't be one or is taken; the database's.
pub async fn rename_fabric(client: &Client, old: &str, new: &str) -> Result<(), Error> {
    let refuse = |cause: String| Error::Refused {
        what: format!("renaming the fabric {old}"),
        cause,
        state: String::new(),
    };
    if let Some(fault) = fabric_name_fault(new) {
        return Err(refuse(fault));
    }
    let update = "UPDATE internal.fabric SET name = $2 WHERE name = $1 \
                  AND NOT EXISTS (SELECT FROM internal.fabric WHERE name = $2)";
    let what = "renaming a fabric";
    if client.execute(update, &[&old, &new]).await.map_err(Error::sql(what))? == 1 {
        return Ok(());
    }
    let known = fabric_states(client).await?;
    let names: Vec<&str> = known.iter().map(|fabric| fabric.name.as_str()).collect();
    let names = names.join(", ");
    Err(refuse(match known.iter().any(|fabric| fabric.name == old) {
        true => format!("{new} is the name of a fabric already; there are {names}"),
        false if names.is_empty() => "no crawler has reported a fabric yet".to_owned(),
        false => format!("there is no such fabric; there are {names}"),
    }))
}
