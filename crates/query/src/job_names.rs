//! Which job a name means that a person typed, and which it might have meant.

use crate::time::milliseconds;
use std::collections::HashMap;
use std::time::SystemTime;
use throughline_sample::job_key::TypedJobName;
use throughline_store::Error;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// Newest jobs among which the nearest names are looked for.
const NEAREST_OF: i64 = 5000;
/// Similarity (Jaro-Winkler, 0 to 1) below which a name is no suggestion.
const SIMILAR: f64 = 0.6;
/// Most suggestions.
const NEAREST_MAX: usize = 5;

/// Jobs that a name may mean which are looked at. Those that the kernel supports and the querying user's own come first, so that
/// no number of others takes their place.
const CANDIDATES_MAX: i64 = 100;

/// What a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameResolution {
    /// The job with this key.
    Job(String),
    /// `last`, and there is no job of this user.
    NoJobYet,
    /// `last-N`, and there are not as many.
    NotAsMany,
    /// Nothing; the most similar keys, the most similar first.
    Nothing {
        /// They.
        nearest: Vec<String>,
        /// Whether there is no job at all.
        is_empty: bool,
    },
    /// Several jobs, the most likely first.
    Several(Vec<Candidate>),
}

/// A job that a name may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its key.
    pub key: String,
    /// Its user: the name, or the number where no name is known.
    pub user: Option<String>,
    /// What stands behind its key: cgroup, environment, launcher or process.
    pub evidence: Option<String>,
    /// A host of it.
    pub host: Option<String>,
    /// Its Slurm cluster.
    cluster: Option<String>,
    /// The scheduler's own id.
    pub native_id: Option<String>,
    /// When it began, milliseconds since 1970.
    pub began: Option<i64>,
    /// 0 for the whole key, 1 for a whole id, 2 for the beginning of either.
    distance: i32,
    /// Whether no rank of it was ever reported: its key is all that there is.
    is_empty: bool,
    /// 0 where the job's control group supports its id, 2 where only variables of the environment do, or nothing.
    strength: i32,
    /// Whether it is the querying user's.
    is_own: bool,
}

/// What a name could mean, the nearest first, then those with ranks, those that the kernel supports, the user's own, the newest. `$1` is
/// what was typed; `$4` to `$7` are its scheduler, cluster, user and id: a person types as much of a key as is needed, and the number of a
/// job whose key has a SLUID. `strength` is 0 where the job's control group names the id, 2 where only variables of the environment do,
/// which anybody can set to any job's, or where nothing is said.
const CANDIDATES: &str = "
    SELECT id, key, coalesce(left(user_name, 64), key_uid) AS user_name, evidence, cluster, native_id, began,
           NOT EXISTS (SELECT FROM internal.job_rank r WHERE r.job_id = j.id)
               AND NOT EXISTS (SELECT FROM internal.job_final f WHERE f.job_id = j.id AND f.ranks > 0) AS is_empty,
           coalesce((SELECT left(min(host), 64) FROM internal.job_rank r WHERE r.job_id = j.id),
                    (SELECT left(min(host), 64) FROM internal.job_node_final n WHERE n.job_id = j.id)) AS host,
           key_uid = $2 AS is_own,
           CASE WHEN evidence = 'cgroup' THEN 0 WHEN evidence <> 'environment' THEN 1 ELSE 2 END AS strength,
           CASE WHEN key = $1 THEN 0 WHEN is_of_parts AND $7 IN (native_id, native_step, key_job) THEN 1 ELSE 2 END AS distance
    FROM (SELECT id, key, native_id, concat_ws('.', native_id, nullif(step, '')) AS native_step, user_name, evidence, cluster, key_job, key_uid,
                 coalesce(start_time, first_seen) AS began, substr(key, strpos(key, ':') + 1) AS rest,
                 ($4::text IS NULL OR starts_with(key, $4 || ':')) AND ($5::text IS NULL OR cluster = $5)
                     AND ($6::text IS NULL OR key_uid = $6) AS is_of_parts
          FROM internal.run_visible) j
    WHERE key = $1 OR starts_with(key, $1) OR starts_with(rest, $1)
       OR is_of_parts AND (native_id = $7 OR starts_with(key_job, $7) OR native_step = $7)
    ORDER BY distance, is_empty, strength, is_own DESC NULLS LAST, began DESC, id DESC LIMIT $3";

const NEWEST: &str =
    "SELECT key FROM internal.run_visible ORDER BY coalesce(start_time, first_seen) DESC, id DESC LIMIT $1";

/// The newest of a user, or of all without one, but no job whose id only its own environment names while a control group
/// shows that the id is another user's.
const LAST: &str = "
    SELECT key FROM internal.run_visible j
    WHERE ($2::text IS NULL OR key_uid = $2)
      AND NOT (evidence IS NOT DISTINCT FROM 'environment' AND EXISTS (
          SELECT FROM internal.run_visible k WHERE k.native_id = j.native_id AND k.scheduler IS NOT DISTINCT FROM j.scheduler
              AND k.cluster IS NOT DISTINCT FROM j.cluster AND k.evidence = 'cgroup' AND k.key_uid <> j.key_uid))
    ORDER BY coalesce(start_time, first_seen) DESC, id DESC LIMIT 1 OFFSET $1";

fn candidate(row: &Row) -> Candidate {
    Candidate {
        key: row.get("key"),
        user: row.get("user_name"),
        evidence: row.get("evidence"),
        host: row.get("host"),
        cluster: row.get("cluster"),
        native_id: row.get("native_id"),
        began: row.get::<_, Option<SystemTime>>("began").map(milliseconds),
        distance: row.get("distance"),
        is_empty: row.get("is_empty"),
        strength: row.get("strength"),
        is_own: row.get::<_, Option<bool>>("is_own").unwrap_or_default(),
    }
}

/// Finds a job by key, scheduler's id, unique beginning of either, `last` or `last-N`. `user` is the number of the user who
/// queries: `last` counts their jobs only, and of several jobs of one name theirs is preferred.
///
/// # Errors
/// The database's.
pub async fn meaning(client: &Client, name: &str, user: Option<u32>) -> Result<NameResolution, Error> {
    let user = user.map(|user| user.to_string());
    let failed = || Error::sql("looking for a job by its name");
    if let Some(back) = back(name) {
        let row = client.query_opt(LAST, &[&back, &user]).await.map_err(failed())?;
        return Ok(match row {
            Some(row) => NameResolution::Job(row.get("key")),
            None if back == 0 => NameResolution::NoJobYet,
            None => NameResolution::NotAsMany,
        });
    }
    let typed = TypedJobName::read(name);
    let typed_uid = typed.uid.map(|uid| uid.to_string());
    let parameters: [&(dyn ToSql + Sync); 7] =
        [&name, &user, &CANDIDATES_MAX, &typed.scheduler, &typed.cluster, &typed_uid, &typed.job];
    let rows = client.query(CANDIDATES, &parameters).await.map_err(failed())?;
    let mut fitting = likely(rows.iter().map(candidate).collect());
    match fitting.len() {
        0 => {
            let rows = client.query(NEWEST, &[&NEAREST_OF]).await.map_err(failed())?;
            let keys: Vec<String> = rows.iter().map(|row| row.get("key")).collect();
            Ok(NameResolution::Nothing { nearest: nearest(name, &keys), is_empty: keys.is_empty() })
        }
        1 => Ok(NameResolution::Job(fitting.remove(0).key)),
        _ => Ok(NameResolution::Several(fitting)),
    }
}

/// The nearest, and of several of one name those with ranks, of these those that the kernel supports, and of these the querying
/// user's own. That a key begins with the name is no reason to prefer one. Two clusters number their jobs alike: what the kernel
/// supports in one is no reason against a job of the other.
fn likely(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let Some(nearest) = candidates.first().map(|candidate| candidate.distance) else { return candidates };
    let mut fitting: Vec<Candidate> =
        candidates.into_iter().filter(|candidate| nearest == 2 || candidate.distance == nearest).collect();
    if nearest < 2 {
        let has_ranks = fitting.iter().any(|candidate| !candidate.is_empty);
        fitting.retain(|candidate| candidate.is_empty != has_ranks);
        let mut strongest: HashMap<Option<String>, i32> = HashMap::new();
        for candidate in &fitting {
            let known = strongest.entry(candidate.cluster.clone()).or_insert(candidate.strength);
            *known = candidate.strength.min(*known);
        }
        fitting.retain(|candidate| strongest.get(&candidate.cluster) == Some(&candidate.strength));
        if fitting.iter().any(|candidate| candidate.is_own) {
            fitting.retain(|candidate| candidate.is_own);
        }
    }
    fitting
}

/// 0 for `last`, n for `last-n`.
fn back(name: &str) -> Option<i64> {
    match name.strip_prefix("last")? {
        "" => Some(0),
        rest => rest.strip_prefix('-')?.parse().ok().filter(|back| *back >= 0),
    }
}

/// The keys that are most like a name, the most alike first.
fn nearest(name: &str, keys: &[String]) -> Vec<String> {
    let alike = |key: &str| {
        let rest = key.split_once(':').map_or(key, |(_, rest)| rest);
        strsim::jaro_winkler(name, key).max(strsim::jaro_winkler(name, rest))
    };
    let mut near: Vec<(f64, &String)> = keys.iter().map(|key| (alike(key), key)).collect();
    near.retain(|(alike, _)| *alike >= SIMILAR);
    // Stable: among equals the newest first.
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    near.into_iter().take(NEAREST_MAX).map(|(_, key)| key.clone()).collect()
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
        assert_eq!(meaning(&empty, "last", None).await.unwrap(), NameResolution::NoJobYet);
        assert_eq!(
            meaning(&empty, "47", None).await.unwrap(),
            NameResolution::Nothing { nearest: Vec::new(), is_empty: true }
        );
        let writer = database.connect().await.unwrap();
        let jobs = "INSERT INTO internal.run (key, native_id, start_time) VALUES \
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
            assert_eq!(
                meaning(&client, name, None).await.unwrap(),
                NameResolution::Job(key.into()),
                "{name}"
            );
        }
        for (name, count) in [("471", 2), ("slurm", 3)] {
            let NameResolution::Several(jobs) = meaning(&client, name, None).await.unwrap() else {
                panic!("{name}")
            };
            assert_eq!((jobs.len(), jobs[0].key.as_str()), (count, "slurm:471.1@1"), "{name}");
        }
        let NameResolution::Nothing { nearest, is_empty: false } =
            meaning(&client, "slurm:472.0", None).await.unwrap()
        else {
            panic!("slurm:472.0")
        };
        assert!(nearest[0].starts_with("slurm:47"), "{nearest:?}");
        let nothing = NameResolution::Nothing { nearest: Vec::new(), is_empty: false };
        assert_eq!(meaning(&client, "zzz", None).await.unwrap(), nothing);
        assert_eq!(meaning(&client, "last-4", None).await.unwrap(), NameResolution::NotAsMany);
    }

    #[tokio::test]
    async fn attack_26_a_name_that_thousands_of_jobs_fit_reads_a_hundred() {
        let database = throughline_store::testing::database().await;
        let writer = database.connect().await.unwrap();
        let jobs = "INSERT INTO internal.run (key, scheduler, native_id, user_name, evidence, start_time) \
                    SELECT format('slurm:%s.%s@1001', 900 + n % 2, n), 'slurm', (900 + n % 2)::text, 'mallory', \
                           'environment', '2026-11-20 12:00Z' FROM generate_series(1, 5000) n \
                    UNION ALL VALUES ('slurm:901.0@1000', 'slurm', '901', 'ada', 'environment', '2026-11-20 10:00Z'::timestamptz)";
        writer.execute(jobs, &[]).await.unwrap();
        let client = database.connect_reader().await.unwrap();
        for name in ["slurm", "9", "900"] {
            let NameResolution::Several(jobs) = meaning(&client, name, None).await.unwrap() else {
                panic!("{name}")
            };
            assert_eq!(jobs.len() as i64, CANDIDATES_MAX, "{name}");
        }
        let own = meaning(&client, "901", Some(1000)).await.unwrap();
        assert_eq!(
            own,
            NameResolution::Job("slurm:901.0@1000".into()),
            "newer ones of others take nobody's place"
        );
    }

    #[tokio::test]
    async fn attack_14_a_decoy_is_neither_the_job_nor_the_last() {
        let database = throughline_store::testing::database().await;
        let writer = database.connect().await.unwrap();
        // Ada's job 900, which the kernel supports, and Mallory's processes whose environment says 900, later. Then a site
        // without control groups, where two users claim 901.
        let jobs = "INSERT INTO internal.run (key, scheduler, native_id, user_name, evidence, start_time) VALUES \
                    ('slurm:900.0@1000', 'slurm', '900', 'ada', 'cgroup', '2026-11-20 10:00Z'), \
                    ('slurm:900.0@1001', 'slurm', '900', 'mallory', 'environment', '2026-11-20 12:00Z'), \
                    ('pbs:901@1000', 'pbs', '901', 'ada', 'environment', '2026-11-20 09:00Z'), \
                    ('pbs:901@1001', 'pbs', '901', 'mallory', 'environment', '2026-11-20 09:30Z')";
        writer.execute(jobs, &[]).await.unwrap();
        let client = database.connect_reader().await.unwrap();
        let key = async |name, user| meaning(&client, name, user).await.unwrap();
        let job = |key: &str| NameResolution::Job(key.to_owned());
        for user in [None, Some(1000), Some(1001), Some(1002)] {
            assert_eq!(key("900", user).await, job("slurm:900.0@1000"), "{user:?}");
            assert_eq!(key("slurm:900.0", user).await, job("slurm:900.0@1000"), "{user:?}");
        }
        // Who wants to see the decoy names it.
        assert_eq!(key("slurm:900.0@1001", None).await, job("slurm:900.0@1001"));
        assert_eq!(key("last", None).await, job("slurm:900.0@1000"));
        assert_eq!(key("last", Some(1000)).await, job("slurm:900.0@1000"));
        assert_eq!(key("last-1", Some(1000)).await, job("pbs:901@1000"));
        assert_eq!(key("last", Some(1001)).await, job("pbs:901@1001"));
        assert_eq!(key("last", Some(1002)).await, NameResolution::NoJobYet);
        // Where only their own claims stand behind both, one's own is meant, and others see who claims what.
        assert_eq!(key("901", Some(1000)).await, job("pbs:901@1000"));
        let NameResolution::Several(jobs) = key("901", None).await else { panic!("901 is two jobs") };
        let claims: Vec<_> = jobs.iter().map(|job| (job.user.as_deref(), job.evidence.as_deref())).collect();
        assert_eq!(claims, [(Some("mallory"), Some("environment")), (Some("ada"), Some("environment"))]);
    }

    #[tokio::test]
    async fn attack_29_a_key_without_ranks_is_not_the_job_and_two_jobs_are_named() {
        let database = throughline_store::testing::database().await;
        let writer = database.connect().await.unwrap();
        // Two users' jobs of one number, and keys without anything else.
        let jobs = "INSERT INTO internal.run (key, scheduler, native_id, evidence, start_time) VALUES \
                    ('slurm:900@1000', NULL, NULL, NULL, NULL), \
                    ('slurm:900.0@1000', 'slurm', '900', 'environment', '2026-11-20 10:00Z'), \
                    ('slurm:900.0@1001', 'slurm', '900', 'environment', '2026-11-20 12:00Z'), \
                    ('slurm:901@1002', NULL, NULL, NULL, NULL), ('slurm:901@1001', NULL, NULL, NULL, NULL); \
                    INSERT INTO internal.job_rank (job_id, rank, host, pid, world_size, mpi_library, start_time) \
                    SELECT id, 0, 'n1', 1, 1, '', now() FROM internal.run WHERE native_id = '900'";
        writer.batch_execute(jobs).await.unwrap();
        let client = database.connect_reader().await.unwrap();
        for (name, keys) in
            [("900", ["slurm:900.0@1001", "slurm:900.0@1000"]), ("901", ["slurm:901@1001", "slurm:901@1002"])]
        {
            let NameResolution::Several(jobs) = meaning(&client, name, None).await.unwrap() else {
                panic!("{name}")
            };
            assert_eq!(jobs.iter().map(|job| job.key.as_str()).collect::<Vec<_>>(), keys);
            // No name is known of either user.
            let users: Vec<_> = jobs.iter().map(|job| job.user.as_deref().unwrap()).collect();
            assert!(keys.iter().zip(users).all(|(key, user)| key.ends_with(&format!("@{user}"))), "{jobs:?}");
        }
        let own = meaning(&client, "900", Some(1000)).await.unwrap();
        assert_eq!(own, NameResolution::Job("slurm:900.0@1000".into()));
    }

    /// Two clusters that number their jobs alike, and a job of Slurm 26.05 that was requeued.
    #[tokio::test]
    async fn jobs_of_two_clusters_are_found_by_number() {
        let database = throughline_store::testing::database().await;
        let writer = database.connect().await.unwrap();
        let jobs = "INSERT INTO internal.run (key, scheduler, native_id, step, evidence, start_time) VALUES \
                    ('slurm:alpha:123.0@1000', 'slurm', '123', '0', 'cgroup', '2026-11-20 10:00Z'), \
                    ('slurm:beta:123.0@1000', 'slurm', '123', '0', 'environment', '2026-11-20 11:00Z'), \
                    ('slurm:beta:123.0@1001', 'slurm', '123', '0', 'environment', '2026-11-20 12:00Z'), \
                    ('slurm:alpha:124.0@1001', 'slurm', '124', '0', 'environment', '2026-11-20 12:00Z'), \
                    ('slurm:beta:124.0@1002', 'slurm', '124', '0', 'cgroup', '2026-11-20 12:00Z'), \
                    ('slurm:beta:s1N9M8EM2AVH00.0@1000', 'slurm', '46', '0', 'cgroup', '2026-11-20 07:00Z'), \
                    ('slurm:beta:s1N9M8EM2KPW00.0@1000', 'slurm', '46', '0', 'cgroup', '2026-11-20 08:00Z')";
        writer.execute(jobs, &[]).await.unwrap();
        let client = database.connect_reader().await.unwrap();
        let found = async |name: &str, user| match meaning(&client, name, user).await.unwrap() {
            NameResolution::Job(key) => vec![key],
            NameResolution::Several(jobs) => jobs.into_iter().map(|job| job.key).collect(),
            other => panic!("{name}: {other:?}"),
        };
        let [alpha, beta] = ["slurm:alpha:123.0@1000", "slurm:beta:123.0@1000"];
        for (name, user, keys) in [
            // What the kernel supports in one cluster is no reason against the other's.
            ("123", Some(1000), vec![alpha, beta]),
            ("123", None, vec![alpha, "slurm:beta:123.0@1001", beta]),
            ("slurm:123.0", Some(1000), vec![alpha, beta]),
            ("alpha:123", None, vec![alpha]),
            ("slurm:alpha:123.0", None, vec![alpha]),
            ("beta:123.0", Some(1000), vec![beta]),
            ("beta:123@1001", Some(1000), vec!["slurm:beta:123.0@1001"]),
            ("slurm:beta:123.0@1000", None, vec![beta]),
            // Two runs of one number; each is named by its SLUID.
            ("46", None, vec!["slurm:beta:s1N9M8EM2KPW00.0@1000", "slurm:beta:s1N9M8EM2AVH00.0@1000"]),
            ("beta:46.0", None, vec!["slurm:beta:s1N9M8EM2KPW00.0@1000", "slurm:beta:s1N9M8EM2AVH00.0@1000"]),
            ("s1N9M8EM2AVH00", None, vec!["slurm:beta:s1N9M8EM2AVH00.0@1000"]),
            ("s1N9M8EM2A", None, vec!["slurm:beta:s1N9M8EM2AVH00.0@1000"]),
        ] {
            assert_eq!(found(name, user).await, keys, "{name} {user:?}");
        }
        // Another user's job of this number is in another cluster: it is no reason to pass this one over.
        assert_eq!(found("last", Some(1001)).await.len(), 1);
        let last = meaning(&client, "last-1", Some(1001)).await.unwrap();
        assert!(matches!(last, NameResolution::Job(_)), "{last:?}");
    }

    #[test]
    fn the_nearest_names() {
        let keys = ["slurm:4711.0", "slurm:4712.0", "local:00ffee"].map(str::to_owned);
        assert_eq!(nearest("4711.1", &keys)[0], "slurm:4711.0");
        assert_eq!(nearest("slrum:4712.0", &keys)[0], "slurm:4712.0");
        assert!(nearest("zzz", &keys).is_empty());
    }
}
