//! Whose bytes were on links: windows of `link_shares`, or minutes made of them, summed by contributor.

mod of_job;
mod source;
mod windows;

pub use of_job::{JobPort, beside_job, of_job};
use source::RowSelection;
pub use source::Source;
pub use windows::{ShareRow, operations_on, windows_of};

use crate::time::{Grid, MINUTE_MS, milliseconds};
use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;
use throughline_api::link_shares::{LinkContributor, ShareFigures};
use throughline_store::Error;
use throughline_store::SHARE_WINDOW;
use tokio_postgres::{Client, Row};

/// A contributor with a smaller part of what was counted is no cause: it is summed with others.
pub const LEAST_SHARE: f64 = 0.01;

/// Kinds, the most certain first.
const KINDS: [&str; 4] = ["measured", "modelled", "logical", "unreported"];

/// Lengths of steps of whole windows, in windows: 10, 20, 30 s, 1, 2, 5, 10, 15, 30 min, 1, 2, 6, 12, 24 h and 7 d.
const STEPS: [i64; 15] = [1, 2, 3, 6, 12, 30, 60, 90, 180, 360, 720, 2160, 4320, 8640, 60_480];

/// Ranges above this are read by the minute where steps do not decide: an hour of a job on a thousand links has a million windows.
const LONG_MS: i64 = 3_600_000;

/// Milliseconds of a window.
fn window_ms() -> i64 {
    i64::try_from(SHARE_WINDOW.as_millis()).unwrap_or(10_000)
}

/// The shortest steps of whole windows, or of whole minutes where windows are gone, with which a range has no more than so many.
#[must_use]
pub fn grid(from: i64, to: i64, points: usize, source: &Source) -> Grid {
    let least = if source.is_past(from, to) { MINUTE_MS / window_ms() } else { 1 };
    let most = i64::try_from(points).unwrap_or(i64::MAX).max(1);
    let of = |windows: i64| {
        let step = windows * window_ms();
        let begin = from.div_euclid(step) * step;
        (begin, step, (to - begin + step - 1).div_euclid(step).max(1))
    };
    let long_enough = STEPS.into_iter().filter(|windows| *windows >= least);
    let fitting = long_enough.map(of).find(|(_, _, steps)| *steps <= most);
    let (from, step, steps) = fitting.unwrap_or_else(|| {
        // Longer than any. The first step begins before the range, so that one point may become two.
        of((to - from) / window_ms() / (most - 1).max(1) + 1)
    });
    Grid { from, step, steps: usize::try_from(steps).unwrap_or(1) }
}

/// A contributor, by the columns of `link_shares`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContributorKey {
    /// job, group, host, other or rest.
    pub contributor: String,
    /// Of a job: its number in the tables.
    pub job: Option<i64>,
    /// Of a job.
    pub operation: Option<String>,
    /// Of a group or host.
    pub name: Option<String>,
}

/// Bytes of a contributor over some windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Fitted to the counters.
    pub bytes: i64,
    /// At least.
    pub low: i64,
    /// At most.
    pub high: i64,
    /// Place in the list of kinds, the most certain first.
    pub kind: usize,
    /// Whether only the bounds are known.
    pub is_bound: bool,
}

impl Part {
    /// This and another one together.
    #[must_use]
    pub fn with(self, other: Part) -> Part {
        Part {
            bytes: self.bytes.saturating_add(other.bytes),
            low: self.low.saturating_add(other.low),
            high: self.high.saturating_add(other.high),
            kind: self.kind.max(other.kind),
            is_bound: self.is_bound || other.is_bound,
        }
    }

    /// With shares of all ([`PortTraffic::whole`]). Nothing is more than that.
    #[must_use]
    pub fn figures(self, whole: Option<i64>) -> ShareFigures {
        #[allow(clippy::cast_precision_loss)] // below 2^53
        let share = |bytes: i64| whole.filter(|all| *all > 0).map(|all| bytes as f64 / all as f64);
        let most = whole.map_or(i64::MAX, |whole| whole.max(self.bytes));
        let (low_bytes, high_bytes) = (self.low.min(self.bytes), self.high.max(self.bytes).min(most));
        ShareFigures {
            bytes: self.bytes,
            low_bytes,
            high_bytes,
            share: share(self.bytes).map(four),
            low_share: share(low_bytes).map(four),
            high_share: share(high_bytes).map(four),
            kind: KINDS[self.kind.min(KINDS.len() - 1)].to_owned(),
            is_bound: self.is_bound,
        }
    }
}

/// Four digits behind the point: more says nothing.
fn four(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// What was counted in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Windows with rows.
    pub windows: u64,
    /// Those of them in which the port was read.
    pub counted_windows: u64,
    /// Bytes counted in these.
    pub counted: Option<i64>,
}

/// What a port sent over some windows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortTraffic {
    /// Windows with rows.
    pub windows: u64,
    /// Those of them in which the port was read.
    pub counted_windows: u64,
    /// What was counted in these; `None` where none was read.
    pub counted: Option<i64>,
    /// The largest of a window.
    pub peak: Option<i64>,
    /// The same of each step.
    pub steps: Vec<Step>,
    /// By contributor: in all, and by step.
    pub parts: BTreeMap<ContributorKey, (Part, Vec<i64>)>,
}

impl PortTraffic {
    /// The total that shares are parts of: what was counted, and where a window was not, all that contributors have in it. `None`
    /// where no window was counted.
    #[must_use]
    pub fn whole(&self) -> Option<i64> {
        self.counted.map(|_| self.parts.values().map(|(part, _)| part.bytes).sum())
    }
}

/// How far windows are made, milliseconds.
///
/// # Errors
/// The database's.
pub async fn computed_until(client: &Client) -> Result<Option<i64>, Error> {
    let row = client.query_opt("SELECT computed_until FROM internal.link_share_state", &[]).await;
    let row = row.map_err(Error::sql("reading how far shares of links are made"))?;
    Ok(row.and_then(|row| row.get::<_, Option<SystemTime>>(0)).map(milliseconds))
}

/// The last window within a range in which one of these ports carried traffic, or the last minute where windows are gone.
///
/// # Errors
/// The database's.
pub async fn last_window(
    client: &Client,
    ports: &[i64],
    from: i64,
    to: i64,
    source: &Source,
) -> Result<Option<Grid>, Error> {
    let rows = source.rows(RowSelection::Ports, from, to, false);
    let sql = format!("SELECT time FROM {rows} s ORDER BY time DESC LIMIT 1");
    let row = client.query_opt(&sql, &[&ports]).await.map_err(Error::sql("reading shares of a link"))?;
    let grid = |row: Row| {
        let end = milliseconds(row.get(0));
        let step = if source.is_past(end - 1, end) { MINUTE_MS } else { window_ms() };
        Grid { from: end - step, step, steps: 1 }
    };
    Ok(row.map(grid))
}

/// What ports sent in the steps of a grid, by their number in the tables. A port without rows is not there.
///
/// # Errors
/// The database's.
pub async fn sent(
    client: &Client,
    ports: &[i64],
    grid: &Grid,
    source: &Source,
) -> Result<HashMap<i64, PortTraffic>, Error> {
    let what = "reading shares of links";
    // A minute is within one step only where steps are whole minutes.
    let is_of_minutes = grid.step % MINUTE_MS == 0 && grid.from % MINUTE_MS == 0;
    let source = if is_of_minutes { *source } else { Source::default() };
    let sql = format!(
        "SELECT port_id, {step} AS step, contributor, job_id, operation, name, sum(bytes)::bigint, sum(low_bytes)::bigint,
                sum(high_bytes)::bigint, max(array_position(ARRAY['measured', 'modelled', 'logical', 'unreported'], kind)) - 1,
                bool_or(is_bound), sum(windows)::bigint, sum(counted_windows)::bigint, sum(counted)::bigint, max(peak)
         FROM {rows} s GROUP BY port_id, step, contributor, job_id, operation, name",
        step = grid.step_of("time"),
        rows = source.rows(RowSelection::Ports, grid.from, grid.to(), is_of_minutes),
    );
    let mut all: HashMap<i64, PortTraffic> = HashMap::new();
    for row in client.query(&sql, &[&ports]).await.map_err(Error::sql(what))? {
        let Some(step) = usize::try_from(row.get::<_, i32>(1)).ok().filter(|step| *step < grid.steps) else {
            continue;
        };
        let sent = all.entry(row.get(0)).or_insert_with(|| PortTraffic {
            steps: vec![Step::default(); grid.steps],
            ..PortTraffic::default()
        });
        let (who, part) = (who(&row, 2), part(&row, 6));
        // Each window or minute has one such row.
        if who.contributor == "rest" {
            let count = |column: usize| row.get::<_, i64>(column).unsigned_abs();
            let counted = Step { windows: count(11), counted_windows: count(12), counted: row.get(13) };
            sent.windows += counted.windows;
            sent.counted_windows += counted.counted_windows;
            sent.counted = together(sent.counted, counted.counted, i64::saturating_add);
            sent.peak = together(sent.peak, row.get(14), i64::max);
            sent.steps[step] = counted;
        }
        let (sum, steps) = sent.parts.entry(who).or_insert_with(|| (Part::default(), vec![0; grid.steps]));
        *sum = sum.with(part);
        steps[step] = part.bytes;
    }
    Ok(all)
}

fn who(row: &Row, first: usize) -> ContributorKey {
    ContributorKey {
        contributor: row.get(first),
        job: row.get(first + 1),
        operation: row.get(first + 2),
        name: row.get(first + 3),
    }
}

fn part(row: &Row, first: usize) -> Part {
    Part {
        bytes: row.get(first),
        low: row.get(first + 1),
        high: row.get(first + 2),
        kind: row.get::<_, Option<i32>>(first + 3).and_then(|kind| usize::try_from(kind).ok()).unwrap_or(3),
        is_bound: row.get(first + 4),
    }
}

fn together(one: Option<i64>, other: Option<i64>, of: fn(i64, i64) -> i64) -> Option<i64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(of(one, other)),
        (one, other) => one.or(other),
    }
}

/// A job as people know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobLabel {
    /// Its key.
    pub key: String,
    /// Who runs it.
    pub user: Option<String>,
    /// The scheduler's name for it.
    pub name: Option<String>,
    /// The scheduler's id.
    pub native_id: Option<String>,
}

/// Labels of jobs, by their number in the tables.
///
/// # Errors
/// The database's.
pub async fn job_labels(client: &Client, ids: &[i64]) -> Result<HashMap<i64, JobLabel>, Error> {
    let sql = "SELECT id, key, user_name, name, native_id FROM internal.run_visible WHERE id = ANY($1)";
    let rows = client.query(sql, &[&ids]).await.map_err(Error::sql("reading the names of jobs"))?;
    let label =
        |row: &Row| JobLabel { key: row.get(1), user: row.get(2), name: row.get(3), native_id: row.get(4) };
    Ok(rows.iter().map(|row| (row.get(0), label(row))).collect())
}

/// Contributors of what a port sent: the largest first, small ones in `other`, then `rest`. `series` of bytes per second are
/// made where `with_series` is set.
#[must_use]
pub fn contributors(
    sent: &PortTraffic,
    labels: &HashMap<i64, JobLabel>,
    with_series: bool,
) -> Vec<LinkContributor> {
    let (all, whole): (i64, _) = (sent.parts.values().map(|(part, _)| part.bytes).sum(), sent.whole());
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // below 2^53
    let least = (all as f64 * LEAST_SHARE) as i64;
    let (mut listed, mut other, mut rest) = (Vec::new(), None::<(Part, Vec<i64>)>, None);
    for (who, (part, steps)) in &sent.parts {
        if who.contributor == "rest" {
            rest = Some((who.clone(), *part, steps.clone()));
        } else if who.contributor == "other" || part.bytes < least {
            let (sum, sums) = other.get_or_insert_with(|| (Part::default(), vec![0; steps.len()]));
            *sum = sum.with(*part);
            sums.iter_mut().zip(steps).for_each(|(sum, bytes)| *sum += bytes);
        } else {
            listed.push((who.clone(), *part, steps.clone()));
        }
    }
    listed.sort_by(|one, other| other.1.bytes.cmp(&one.1.bytes).then_with(|| one.0.cmp(&other.0)));
    let other = other.map(|(part, steps)| {
        (ContributorKey { contributor: "other".into(), ..ContributorKey::default() }, part, steps)
    });
    listed.extend(other);
    listed.extend(rest);
    let contributor = |(who, part, steps): (ContributorKey, Part, Vec<i64>)| {
        let job = who.job.and_then(|job| labels.get(&job));
        LinkContributor {
            label: label(&who, job),
            job_key: job.map(|job| job.key.clone()),
            job_name: job.and_then(|job| job.name.clone()),
            user: job.and_then(|job| job.user.clone()),
            figures: part.figures(whole),
            series: if with_series { series(&steps, &sent.steps) } else { Vec::new() },
            contributor: who.contributor,
            operation: who.operation,
            name: who.name,
        }
    };
    listed.into_iter().map(contributor).collect()
}

/// Bytes per second in each step that has windows.
fn series(bytes: &[i64], steps: &[Step]) -> Vec<Option<f64>> {
    bytes.iter().zip(steps).map(|(bytes, step)| rate(*bytes, step.windows)).collect()
}

/// Bytes per second of some windows.
#[must_use]
pub fn rate(bytes: i64, windows: u64) -> Option<f64> {
    #[allow(clippy::cast_precision_loss)] // below 2^53
    (windows > 0).then(|| (bytes as f64 / (windows as f64 * SHARE_WINDOW.as_secs_f64())).round())
}

/// What was counted in some windows as a share of a speed: whether it is above it, and the share, at most 1.
#[must_use]
pub fn utilisation(counted: Option<i64>, windows: u64, speed: i64) -> (bool, Option<f64>) {
    #[allow(clippy::cast_precision_loss)] // below 2^53
    let share = counted
        .and_then(|counted| rate(counted, windows))
        .filter(|_| speed > 0)
        .map(|rate| rate / speed as f64);
    (share.is_some_and(|share| share > 1.0), share.map(|share| four(share.min(1.0))))
}

/// `alltoall of job 4711 (alice)`, for pages, the command line and alerts alike.
#[must_use]
pub fn label(who: &ContributorKey, job: Option<&JobLabel>) -> String {
    let name = who.name.as_deref().unwrap_or("unknown");
    match who.contributor.as_str() {
        "job" => {
            let job = job.map_or_else(|| "a job that is gone".to_owned(), job_name);
            match who.operation.as_deref() {
                Some(operation) => format!("{operation} of {job}"),
                None => job,
            }
        }
        "group" => format!("unmonitored group {name}"),
        "host" => format!("unmonitored host {name}"),
        "other" => "others, each below 1 %".to_owned(),
        _ => "rest: nobody known".to_owned(),
    }
}

/// `job 4711 (alice)`.
#[must_use]
pub fn job_name(job: &JobLabel) -> String {
    let id = job.native_id.as_deref().unwrap_or(&job.key);
    match &job.user {
        Some(user) => format!("job {id} ({user})"),
        None => format!("job {id}"),
    }
}

/// A port and its node as people know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlace {
    /// Prefix of the subnet.
    pub subnet: String,
    /// Node GUID.
    pub guid: String,
    /// Its description, or the GUID of one without.
    pub name: String,
    /// The host that has it, where an agent runs.
    pub host: Option<String>,
    /// The port on the node.
    pub port: i32,
    /// The port at the other end of the cable, by its number in the tables.
    pub remote: Option<i64>,
}

impl PortPlace {
    /// `leaf1[5]`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}[{}]", self.name, self.port)
    }
}

/// Places of ports as they were last, by their number in the tables.
///
/// # Errors
/// The database's.
pub async fn places(client: &Client, ports: &[i64]) -> Result<HashMap<i64, PortPlace>, Error> {
    let sql = "
        WITH hosts AS MATERIALIZED (
            SELECT g.guid, min(h.name) AS name FROM internal.node h CROSS JOIN unnest(h.hca_guids) g (guid)
            WHERE h.valid_to IS NULL GROUP BY g.guid
        )
        SELECT p.id, u.name, k.guid, coalesce(nullif(n.description, ''), k.guid), h.name, p.port, b.remote_port_id
        FROM internal.ib_port_key p
        JOIN internal.ib_node_key k ON k.id = p.ib_node_id
        JOIN internal.fabric u ON u.id = k.fabric_id
        LEFT JOIN hosts h ON h.guid = k.guid
        LEFT JOIN LATERAL (SELECT description FROM internal.ib_node n WHERE n.ib_node_id = k.id
                           ORDER BY n.valid_from DESC LIMIT 1) n ON true
        LEFT JOIN LATERAL (SELECT remote_port_id FROM internal.ib_port b WHERE b.port_id = p.id AND b.remote_port_id IS NOT NULL
                           ORDER BY b.valid_from DESC LIMIT 1) b ON true
        WHERE p.id = ANY($1)";
    let rows = client.query(sql, &[&ports]).await.map_err(Error::sql("reading the ends of links"))?;
    let place = |row: &Row| PortPlace {
        subnet: row.get(1),
        guid: row.get(2),
        name: row.get(3),
        host: row.get(4),
        port: row.get(5),
        remote: row.get(6),
    };
    Ok(rows.iter().map(|row| (row.get(0), place(row))).collect())
}

#[cfg(test)]
mod tests;
