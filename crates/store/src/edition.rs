//! TimescaleDB's edition, found by calling it, and the oldest version of the full one that is used.

use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

use crate::error::Error;

/// The full edition restores columns that are NULL in a whole batch from this version on (its issue 8153): before it, a dump of ours can
/// be made and not be restored. The Apache edition has no columns, and any version will do.
pub(crate) const OLDEST_FULL: [u32; 3] = [2, 20, 1];

/// An edition of TimescaleDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edition {
    /// Under the Apache licence, as Debian has it.
    Apache,
    /// With columns and jobs, under Timescale's licence.
    Full,
}

impl Edition {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Edition::Apache => "Apache",
            Edition::Full => "full",
        }
    }
}

/// Calls what only the full edition has. A refusal that is caught leaves no line in the server's log; without a configuration the call
/// fails on either.
const CALL: &str = "
    DO $$ BEGIN
        PERFORM set_config('throughline.edition', 'full', false);
        PERFORM _timescaledb_functions.policy_retention_check(NULL::jsonb);
    EXCEPTION
        WHEN feature_not_supported THEN PERFORM set_config('throughline.edition', 'apache', false);
        WHEN OTHERS THEN PERFORM set_config('throughline.edition', 'full', false);
    END $$";

/// The edition of a server.
///
/// # Errors
/// The database is away, or has no TimescaleDB.
pub async fn edition(client: &Client) -> Result<Edition, Error> {
    const WHAT: &str = "finding TimescaleDB's edition";
    client.batch_execute(CALL).await.map_err(Error::sql(WHAT))?;
    let row = client.query_one("SELECT current_setting('throughline.edition')", &[]).await;
    let name: String = row.map_err(Error::sql(WHAT))?.get(0);
    Ok(if name == "apache" { Edition::Apache } else { Edition::Full })
}

/// Refuses a full edition that is too old.
///
/// # Errors
/// It is.
pub(crate) async fn check(client: &Client, place: &str) -> Result<(), Error> {
    let query = "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'";
    let row = client.query_opt(query, &[]).await.map_err(Error::sql("reading TimescaleDB's version"))?;
    let Some(version) = row.map(|row| row.get::<_, String>(0)) else { return Ok(()) };
    if is_new_enough(&version) || edition(client).await? == Edition::Apache {
        return Ok(());
    }
    Err(Error::Edition(format!("the database {place} has {}", too_old(&version))))
}

/// What is wrong with that version of the full edition.
pub(crate) fn too_old(version: &str) -> String {
    let [major, minor, patch] = OLDEST_FULL;
    format!(
        "TimescaleDB {version}, full edition, from whose dumps columns can't be restored (its issue 8153): install {major}.{minor}.{patch} \
         or a newer one, then ALTER EXTENSION timescaledb UPDATE"
    )
}

/// Whether a version is [`OLDEST_FULL`] or newer; one that can't be read counts as new.
pub(crate) fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(str::parse::<u32>);
    let parts: [Option<u32>; 3] = std::array::from_fn(|_| parts.next().and_then(Result::ok));
    let Some(major) = parts[0] else { return true };
    [major, parts[1].unwrap_or(0), parts[2].unwrap_or(0)] >= OLDEST_FULL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for new in ["2.20.1", "2.22.1", "2.100.0", "3.0.0-dev", "unknown"] {
            assert!(is_new_enough(new), "{new}");
        }
        for old in ["2.19.3", "2.20.0", "2.9.9", "1.7.5", "2.20"] {
            assert!(!is_new_enough(old), "{old}");
        }
        assert!(too_old("2.19.3").contains("2.20.1 or a newer one"));
    }
}
