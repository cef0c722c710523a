//! Which job a name on the command line means, and which it might have meant.

use crate::reader::SCHEMA;
use anyhow::Context;
use throughline_daemon::{ExitStatus, Failure};
use tokio_postgres::{Client, Row};

/// Most candidates named where a name fits several jobs or none.
const CANDIDATES: usize = 5;
/// Newest jobs among which the nearest names are looked for.
const NEAREST_OF: i64 = 5000;
/// Similarity (Jaro-Winkler, 0 to 1) below which a name is no suggestion.
const SIMILAR: f64 = 0.6;

/// A job of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number in the tables.
    pub id: i32,
    /// Its key.
    pub key: String,
}

impl Found {
    fn of(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self { id: row.try_get("id")?, key: row.try_get("key")? })
    }
}

/// All that a name could mean, the newest first. `rest` is the key without its scheduler. A key ends with the
/// user's number, which nobody types.
const CANDIDATES_OF: &str = "
    SELECT id, key, CASE WHEN key = $1 THEN 0
                         WHEN native_id = $1 OR split_part(key, '@', 1) = $1 OR split_part(rest, '@', 1) = $1 THEN 1
                         ELSE 2 END AS distance
    FROM (SELECT id, key, native_id, coalesce(start_time, first_seen) AS began,
                 substr(key, strpos(key, ':') + 1) AS rest FROM job) j
    WHERE key = $1 OR native_id = $1 OR starts_with(key, $1) OR starts_with(rest, $1)
    ORDER BY distance, began DESC, id DESC";

const NEWEST: &str =
    "SELECT id, key FROM job ORDER BY coalesce(start_time, first_seen) DESC, id DESC LIMIT $1 OFFSET $2";

/// Finds a job by key, native id, unique beginning, `last` or `last-N`.
///
/// # Errors
/// No such job (status 1, with the nearest names), or several.
pub async fn find(client: &Client, name: &str) -> anyhow::Result<Found> {
    if let Some(back) = back(name) {
        let row = client.query_opt(NEWEST, &[&1i64, &back]).await.context(SCHEMA)?;
        return match row {
            Some(row) => Ok(Found::of(&row)?),
            None if back == 0 => Err(failed(
                "no job yet: run an MPI program under throughline-exec on a node with an agent".to_owned(),
            )),
            None => Err(failed(format!("there are not as many jobs: {name}"))),
        };
    }
    let rows = client.query(CANDIDATES_OF, &[&name]).await.context(SCHEMA)?;
    let nearest: Option<i32> = rows.first().map(|row| row.try_get("distance")).transpose()?;
    let mut fitting = Vec::new();
    for row in &rows {
        // An exact name wins over beginnings: 47 is job 47, not 471.
        if nearest != Some(2) && row.try_get::<_, i32>("distance")? == 2 {
            break;
        }
        fitting.push(Found::of(row)?);
        if nearest == Some(0) {
            break;
        }
    }
    match fitting.as_slice() {
        [found] => Ok(found.clone()),
        [] => Err(failed(unknown(client, name).await?)),
        several => {
            let keys: Vec<&str> = several.iter().take(CANDIDATES).map(|found| found.key.as_str()).collect();
            let more = if several.len() > keys.len() { ", …" } else { "" };
            Err(failed(format!(
                "{name} fits {} jobs: {}{more}; name one of them by more of its key",
                several.len(),
                keys.join(", ")
            )))
        }
    }
}

/// 0 for `last`, n for `last-n`.
fn back(name: &str) -> Option<i64> {
    match name.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('-')?.parse().ok().filter(|back| *back >= 0),
    }
}

async fn unknown(client: &Client, name: &str) -> anyhow::Result<String> {
    let rows = client.query(NEWEST, &[&NEAREST_OF, &0i64]).await.context(SCHEMA)?;
    let keys = rows.iter().map(|row| row.try_get("key")).collect::<Result<Vec<String>, _>>()?;
    let near = nearest(name, &keys);
    Ok(match near.as_slice() {
        [] if keys.is_empty() => format!("no job {name}: the database has none yet"),
        [] => format!("no job {name}; `throughline job list` shows those that there are"),
        near => format!("no job {name}; the nearest: {}", near.join(", ")),
    })
}

/// The keys that are most like a name, the most alike first.
fn nearest<'a>(name: &str, keys: &'a [String]) -> Vec<&'a str> {
    let alike = |key: &str| {
        let rest = key.split_once(':').map_or(key, |(_, rest)| rest);
        strsim::jaro_winkler(name, key).max(strsim::jaro_winkler(name, rest))
    };
    let mut near: Vec<(f64, &str)> = keys.iter().map(|key| (alike(key), key.as_str())).collect();
    near.retain(|(alike, _)| *alike >= SIMILAR);
    // Stable: among equals the newest first.
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    near.into_iter().take(CANDIDATES).map(|(_, key)| key).collect()
}

fn failed(message: String) -> anyhow::Error {
    Failure::new(ExitStatus::Failed, message).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_and_those_before() {
        assert_eq!(
            [back("last"), back("last-2"), back("last--1"), back("lasting"), back("4")],
            [Some(0), Some(2), None, None, None]
        );
    }

    #[tokio::test]
    async fn names_keys_ids_beginnings_and_the_newest() {
        let database = throughline_store::testing::database().await;
        let empty = database.connect_reader().await.unwrap();
        assert!(find(&empty, "last").await.unwrap_err().to_string().contains("no job yet"));
        let writer = database.connect().await.unwrap();
        let jobs = "INSERT INTO job (key, native_id, start_time) VALUES \
                    ('slurm:47.0@1', '47', '2026-11-20 10:00Z'), ('slurm:471.0@1', '471', '2026-11-20 11:00Z'), \
                    ('slurm:471.1@1', '471', '2026-11-20 12:00Z'), ('local:00ffee@1', NULL, '2026-11-20 09:00Z')";
        writer.execute(jobs, &[]).await.unwrap();
        let client = database.connect_reader().await.unwrap();
        for (name, key) in [
            ("last", "slurm:471.1@1"),
            ("last-3", "local:00ffee@1"),
            ("slurm:47.0@1", "slurm:47.0@1"),
            ("slurm:47.0", "slurm:47.0@1"),
            // An id is meant whole, though 471 begins with it.
            ("47", "slurm:47.0@1"),
            ("471.1", "slurm:471.1@1"),
            ("00f", "local:00ffee@1"),
            ("local", "local:00ffee@1"),
        ] {
            assert_eq!(find(&client, name).await.unwrap().key, key, "{name}");
        }
        for (name, said) in [
            ("471", "471 fits 2 jobs: slurm:471.1@1, slurm:471.0@1; name one of them"),
            ("slurm", "fits 3 jobs"),
            ("slurm:472.0", "no job slurm:472.0; the nearest: slurm:47"),
            ("zzz", "no job zzz; `throughline job list`"),
            ("last-4", "not as many jobs"),
        ] {
            let error = find(&client, name).await.unwrap_err().to_string();
            assert!(error.contains(said), "{name}: {error}");
        }
    }

    #[test]
    fn the_nearest_names() {
        let keys = ["slurm:4711.0", "slurm:4712.0", "local:00ffee"].map(str::to_owned);
        assert_eq!(nearest("4711.1", &keys)[0], "slurm:4711.0");
        assert_eq!(nearest("slrum:4712.0", &keys)[0], "slurm:4712.0");
        assert!(nearest("zzz", &keys).is_empty());
    }
}
