//! `throughline db size`: what a site's database takes, and for `db status` what of it is there.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use throughline_client::text;
use throughline_daemon::Failure;
use throughline_store::{
    ObservedTable, PlainRetention, PlainSize, RetentionWay, Site, SizePrediction, TableSize, WAL_BYTES_MAX,
};

/// The site; without any of these the one that the database has.
#[derive(clap::Args, Clone, Debug)]
pub struct SizeArguments {
    /// Assume so many nodes with an agent
    #[arg(long, value_name = "N")]
    nodes: Option<u64>,
    /// Assume so many MPI ranks on each node
    #[arg(long, value_name = "N", requires = "nodes")]
    ranks: Option<u64>,
    /// Assume so many fabric ports with a cable, both ends of each
    #[arg(long, value_name = "N")]
    ports: Option<u64>,
    /// Assume so many GPUs of all nodes
    #[arg(long, value_name = "N")]
    gpus: Option<u64>,
    /// Assume so many NVLinks of each GPU
    #[arg(long, value_name = "N", requires = "gpus")]
    links: Option<u64>,
    /// Assume so many adapter ports of each node that it reads itself
    #[arg(long, value_name = "N", default_value_t = 1)]
    host_ports: u64,
    /// Assume so many seconds between two readings of a fabric port: [sweep] interval_seconds of fabric.toml
    #[arg(long, value_name = "SECONDS", default_value_t = Site::default().port_seconds)]
    port_seconds: f64,
    /// Assume so many seconds between two readings of a node's links: interval_seconds of agent.toml
    #[arg(long, value_name = "SECONDS", default_value_t = Site::default().node_seconds)]
    node_seconds: f64,
    /// Assume this edition of TimescaleDB: old rows are columns on the full one [default: the database's for its own site, else apache]
    #[arg(long, value_enum)]
    pub edition: Option<Edition>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// An edition of TimescaleDB, which does retention in its own way.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    Apache,
    Full,
}

impl Edition {
    pub fn way(self) -> RetentionWay {
        match self {
            Edition::Apache => RetentionWay::Upkeep,
            Edition::Full => RetentionWay::DatabaseJob,
        }
    }
}

/// Its name, for people and JSON.
fn edition(way: RetentionWay) -> &'static str {
    match way {
        RetentionWay::DatabaseJob => "full",
        RetentionWay::Upkeep => "apache",
    }
}

impl SizeArguments {
    /// Whether the site is read from the database.
    pub fn is_open(&self) -> bool {
        [self.nodes, self.ports, self.gpus].iter().all(Option::is_none)
    }

    /// The site; `known` is what the database has.
    ///
    /// # Errors
    /// An interval that is none (64).
    pub fn site(&self, known: Option<Site>) -> Result<Site, Failure> {
        for (option, seconds) in
            [("--port-seconds", self.port_seconds), ("--node-seconds", self.node_seconds)]
        {
            if !(0.001..=86_400.0).contains(&seconds) {
                return Err(Failure::usage(format!("{option} {seconds}: must be from 0.001 to 86400")));
            }
        }
        let nodes = self.nodes.unwrap_or(0);
        let host_ports = nodes.checked_mul(self.host_ports);
        let site = known.unwrap_or(Site {
            nodes,
            ranks_per_node: self.ranks.unwrap_or(0),
            ports: self.ports.unwrap_or(0),
            host_ports: host_ports
                .ok_or_else(|| Failure::usage("--nodes and --host-ports: too many ports".to_owned()))?,
            gpus: self.gpus.unwrap_or(0),
            links_per_gpu: self.links.unwrap_or(0),
            ..Site::default()
        });
        Ok(Site { port_seconds: self.port_seconds, node_seconds: self.node_seconds, ..site })
    }
}

/// A figure of bytes or rows as a whole number; negative ones do not occur.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates, and is rounded.
fn whole(figure: f64) -> u64 {
    figure.round() as u64
}

fn site_json(site: &Site) -> Value {
    json!({
        "nodes": site.nodes, "ranks_per_node": site.ranks_per_node, "ports": site.ports, "host_ports": site.host_ports,
        "gpus": site.gpus, "links_per_gpu": site.links_per_gpu, "port_seconds": site.port_seconds,
        "node_seconds": site.node_seconds,
    })
}

/// The prediction as one document.
pub fn json(prediction: &SizePrediction) -> Value {
    let table = |size: &TableSize| {
        json!({
            "table": size.table, "form": size.form.name(), "rows_per_second": size.rows_per_second,
            "bytes_per_row": size.bytes_per_row, "bytes_per_day": whole(size.bytes_per_day()),
            "old": size.old.map(|old| json!({
                "after_seconds": old.after.as_secs(), "rows_per_second": old.rows_per_second, "bytes_per_row": old.bytes_per_row,
            })),
            "staying_bytes_per_day": whole(size.staying_bytes_per_day()),
            "retention_seconds": size.retention.as_secs(), "bytes": whole(size.steady_bytes()),
            "assumes": (!size.assumes.is_empty()).then_some(size.assumes),
        })
    };
    let plain = |size: &PlainSize| {
        json!({
            "table": size.table, "kept": plain_kept(size), "bytes_per_year": whole(size.bytes_per_year),
            "retention_seconds": size.retention.map(|time| time.as_secs()), "bytes": whole(size.steady_bytes()),
        })
    };
    json!({
        "site": site_json(&prediction.site),
        "edition": edition(prediction.way),
        "tables": prediction.tables.iter().map(table).collect::<Vec<_>>(),
        "plain_tables": prediction.plain_tables.iter().map(plain).collect::<Vec<_>>(),
        "rows_per_second": prediction.rows_per_second(),
        "written_rows_per_second": prediction.written_rows_per_second(),
        "bytes_per_day": whole(prediction.bytes_per_day()),
        "staying_bytes_per_day": whole(prediction.staying_bytes_per_day()),
        "bytes": whole(prediction.steady_bytes()),
        "log_bytes_max": WAL_BYTES_MAX,
    })
}

/// The prediction for people.
pub fn table(prediction: &SizePrediction) -> String {
    let site = &prediction.site;
    let largest =
        prediction.tables.iter().max_by(|one, other| one.steady_bytes().total_cmp(&other.steady_bytes()));
    let most = largest.map_or_else(String::new, |table| {
        format!(", most of it {} ({})", table.table, text::bytes(whole(table.steady_bytes())))
    });
    let mut out = format!(
        "{} on disk with the configured retention on the {} edition{most}; {} a day and {} rows a second are written, \
         and {} a day stay for longer than a day\n",
        text::bytes(whole(prediction.steady_bytes())),
        edition(prediction.way),
        text::bytes(whole(prediction.bytes_per_day())),
        rate(prediction.rows_per_second()),
        text::bytes(whole(prediction.staying_bytes_per_day()))
    );
    let _ = write!(
        out,
        "{}, {} each; {}, read each {} s; {} of nodes; {} with {} each, read each {} s\n\n",
        text::count(site.nodes, "node"),
        text::count(site.ranks_per_node, "rank"),
        text::count(site.ports, "fabric port"),
        site.port_seconds,
        text::count(site.host_ports, "port"),
        text::count(site.gpus, "GPU"),
        text::count(site.links_per_gpu, "link"),
        site.node_seconds
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{:<22}{:<7}{:>12}{:>11}{:>9}{:>12}{:>12}{:>10}{:>12}  assumed",
        "table", "form", "rows/s", "bytes/row", "of old", "a day", "that stay", "kept", "on disk"
    );
    for size in prediction.tables.iter().filter(|size| size.rows_per_second > 0.0) {
        let _ = writeln!(
            out,
            "{:<22}{:<7}{:>12}{:>11}{:>9}{:>12}{:>12}{:>10}{:>12}  {}",
            size.table,
            size.form.name(),
            rate(size.rows_per_second),
            whole(size.bytes_per_row),
            size.old.map_or_else(|| "-".to_owned(), |old| whole(old.bytes_per_row).to_string()),
            text::bytes(whole(size.bytes_per_day())),
            text::bytes(whole(size.staying_bytes_per_day())),
            length(size.retention),
            text::bytes(whole(size.steady_bytes())),
            assumed(size)
        );
    }
    let _ = writeln!(
        out,
        "{:<29}{:>12}{:>20}{:>12}{:>12}{:>10}{:>12}\n",
        "all",
        rate(prediction.rows_per_second()),
        "",
        text::bytes(whole(prediction.bytes_per_day())),
        text::bytes(whole(prediction.staying_bytes_per_day())),
        "",
        text::bytes(whole(prediction.steady_bytes() - prediction.plain_bytes()))
    );
    out.push_str(&plain_text(prediction));
    let _ = writeln!(
        out,
        "\n{} rows a second through the collector; the log takes up to {} more",
        rate(prediction.written_rows_per_second()),
        text::bytes(WAL_BYTES_MAX)
    );
    out.lines().fold(String::new(), |all, line| all + line.trim_end() + "\n")
}

/// Plain tables: what a year adds, and what is there in the end.
fn plain_text(prediction: &SizePrediction) -> String {
    let mut out = format!("{:<29}{:>12}{:>12}  kept\n", "table without chunks", "a year", "on disk");
    let mut line = |name: &str, year: f64, bytes: f64, kept: &str| {
        // Writing to a String cannot fail.
        let (year, bytes) = (text::bytes(whole(year)), text::bytes(whole(bytes)));
        let _ = writeln!(out, "{name:<29}{year:>12}{bytes:>12}  {kept}");
    };
    let mut small = 0;
    for size in &prediction.plain_tables {
        if size.bytes_per_year > 0.0 {
            line(size.table, size.bytes_per_year, size.steady_bytes(), &plain_kept(size));
        } else {
            small += 1;
        }
    }
    line(&format!("{small} others"), 0.0, 0.0, "bounded, or replaced in their place");
    let year = prediction.plain_tables.iter().map(|size| size.bytes_per_year).sum();
    line("all", year, prediction.plain_bytes(), "");
    out
}

/// How long rows of a plain table are there.
fn plain_kept(size: &PlainSize) -> String {
    match (size.keep, size.retention) {
        (PlainRetention::Job(_) | PlainRetention::Rank(_), Some(time)) => {
            format!("{} after the job", length(time))
        }
        (keep, _) => keep.text(),
    }
}

/// What is assumed of the site, and which rows are kept of old ones.
fn assumed(size: &TableSize) -> String {
    let fewer = size.old.filter(|old| old.rows_per_second < size.rows_per_second);
    let Some(old) = fewer else { return size.assumes.to_owned() };
    let thinned = format!("after {} {} rows/s", length(old.after), rate(old.rows_per_second));
    if size.assumes.is_empty() { thinned } else { format!("{}; {thinned}", size.assumes) }
}

fn rate(rows: f64) -> String {
    if rows < 10.0 { format!("{rows:.2}") } else { text::thousands(whole(rows)) }
}

fn length(time: Duration) -> String {
    match time.as_secs() {
        s if s >= 2 * 86_400 => format!("{} d", s / 86_400),
        s if s >= 2 * 3600 => format!("{} h", s / 3600),
        s if s >= 2 * 60 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

/// The first line of `db status`: whether the database runs, and has room for what is predicted.
pub fn headline(report: &Value) -> String {
    let state = report["state"].as_str().unwrap_or_default();
    if state != "running" {
        let remedy = "`throughline serve` or `throughline db start` starts it";
        return format!("The database does not run ({state}): {remedy}.");
    }
    if report.get("schema").is_none() {
        return "The database runs and has no schema of Throughline yet: `throughline serve` makes it."
            .to_owned();
    }
    let (there, free) = (report["bytes"].as_u64().unwrap_or_default(), report["free_bytes"].as_u64());
    let predicted = report["predicted_bytes"].as_u64();
    if let Some((predicted, free)) =
        predicted.zip(free).filter(|(all, free)| *all > there.saturating_add(*free))
    {
        return format!(
            "NOT ENOUGH ROOM: {} are predicted with the configured retention; {} are on disk and {} free. Shorten the retention \
             or give it a larger disk.",
            text::bytes(predicted),
            text::bytes(there),
            text::bytes(free)
        );
    }
    let room = predicted.map_or_else(String::new, |all| format!(" of {} predicted", text::bytes(all)));
    let settings = report["settings"].as_array().map_or(0, Vec::len) as u64;
    match settings {
        0 => format!("Nothing is wrong: it runs, {}{room} are on disk.", text::bytes(there)),
        some => format!(
            "It runs, {}{room} are on disk; {} below would be better otherwise.",
            text::bytes(there),
            text::count(some, "setting")
        ),
    }
}

/// A table that is there, and what was predicted of it.
pub struct Comparison<'a> {
    observed: &'a ObservedTable,
    predicted: Option<&'a TableSize>,
    plain: Option<&'a PlainSize>,
    predicted_bytes: Option<u64>,
}

impl Comparison<'_> {
    fn retention(&self) -> Option<Duration> {
        self.predicted.map(|size| size.retention).or(self.plain.and_then(|size| size.retention))
    }
}

/// Each table that is there beside the prediction for the time since its first row.
pub fn compare<'a>(
    prediction: &'a SizePrediction,
    observed: &'a [ObservedTable],
    now: SystemTime,
) -> Vec<Comparison<'a>> {
    let one = |table: &'a ObservedTable| {
        let predicted = prediction.tables.iter().find(|size| size.table == table.table);
        let age = now.duration_since(table.since).unwrap_or_default();
        let plain = prediction.plain_tables.iter().find(|size| size.table == table.table);
        let of_chunks = predicted.filter(|size| size.rows_per_second > 0.0).map(|size| size.bytes_after(age));
        let of_plain = plain.filter(|size| size.bytes_per_year > 0.0).map(|size| size.bytes_after(age));
        Comparison { observed: table, predicted, plain, predicted_bytes: of_chunks.or(of_plain).map(whole) }
    };
    observed.iter().map(one).collect()
}

/// The comparison for `db status --json`.
pub fn compared_json(tables: &[Comparison<'_>]) -> Value {
    let one = |table: &Comparison<'_>| {
        json!({
            "table": table.observed.table, "form": table.predicted.map(|size| size.form.name()),
            "chunks": table.observed.chunks, "bytes": table.observed.bytes,
            "predicted_bytes": table.predicted_bytes, "bytes_per_row": table.observed.bytes_per_row,
            "predicted_bytes_per_row": table.predicted.map(|size| size.bytes_per_row),
            "retention_seconds": table.retention().map(|time| time.as_secs()),
        })
    };
    tables.iter().map(one).collect()
}

/// The comparison for people; empty without tables.
pub fn compared_text(tables: &[Comparison<'_>]) -> String {
    if tables.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "\n{:<22}{:>8}{:>12}{:>12}{:>11}{:>11}{:>8}\n",
        "table", "chunks", "on disk", "predicted", "bytes/row", "predicted", "kept"
    );
    let absent = || "-".to_owned();
    for table in tables {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{:<22}{:>8}{:>12}{:>12}{:>11}{:>11}{:>8}",
            table.observed.table,
            table.observed.chunks.map_or_else(absent, |chunks| chunks.to_string()),
            text::bytes(u64::try_from(table.observed.bytes).unwrap_or(0)),
            table.predicted_bytes.map_or_else(absent, text::bytes),
            table.observed.bytes_per_row.map_or_else(absent, |bytes| format!("{bytes:.0}")),
            table.predicted.map_or_else(absent, |size| format!("{:.0}", size.bytes_per_row)),
            table.retention().map_or_else(absent, length),
        );
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
