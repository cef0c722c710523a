//! The key of a job: how it is written, and the one place in Rust where it is read.
//!
//! `SCHEDULER:[CLUSTER:]ID[.STEP]@UID`, for instance `slurm:demo:123.0@1000`; without a scheduler `local:NAME@UID`. Slurm alone
//! has a cluster: others have their server in the id. The id is what makes a run unique: with Slurm 26.05 its SLUID, else the
//! job's number. Generated columns of `internal.run` read keys for SQL; a test of the store compares both.

/// Schedulers that a key may begin with.
const SCHEDULERS: [&str; 6] = ["slurm", "pbs", "lsf", "flux", "sge", LOCAL];
/// The scheduler of a job that no scheduler started.
const LOCAL: &str = "local";
/// The scheduler whose jobs are numbered by cluster.
const SLURM: &str = "slurm";
/// Longest user number in a key, in digits: Linux has 32 bits.
const UID_DIGITS: usize = 10;
/// Longest name of a cluster in characters: it is part of each key.
const CLUSTER_CHARACTERS: usize = 64;
/// An `s` and thirteen digits in base 32: Slurm's SLUID.
const SLUID_CHARACTERS: usize = 14;

/// Numbers of Slurm's steps from here on are no numbers of steps: 4294967290 is the interactive step, ...291 the batch step,
/// ...292 the external one. Since 26.05 they are negative.
const NAMED_STEPS: u64 = 0xffff_fff0;

/// The parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobKeyParts<'a> {
    /// slurm, pbs, lsf, flux, sge or local.
    pub scheduler: &'a str,
    /// The cluster of Slurm, where it is known.
    pub cluster: Option<&'a str>,
    /// The id with its step, or the name of a job without a scheduler.
    pub job: &'a str,
    /// The user, by the kernel's word.
    pub uid: u32,
}

impl<'a> JobKeyParts<'a> {
    /// Reads a key; `None` for a text of another form.
    #[must_use]
    pub fn read(key: &'a str) -> Option<Self> {
        let (head, uid) = split_user(key)?;
        let (scheduler, rest) = head.split_once(':')?;
        let (cluster, job) = split_cluster(scheduler, rest);
        Some(Self { scheduler, cluster, job, uid })
    }
}

/// A key of a job that a scheduler started.
#[must_use]
pub fn scheduled(scheduler: &str, cluster: Option<&str>, id: &str, step: &str, uid: u32) -> String {
    let cluster = cluster.filter(|_| scheduler == SLURM).map_or_else(String::new, |name| format!("{name}:"));
    let dot = if step.is_empty() { "" } else { "." };
    format!("{scheduler}:{cluster}{id}{dot}{step}@{uid}")
}

/// A key of a job that none started.
#[must_use]
pub fn local(name: &str, uid: u32) -> String {
    format!("{LOCAL}:{name}@{uid}")
}

/// Whether the scheduler's own id is in a key. A SLUID is in its place since Slurm 26.05.
#[must_use]
pub fn has_id(key: &str, native_id: &str) -> bool {
    JobKeyParts::read(key).is_none_or(|parts| {
        let rest = parts.job.strip_prefix(native_id);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The user in a key.
#[must_use]
pub fn owner(key: &str) -> Option<u32> {
    Some(split_user(key)?.1)
}

/// The name of a cluster as keys have it: Slurm takes its ClusterName in small letters. `None` for a text that is no such name.
#[must_use]
pub fn cluster_name(text: &str) -> Option<String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_good = !text.is_empty() && text.len() <= CLUSTER_CHARACTERS && text.bytes().all(is_name);
    is_good.then(|| text.to_ascii_lowercase())
}

/// Whether a text has the form of a SLUID of Slurm 26.05, which names one run of one job: `s` and 13 of `0-9A-HJKMNP-TV-Z`.
#[must_use]
pub fn is_sluid(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase() && !b"ILOU".contains(&byte);
    text.len() == SLUID_CHARACTERS && text.strip_prefix('s').is_some_and(|rest| rest.bytes().all(is_digit))
}

/// Whether a step of Slurm has a number, so that it is counted. The batch script, the shell of `salloc` and what others start in a job
/// have names (batch, interactive, extern), or numbers beyond all counted ones: they are parts of the job and no steps of their own.
#[must_use]
pub fn is_step_number(step: &str) -> bool {
    step.bytes().all(|byte| byte.is_ascii_digit()) && step.parse().is_ok_and(|step: u64| step < NAMED_STEPS)
}

/// What a person typed for a job: a key, or as much of it as is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypedJobName<'a> {
    /// Only jobs of this scheduler.
    pub scheduler: Option<&'a str>,
    /// Only jobs of this cluster.
    pub cluster: Option<&'a str>,
    /// Only jobs of this user.
    pub uid: Option<u32>,
    /// The id, with or without its step, or its beginning.
    pub job: &'a str,
}

impl<'a> TypedJobName<'a> {
    /// Reads `123`, `123.0`, `demo:123`, `slurm:123`, `slurm:demo:123.0` and each of them with `@UID`.
    #[must_use]
    pub fn read(text: &'a str) -> Self {
        let (head, uid) = split_user(text).map_or((text, None), |(head, uid)| (head, Some(uid)));
        let (scheduler, rest) = match head.split_once(':') {
            Some((first, rest)) if SCHEDULERS.contains(&first) => (Some(first), rest),
            _ => (None, head),
        };
        // A cluster may be named without its scheduler.
        let (cluster, job) = split_cluster(scheduler.unwrap_or(SLURM), rest);
        Self { scheduler, cluster, uid, job }
    }
}

fn split_user(key: &str) -> Option<(&str, u32)> {
    let (head, uid) = key.rsplit_once('@')?;
    let is_number = (1..=UID_DIGITS).contains(&uid.len()) && uid.bytes().all(|byte| byte.is_ascii_digit());
    Some((head, uid.parse().ok().filter(|_| is_number)?))
}

fn split_cluster<'a>(scheduler: &str, rest: &'a str) -> (Option<&'a str>, &'a str) {
    match rest.split_once(':') {
        Some((cluster, job)) if scheduler == SLURM => (Some(cluster), job),
        _ => (None, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<'a>(
        scheduler: &'a str,
        cluster: Option<&'a str>,
        job: &'a str,
        uid: u32,
    ) -> Option<JobKeyParts<'a>> {
        Some(JobKeyParts { scheduler, cluster, job, uid })
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let key = scheduled("slurm", Some("demo"), "123", "0", 1000);
        assert_eq!(key, "slurm:demo:123.0@1000");
        assert_eq!(JobKeyParts::read(&key), parts("slurm", Some("demo"), "123.0", 1000));
        let key = scheduled("slurm", None, "123", "", 7);
        assert_eq!((key.as_str(), JobKeyParts::read(&key)), ("slurm:123@7", parts("slurm", None, "123", 7)));
        // Its server is in the id.
        let key = scheduled("pbs", Some("demo"), "12[3].server", "", 7);
        assert_eq!(JobKeyParts::read(&key), parts("pbs", None, "12[3].server", 7));
        let key = local("n1:42:99", 7);
        assert_eq!(
            (key.as_str(), JobKeyParts::read(&key)),
            ("local:n1:42:99@7", parts("local", None, "n1:42:99", 7))
        );
        assert!(has_id("slurm:demo:123.0@7", "123") && has_id("lsf:9[3]@7", "9[3]"));
        assert!(!has_id("slurm:demo:s1N9M8EM2AVH00.0@7", "1") && !has_id("slurm:123@7", "12"));
        for bad in
            ["", "slurm", "slurm:1", "1@7", "slurm:1@", "slurm:1@x", "slurm:1@-1", "slurm:1@99999999999"]
        {
            assert_eq!(JobKeyParts::read(bad), None, "{bad}");
        }
        assert_eq!((owner("slurm:1@7"), owner("slurm:1@4294967296"), owner("7")), (Some(7), None, None));
    }

    #[test]
    fn clusters_are_in_small_letters_as_slurm_has_them() {
        assert_eq!(cluster_name("Demo_2-a.b").as_deref(), Some("demo_2-a.b"));
        for bad in ["", "a:b", "a@b", "a b", "ü", &"x".repeat(65)] {
            assert_eq!(cluster_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn sluids_have_no_letters_that_are_mistaken_for_others() {
        for good in ["s1N9M8EM2AVH00", "sDQNM8EMPDYS00", "s0000000000000"] {
            assert!(is_sluid(good), "{good}");
        }
        for bad in [
            "",
            "s",
            "1N9M8EM2AVH00",
            "s1N9M8EM2AVH0",
            "s1N9M8EM2AVH000",
            "s1N9M8EM2AVHI0",
            "s1N9M8EM2AVHL0",
            "s1N9M8EM2AVHO0",
            "s1N9M8EM2AVHU0",
            "s1n9M8EM2AVH00",
            "S1N9M8EM2AVH00",
            "s1N9M8EM2AVH\u{e9}",
            "system",
        ] {
            assert!(!is_sluid(bad), "{bad}");
        }
    }

    #[test]
    fn steps_with_names_are_none() {
        for counted in ["0", "17", "4294967279"] {
            assert!(is_step_number(counted), "{counted}");
        }
        for named in ["batch", "extern", "interactive", "-5", "4294967280", "4294967291", "", "+1", "0.1"] {
            assert!(!is_step_number(named), "{named}");
        }
    }

    #[test]
    fn people_type_as_much_as_they_know() {
        let read = TypedJobName::read;
        let name = |scheduler, cluster, uid, job| TypedJobName { scheduler, cluster, uid, job };
        assert_eq!(read("123"), name(None, None, None, "123"));
        assert_eq!(read("123.0"), name(None, None, None, "123.0"));
        assert_eq!(read("demo:123"), name(None, Some("demo"), None, "123"));
        assert_eq!(read("slurm:123@7"), name(Some("slurm"), None, Some(7), "123"));
        assert_eq!(read("slurm:demo:123.0"), name(Some("slurm"), Some("demo"), None, "123.0"));
        assert_eq!(read("local:n1:42:99@7"), name(Some("local"), None, Some(7), "n1:42:99"));
        assert_eq!(read("pbs:12.server"), name(Some("pbs"), None, None, "12.server"));
        assert_eq!(read("slurm"), name(None, None, None, "slurm"));
        assert_eq!(read(""), name(None, None, None, ""));
    }
}
