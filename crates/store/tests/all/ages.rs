//! One rule decides from which age on a reading or a report is silent: what its sender reported, else
//! `throughline_sample::row_rules`. No other constant does, in Rust, SQL, TypeScript or PromQL.

use std::path::{Path, PathBuf};

use throughline_sample::row_rules::DEFAULT;

/// Words in names of constants that may be ages.
const WORDS: [&str; 13] = [
    "SILENT",
    "SILENCE",
    "STALE",
    "AGE",
    "LATE",
    "LAG",
    "RECENT",
    "LATELY",
    "FRESH",
    "QUIET",
    "GAP",
    "HEARTBEAT",
    "BACK",
];

/// Constants with such names that judge no reading: file, name, reason.
const OTHERS: [(&str, &str, &str); 56] = [
    ("verdicts/src/hung.rs", "WAIT_AGE_MIN", "how long a call goes on, not how old a row is"),
    ("verdicts/src/hung.rs", "NEW_THREADS_AGE_MIN", "the same"),
    ("query/src/pauses.rs", "RECENT_MILLISECONDS", "until a daemon's metric follows its event"),
    ("query/src/pauses.rs", "LOOK_BACK_MILLISECONDS", "the longest pause that can be requested"),
    (
        "mpit-bridge/src/rank_account.rs",
        "SILENT_NANOSECONDS",
        "pushes of a shim come a second apart, whatever is configured",
    ),
    (
        "gateway/src/api/live.rs",
        "FRESH",
        "how long one reading of what a job's nodes have sent serves all who look",
    ),
    ("agent/src/live.rs", "TOO_LATE_NANOSECONDS", "within a second: when its rows are left to the next one"),
    (
        "query/src/live.rs",
        "FRESH_MS",
        "figures of now: nodes that make a row each second while somebody looks",
    ),
    ("agent/src/fold.rs", "LATE_NANOSECONDS", "how long a fold waits for what comes late"),
    ("agent/src/health.rs", "RECENT", "for how long a failure is shown"),
    ("cli/src/serve/config/database.rs", "READ_LAG_SECONDS_CEILING", "bound of a setting of replicas"),
    ("cli/src/serve/config/database.rs", "READ_LAG_SECONDS_MAX", "default of a setting of replicas"),
    ("crawler/src/events/watch.rs", "SILENT_LOOKS", "a count of looks at a device"),
    ("crawler/src/run/discovery_thread.rs", "SHORTEST_GAP", "between two discoveries"),
    ("crawler/src/run/discovery_thread.rs", "SHORTEST_LIGHT_GAP", "between two discoveries"),
    (
        "crawler/src/run/exposition.rs",
        "SHORTEST_STALE",
        "of a whole page: least of five of its own sweeps' intervals",
    ),
    ("crawler/src/run/health.rs", "RECENT", "for how long a failure is shown"),
    (
        "daemon/src/clock_spans.rs",
        "LATE_NANOSECONDS",
        "how long what was made before a step of the clock comes through queues",
    ),
    ("delivery/src/ship.rs", "SILENCE_MAX", "a connection's time limit"),
    ("demo/src/meter.rs", "SILENT_NANOSECONDS", "the demo's own picture of ranks that push each second"),
    ("gateway/src/api/mod.rs", "FRESH", "of a cache"),
    ("gateway/src/export/target.rs", "LATE_NOTES", "a count"),
    ("gateway/src/export/target.rs", "LATE_PACKED_NOTES", "a count"),
    ("gateway/src/export/target.rs", "LATE_PACKED_THINGS", "a count"),
    ("gateway/src/export/target.rs", "LATE_PATIENCE", "a time limit of work"),
    ("gateway/src/export/target.rs", "LATE_SPAN", "how much of what came late is read together"),
    ("gateway/src/export/target.rs", "LATE_THINGS", "a count"),
    ("gateway/src/read/mod.rs", "HORIZONS_AGE", "of a cache"),
    ("gateway/src/upkeep/link_series.rs", "QUIET", "for how long a contributor without bytes stays a series"),
    ("gateway/web/src/fabric/layout.ts", "POD_GAP", "a distance on the map"),
    ("gpu/src/source.rs", "PROCESSES_AGE", "of a cache"),
    ("infiniband/src/reading.rs", "FRESH_DATA", "bits"),
    ("infiniband/src/reading.rs", "FRESH_LANES", "a bit"),
    ("infiniband/src/reading/thin.rs", "DEFAULT_QUIET_BYTES", "a setting that the crawler reports"),
    ("mpit-bridge/src/ledger.rs", "LATE_NANOSECONDS", "how long a ledger waits for what comes late"),
    ("mpit-bridge/src/member.rs", "UNKNOWN_AGE_NANOSECONDS", "stands for a start that is not known"),
    ("mpit-bridge/src/open_calls.rs", "AGE_PARTS", "a share of a call's age, by which it is reported"),
    ("query/src/evidence.rs", "FRESH", "of a cache"),
    ("query/src/evidence.rs", "RECENT_MS", "the time that a verdict is over"),
    ("query/src/history/cache.rs", "SERIES_AGE", "of a cache"),
    ("query/src/history/ends.rs", "STALE", "Prometheus' mark of a series' end"),
    ("query/src/history/blocks.rs", "LATE", "a mark"),
    ("query/src/history/tail/tables.rs", "LABELS_AGE", "of a cache"),
    ("recorder/src/lib.rs", "AGE_MAX_LEAST", "bound of a setting"),
    ("sample/src/row_rules.rs", "HEARTBEAT", "the rule"),
    ("sample/src/row_rules.rs", "LARGEST_GAP_SECONDS_MAX", "the rule"),
    ("store/src/link_shares/largest.rs", "BACK", "windows that the server itself makes each ten seconds"),
    ("store/src/link_shares/places.rs", "FRESH", "of a cache"),
    (
        "store/src/link_shares/progress.rs",
        "LATE_QUIET_SECONDS",
        "how long notes of what came late are gathered",
    ),
    (
        "store/src/link_shares/progress.rs",
        "LATE_WAIT_SECONDS",
        "how long notes of what came late are gathered",
    ),
    ("store/src/retention.rs", "LATE_WINDOWS", "how old windows may be that are made again"),
    (
        "store/src/writer/hypertable_chunks.rs",
        "LATE_AFTER",
        "from when on a batch is of a chunk that is closed",
    ),
    ("verdicts/src/hung.rs", "AGE_MIN", "of a call that hangs, which is reported all the time"),
    ("verdicts/src/slow_rank.rs", "LATE_MIN", "a share"),
    ("verdicts/src/slow_rank.rs", "LATE_MOST", "a share"),
    (
        "dashboards/src/panel.rs",
        "LONGEST_GAP_MILLISECONDS",
        "Grafana's lines: how far apart two points are joined",
    ),
];

/// Statements with a time of less than an hour before now, in what readers use: file, the time, how many, reason.
const TIMES: [(&str, &str, usize, &str); 6] = [
    ("query/src/recent.rs", "10 seconds", 1, "the demo's picture of ranks that push each second"),
    (
        "query/src/status.rs",
        "1 minute",
        9,
        "what rows per second are of: an age comes from coverage, of a day",
    ),
    ("query/src/sender_clocks.rs", "2 minutes", 2, "a server notes each 30 s that its own clock is off"),
    ("store/schema/functions/ib_port_rates.sql", "1 minute", 1, "an example in a comment"),
    ("store/schema/functions/job_as_of.sql", "4 seconds", 1, "which ten seconds have ended and arrived"),
    ("store/schema/functions/job_ranks_as_of.sql", "4 seconds", 1, "the same ten seconds"),
];

/// Each source file of programs and their libraries below a folder, without tests.
fn sources(folder: &Path, all: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !["tests", "target", "node_modules", "dist", "testdouble"].contains(&name) {
                sources(&path, all);
            }
        } else if [".rs", ".ts", ".tsx", ".sql", ".toml"].iter().any(|end| name.ends_with(end))
            && !["tests.rs", ".test.ts", "schema.ts", "current.sql"].iter().any(|end| name.ends_with(end))
        {
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
            all.push((path, text));
        }
    }
}

fn all_sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for (folder, within) in [("crates", "crates"), ("alerts", ""), ("dashboards", "")] {
        let mut found = Vec::new();
        sources(&root.join(folder), &mut found);
        let of = |(path, text): (PathBuf, String)| {
            let path = path.strip_prefix(root.join(within)).unwrap().to_str().unwrap().to_owned();
            (path, text)
        };
        all.extend(found.into_iter().map(of));
    }
    assert!(all.len() > 500, "{}", all.len());
    all
}

/// The name of a constant number or duration that a line defines.
fn constant(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (before, rest) = line.split_once("const ")?;
    let is_definition = before.is_empty() || before.starts_with("pub") || before.starts_with("export");
    let end = rest.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))?;
    let (name, rest) = rest.split_at(end);
    (is_definition && !name.is_empty() && !rest.contains("str") && !rest.contains("Metric")).then_some(name)
}

#[test]
fn no_constant_but_the_rule_decides_what_is_silent() {
    let mut known = OTHERS.map(|(file, name, _)| (file, name)).to_vec();
    let mut more = Vec::new();
    let all = all_sources();
    for (path, text) in &all {
        for name in text.lines().filter_map(constant) {
            if !name.split('_').any(|word| WORDS.contains(&word)) {
                continue;
            }
            match known.iter().position(|one| *one == (path.as_str(), name)) {
                Some(place) => _ = known.swap_remove(place),
                None => more.push(format!("{path}: {name}")),
            }
        }
    }
    assert!(
        more.is_empty(),
        "from which age on something is silent is the rule of its sender (query::row_rules, row_rules_of); where these are \
         something else, list them here with the reason: {more:#?}"
    );
    assert!(known.is_empty(), "these are no longer there: {known:?}");
}

/// A site may choose from which age on an alert fires, and the usual one is not below what senders leave out.
#[test]
fn thresholds_of_alerts_are_above_the_usual_gap() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../alerts/thresholds.toml");
    let text = std::fs::read_to_string(path).unwrap();
    for alert in ["ThroughlineDaemonSilent", "ThroughlineSourceSilent", "ThroughlineSweepStalled"] {
        let section = text.split(&format!("[{alert}]")).nth(1).unwrap();
        let line = section.lines().find_map(|line| line.strip_prefix("fires_above = ")).unwrap();
        let seconds: f64 = line.parse().unwrap();
        assert!(seconds >= DEFAULT.largest_gap_seconds, "{alert}: {seconds}");
    }
}

#[test]
fn no_statement_of_a_reader_has_an_age_of_its_own() {
    let mut known = TIMES.map(|(file, time, count, _)| ((file.to_owned(), time.to_owned()), count)).to_vec();
    for (path, text) in all_sources() {
        let is_reader =
            ["query/", "store/schema/", "alerts/", "dashboards/"].iter().any(|of| path.starts_with(of));
        if !is_reader {
            continue;
        }
        let text = text.to_lowercase();
        for (at, _) in text.match_indices(" - interval '") {
            let before = text[..at].trim_end();
            let is_now = ["now()", "$__timeto()::timestamptz", "at"].iter().any(|now| before.ends_with(now));
            let time = text[at..].split('\'').find(|part| part.starts_with(|c: char| c.is_ascii_digit()));
            let time = time.unwrap_or_default().to_owned();
            if !is_now || time.contains("hour") || time.contains("day") {
                continue;
            }
            let one = (path.clone(), time);
            match known.iter_mut().find(|(known, count)| *known == one && *count > 0) {
                Some((_, count)) => *count -= 1,
                None => panic!(
                    "{one:?}: from which age on something is silent is the rule of its sender (row_rules_of, row_gap)"
                ),
            }
        }
        let age = text.lines().find(|line| line.contains("> interval '"));
        assert_eq!(age, None, "{path}: an age");
    }
    known.retain(|(_, count)| *count > 0);
    assert!(known.is_empty(), "these are no longer there: {known:?}");
}
