//! Which job a name on the command line means, and which it might have meant.

use crate::reader::SCHEMA;
use crate::text::clean;
use anyhow::Context;
use throughline_daemon::{ExitStatus, Failure};
use tokio_postgres::{Client, Row};

/// Most candidates named where a name fits several jobs or none.
const CANDIDATES: usize = 5;
/// Newest jobs among which the nearest names are looked for.
const NEAREST_OF: i64 = 5000;
/// Similarity (Jaro-Winkler, 0 to 1) below which a name is no suggestion.
const SIMILAR: f64 = 0.6;
/// Longest key and longest other text in a message, characters.
const KEY_CHARACTERS: usize = 120;
const ABOUT_CHARACTERS: usize = 40;

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

/// All that a name could mean, the nearest first, then those that the kernel's word stands behind, then the newest. `rest`
/// is the key without its scheduler. A key ends with the user's number by the kernel's word, which nobody types.
/// `strength` is 0 where the job's control group says so, 2 where only variables of the environment do, which anybody
/// can set to any job's.
const CANDIDATES_OF: &str = "
    SELECT id, key, left(user_name, 64) AS user_name, evidence,
           (SELECT left(min(host), 64) FROM job_rank r WHERE r.job_id = j.id) AS host,
           substring(key FROM '@([0-9]+)$') = $2 AS is_own,
           CASE evidence WHEN 'cgroup' THEN 0 WHEN 'environment' THEN 2 ELSE 1 END AS strength,
           CASE WHEN key = $1 THEN 0
                WHEN native_id = $1 OR split_part(key, '@', 1) = $1 OR split_part(rest, '@', 1) = $1 THEN 1
                ELSE 2 END AS distance
    FROM (SELECT id, key, native_id, user_name, evidence, coalesce(start_time, first_seen) AS began,
                 substr(key, strpos(key, ':') + 1) AS rest FROM job) j
    WHERE key = $1 OR native_id = $1 OR starts_with(key, $1) OR starts_with(rest, $1)
    ORDER BY distance, strength, began DESC, id DESC";

const NEWEST: &str =
    "SELECT id, key FROM job ORDER BY coalesce(start_time, first_seen) DESC, id DESC LIMIT $1 OFFSET $2";

/// The newest of a user, or of all for root ($3), but no job that only its own environment says while the kernel says that
/// it is another user's.
const LAST: &str = "
    SELECT id, key FROM job j
    WHERE (substring(key FROM '@([0-9]+)$') = $2 OR $3)
      AND NOT (evidence IS NOT DISTINCT FROM 'environment' AND EXISTS (
          SELECT FROM job k WHERE k.native_id = j.native_id AND k.scheduler IS NOT DISTINCT FROM j.scheduler
              AND k.evidence = 'cgroup' AND split_part(k.key, '@', 2) <> split_part(j.key, '@', 2)))
    ORDER BY coalesce(start_time, first_seen) DESC, id DESC LIMIT 1 OFFSET $1";

/// A job that a name may mean.
struct Candidate {
    found: Found,
    distance: i32,
    strength: i32,
    is_own: bool,
    about: String,
}

impl Candidate {
    fn of(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let text = |column: &str| row.try_get::<_, Option<String>>(column);
        let or =
            |text: Option<String>, absent: &str| clean(text.as_deref().unwrap_or(absent), ABOUT_CHARACTERS);
        let found = Found::of(row)?;
        let about = format!(
            "{} (user {}, by its {}, on {})",
            clean(&found.key, KEY_CHARACTERS),
            or(text("user_name")?, "unknown"),
            or(text("evidence")?, "own word"),
            or(text("host")?, "no node yet"),
        );
        Ok(Self {
            found,
            distance: row.try_get("distance")?,
            strength: row.try_get("strength")?,
            is_own: row.try_get::<_, Option<bool>>("is_own")?.unwrap_or_default(),
            about,
        })
    }
}

/// Those that are meant: the nearest, and of several of one name those that the kernel's word stands behind, and of these
/// the asking user's own. A key that begins with the name is no reason to prefer one.
fn meant(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let Some(nearest) = candidates.first().map(|candidate| candidate.distance) else { return candidates };
    let mut fitting: Vec<Candidate> =
        candidates.into_iter().filter(|candidate| nearest == 2 || candidate.distance == nearest).collect();
    if nearest < 2 {
        let strongest = fitting.iter().map(|candidate| candidate.strength).min();
        fitting.retain(|candidate| Some(candidate.strength) == strongest);
        if fitting.iter().any(|candidate| candidate.is_own) {
            fitting.retain(|candidate| candidate.is_own);
        }
    }
    fitting
}

/// Finds a job by key, native id, unique beginning, `last` or `last-N`, which are the asking user's own.
///
/// # Errors
/// No such job (status 1, with the nearest names), or several.
pub async fn find(client: &Client, name: &str) -> anyhow::Result<Found> {
    find_as(client, name, nix::unistd::getuid().as_raw()).await
}

async fn find_as(client: &Client, name: &str, user: u32) -> anyhow::Result<Found> {
    let (user, is_root) = (user.to_string(), user == 0);
    if let Some(back) = back(name) {
        let row = client.query_opt(LAST, &[&back, &user, &is_root]).await.context(SCHEMA)?;
        return match row {
            Some(row) => Ok(Found::of(&row)?),
            None if back == 0 && is_root => Err(failed(
                "no job yet: run an MPI program under throughline-exec on a node with an agent".to_owned(),
            )),
            None if back == 0 => Err(failed(format!(
                "no job of yours yet (user {user}): run an MPI program under throughline-exec on a node with an agent; \
                 `throughline job list` shows those of others"
            ))),
            None => Err(failed(format!("there are not as many jobs: {name}"))),
        };
    }
    let rows = client.query(CANDIDATES_OF, &[&name, &user]).await.context(SCHEMA)?;
    let mut fitting = meant(rows.iter().map(Candidate::of).collect::<Result<_, _>>()?);
    match fitting.len() {
        1 => Ok(fitting.remove(0).found),
        0 => Err(failed(unknown(client, name).await?)),
        several => {
            let abouts: Vec<&str> = fitting.iter().take(CANDIDATES).map(|one| one.about.as_str()).collect();
            let more = if several > abouts.len() { ", …" } else { "" };
            let name = clean(name, KEY_CHARACTERS);
            Err(failed(format!(
                "{name} fits {several} jobs: {}{more}; name one of them by more of its key",
                abouts.join(", ")
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
    let near: Vec<String> = nearest(name, &keys).into_iter().map(|key| clean(key, KEY_CHARACTERS)).collect();
    let name = clean(name, KEY_CHARACTERS);
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
        assert!(find_as(&empty, "last", 0).await.unwrap_err().to_string().contains("no job yet"));
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
            assert_eq!(find_as(&client, name, 0).await.unwrap().key, key, "{name}");
        }
        for (name, said) in [
            (
                "471",
                "471 fits 2 jobs: slurm:471.1@1 (user unknown, by its own word, on no node yet), slurm:471.0@1 (",
            ),
            ("slurm", "fits 3 jobs"),
            ("slurm:472.0", "no job slurm:472.0; the nearest: slurm:47"),
            ("zzz", "no job zzz; `throughline job list`"),
            ("last-4", "not as many jobs"),
        ] {
            let error = find_as(&client, name, 0).await.unwrap_err().to_string();
            assert!(error.contains(said), "{name}: {error}");
        }
    }

    #[tokio::test]
    async fn attack_14_a_decoy_is_neither_the_job_nor_the_last() {
        let database = throughline_store::testing::database().await;
        let writer = database.connect().await.unwrap();
        // Ada's job 900 by the kernel's word, and Mallory's processes whose environment says 900, later. Then a site
        // without control groups, where two users claim 901.
        let jobs = "INSERT INTO job (key, scheduler, native_id, user_name, evidence, start_time) VALUES \
                    ('slurm:900.0@1000', 'slurm', '900', 'ada', 'cgroup', '2026-11-20 10:00Z'), \
                    ('slurm:900.0@1001', 'slurm', '900', E'mallory\\u202e\\x1b[2J', 'environment', '2026-11-20 12:00Z'), \
                    ('pbs:901@1000', 'pbs', '901', 'ada', 'environment', '2026-11-20 09:00Z'), \
                    ('pbs:901@1001', 'pbs', '901', E'mallory\\u202e\\x1b[2J', 'environment', '2026-11-20 09:30Z')";
        writer.execute(jobs, &[]).await.unwrap();
        let client = database.connect_reader().await.unwrap();
        let key = async |name, user| find_as(&client, name, user).await.map(|found| found.key);
        for user in [0, 1000, 1001, 1002] {
            assert_eq!(key("900", user).await.unwrap(), "slurm:900.0@1000", "{user}");
            assert_eq!(key("slurm:900.0", user).await.unwrap(), "slurm:900.0@1000", "{user}");
        }
        // Who wants to see the decoy names it.
        assert_eq!(key("slurm:900.0@1001", 0).await.unwrap(), "slurm:900.0@1001");
        assert_eq!(key("last", 0).await.unwrap(), "slurm:900.0@1000");
        assert_eq!(key("last", 1000).await.unwrap(), "slurm:900.0@1000");
        assert_eq!(key("last-1", 1000).await.unwrap(), "pbs:901@1000");
        assert_eq!(key("last", 1001).await.unwrap(), "pbs:901@1001");
        assert!(key("last", 1002).await.unwrap_err().to_string().contains("no job of yours yet (user 1002)"));
        // Where nothing but their word stands behind both, one's own is meant, and others are told who claims what.
        assert_eq!(key("901", 1000).await.unwrap(), "pbs:901@1000");
        let error = key("901", 0).await.unwrap_err().to_string();
        assert!(error.contains("pbs:901@1000 (user ada, by its environment, on no node yet)"), "{error}");
        assert!(!error.chars().any(throughline_sample::admission::is_deceptive), "{error:?}");
    }

    #[test]
    fn the_nearest_names() {
        let keys = ["slurm:4711.0", "slurm:4712.0", "local:00ffee"].map(str::to_owned);
        assert_eq!(nearest("4711.1", &keys)[0], "slurm:4711.0");
        assert_eq!(nearest("slrum:4712.0", &keys)[0], "slurm:4712.0");
        assert!(nearest("zzz", &keys).is_empty());
    }
}
