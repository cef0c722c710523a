//! What each surface says of a running job, once a second.

use serde_json::Value;
use std::collections::BTreeMap;
use throughline_benches::site::now;
use throughline_client::{Error, Server};

/// What may be said of a healthy program at no time.
const FALSE_WORDS: [&str; 5] =
    ["No MPI call", "bypass", "ran too short", "nothing was recorded", "nothing is known"];

/// What is read each time.
const SURFACES: [&str; 10] =
    ["list", "show", "operations", "ranks", "waits", "pairs", "matrix", "traffic", "verdicts", "report"];

/// Figures of one answer, times in nanoseconds since 1970.
pub struct Look {
    pub surface: &'static str,
    pub answered: i64,
    pub as_of: Option<i64>,
    /// A node is named whose figures are older.
    pub is_behind: bool,
    pub calls: Option<i64>,
    pub bytes: Option<i64>,
    pub moved: Option<i64>,
    pub elapsed: Option<i64>,
}

/// A step of a rank's course, all cells together. Those of a row that is longer than the step may begin earlier than others.
pub struct Step {
    pub rank: usize,
    pub first_since: i64,
    pub last_since: i64,
    pub until: i64,
    pub calls: i64,
    pub bytes: i64,
}

fn sum(list: &Value, field: &str) -> Option<i64> {
    let numbers = list.as_array()?.iter().map(|one| one.get(field).and_then(Value::as_i64));
    numbers.sum()
}

fn nanoseconds(seconds: &Value) -> Option<i64> {
    #[allow(clippy::cast_possible_truncation)] // of some hours
    seconds.as_f64().map(|seconds| (seconds * 1e9) as i64)
}

fn column(columns: &Value, field: &str) -> Option<i64> {
    columns.get(field)?.as_array()?.iter().map(Value::as_i64).map(|one| one.or(Some(0))).sum()
}

/// The figures that a surface has.
fn figures(surface: &'static str, answer: &Value, key: &str) -> Option<Look> {
    let mut look = Look {
        surface,
        answered: 0,
        as_of: None,
        is_behind: false,
        calls: None,
        bytes: None,
        moved: None,
        elapsed: None,
    };
    let of = match surface {
        "list" => answer["jobs"].as_array()?.iter().find(|job| job["job_key"] == key)?,
        "show" => &answer["job"],
        _ => answer,
    };
    let as_of = if surface == "operations" { &of["job"]["as_of"] } else { &of["as_of"] };
    look.as_of = as_of["time_ms"].as_i64().map(|time| time * 1_000_000);
    look.is_behind = as_of["behind"].as_array().is_some_and(|behind| !behind.is_empty());
    match surface {
        "list" | "show" => {
            let totals = &of["totals"];
            look.calls = totals["calls"].as_i64();
            look.bytes = totals["bytes"].as_i64();
            look.elapsed = nanoseconds(&totals["mpi_seconds"]);
        }
        "operations" => {
            look.calls = sum(&of["operations"], "calls");
            look.bytes = sum(&of["operations"], "bytes");
        }
        "ranks" => {
            look.calls = column(&of["ranks"], "calls");
            look.bytes = column(&of["ranks"], "bytes");
        }
        "waits" => {
            look.calls = of["total"]["calls"].as_i64();
            look.elapsed = nanoseconds(&of["total"]["elapsed_seconds"]);
        }
        "pairs" => look.moved = column(&of["pairs"], "bytes"),
        "matrix" => look.moved = of["total"].as_i64(),
        "traffic" => {
            let logical = of["traffic"].as_array()?.iter().find(|one| one["kind"] == "logical")?;
            look.moved = logical["bytes"].as_i64();
        }
        _ => {}
    }
    Some(look)
}

/// Asks each surface once. Answers that have no figures yet are left out; `wrong` gets what is false at any time.
pub fn look(
    server: &Server,
    key: &str,
    looks: &mut Vec<Look>,
    wrong: &mut Vec<String>,
) -> anyhow::Result<()> {
    for surface in SURFACES {
        let (path, query): (Vec<&str>, &[(&str, &str)]) = match surface {
            "list" => (vec!["jobs"], &[("state", "live"), ("totals", "true"), ("limit", "100")]),
            "show" | "operations" => (vec!["jobs", key], &[]),
            part => (vec!["jobs", key, part], &[]),
        };
        let answer: Value = match server.get(&path, query) {
            Ok(answer) => answer,
            Err(Error::Api { error, .. }) if error.code == "not_found" => continue,
            Err(error) => return Err(anyhow::anyhow!("{path:?}: {error}")),
        };
        let answered = now()?;
        if surface == "verdicts" || surface == "report" {
            judge_words(surface, &answer.to_string(), wrong);
        } else if let Some(look) = figures(surface, &answer, key) {
            looks.push(Look { answered, ..look });
        }
    }
    Ok(())
}

/// Notes false words.
pub fn judge_words(surface: &str, text: &str, wrong: &mut Vec<String>) {
    for line in text.lines() {
        if let Some(place) = FALSE_WORDS.iter().find_map(|words| line.find(words)) {
            let from =
                (0..=place.saturating_sub(60)).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
            wrong.push(format!("{surface}: {}", line[from..].chars().take(200).collect::<String>()));
        }
    }
}

/// Bytes of each rank under its curves in `job trace --lanes ranks`.
pub fn integrals(text: &str) -> anyhow::Result<BTreeMap<usize, f64>> {
    let file: Value = serde_json::from_str(text)?;
    let mut curves: BTreeMap<(usize, &str), Vec<(f64, f64)>> = BTreeMap::new();
    for event in file["traceEvents"].as_array().into_iter().flatten() {
        let value = event["args"]["bytes/s"].as_f64().filter(|_| event["ph"] == "C");
        if let (Some(process), Some(name), Some(time), Some(value)) =
            (event["pid"].as_u64(), event["name"].as_str(), event["ts"].as_f64(), value)
        {
            let rank = usize::try_from(process)?.saturating_sub(1);
            curves.entry((rank, name)).or_default().push((time, value));
        }
    }
    let mut bytes = BTreeMap::new();
    for ((rank, _), mut curve) in curves {
        curve.sort_by(|one, next| one.0.total_cmp(&next.0));
        let area = curve.windows(2).map(|pair| pair[0].1 * (pair[1].0 - pair[0].0) / 1e6);
        *bytes.entry(rank).or_default() += area.sum::<f64>();
    }
    Ok(bytes)
}

/// Rows of `job export --step 1 --format json`, added up over operations.
pub fn steps(text: &str) -> anyhow::Result<Vec<Step>> {
    let table: Value = serde_json::from_str(text)?;
    let mut steps: BTreeMap<(usize, i64), Step> = BTreeMap::new();
    for row in table["rows"].as_array().into_iter().flatten() {
        let time = |field: &str| row[field].as_str().and_then(throughline_sample::from_rfc3339);
        let number = |field: &str| row[field].as_i64().unwrap_or(0);
        let rank = usize::try_from(number("rank"))?;
        let (Some(since), Some(until)) = (time("since"), time("time")) else { continue };
        let new = || Step { rank, first_since: since, last_since: since, until, calls: 0, bytes: 0 };
        let step = steps.entry((rank, until)).or_insert_with(new);
        step.first_since = step.first_since.min(since);
        step.last_since = step.last_since.max(since);
        step.calls += number("calls");
        step.bytes += number("bytes");
    }
    Ok(steps.into_values().collect())
}
