//! `throughline db size`: what a site's database takes, and for `db status` what of it is there.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use throughline_client::text;
use throughline_daemon::Failure;
use throughline_store::{ObservedTable, RetentionWay, Site, SizePrediction, TableSize, WAL_BYTES_MAX};

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
    json!({
        "site": site_json(&prediction.site),
        "edition": edition(prediction.way),
        "tables": prediction.tables.iter().map(table).collect::<Vec<_>>(),
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
        "{:<29}{:>12}{:>20}{:>12}{:>12}{:>10}{:>12}",
        "all",
        rate(prediction.rows_per_second()),
        "",
        text::bytes(whole(prediction.bytes_per_day())),
        text::bytes(whole(prediction.staying_bytes_per_day())),
        "",
        text::bytes(whole(prediction.steady_bytes()))
    );
    let _ = writeln!(
        out,
        "\n{} rows a second through the collector; the log takes up to {} more",
        rate(prediction.written_rows_per_second()),
        text::bytes(WAL_BYTES_MAX)
    );
    out.lines().fold(String::new(), |all, line| all + line.trim_end() + "\n")
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
    predicted_bytes: Option<u64>,
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
        let predicted_bytes =
            predicted.filter(|size| size.rows_per_second > 0.0).map(|size| whole(size.bytes_after(age)));
        Comparison { observed: table, predicted, predicted_bytes }
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
            "retention_seconds": table.predicted.map(|size| size.retention.as_secs()),
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
            table.observed.chunks,
            text::bytes(u64::try_from(table.observed.bytes).unwrap_or(0)),
            table.predicted_bytes.map_or_else(absent, text::bytes),
            table.observed.bytes_per_row.map_or_else(absent, |bytes| format!("{bytes:.0}")),
            table.predicted.map_or_else(absent, |size| format!("{:.0}", size.bytes_per_row)),
            table.predicted.map_or_else(absent, |size| length(size.retention)),
        );
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use clap::Parser;
    use throughline_store::{Retention, predict_size};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        size: SizeArguments,
    }

    fn arguments(words: &[&str]) -> SizeArguments {
        Command::try_parse_from([&["size"], words].concat()).unwrap().size
    }

    #[test]
    fn a_site_on_the_command_line_is_predicted() {
        let words = [
            "--nodes",
            "1428",
            "--ranks",
            "32",
            "--ports",
            "4830",
            "--gpus",
            "640",
            "--links",
            "6",
            "--port-seconds",
            "1",
        ];
        let arguments = arguments(&words);
        assert!(!arguments.is_open());
        let site = arguments.site(None).unwrap();
        assert_eq!((site.nodes, site.host_ports, site.links_per_gpu), (1428, 1428, 6));
        let prediction = predict_size(&site, &Retention::default(), RetentionWay::Upkeep);
        let document = json(&prediction);
        let ports =
            document["tables"].as_array().unwrap().iter().find(|t| t["table"] == "ib_port_counters").unwrap();
        assert!((ports["rows_per_second"].as_f64().unwrap() - 4830.0).abs() < 1e-9);
        assert_eq!(ports["retention_seconds"], 5400, "rows");
        let blocks =
            document["tables"].as_array().unwrap().iter().find(|t| t["table"] == "ib_port_blocks").unwrap();
        assert_eq!(blocks["retention_seconds"], 7 * 86_400);
        let sum: u64 =
            document["tables"].as_array().unwrap().iter().map(|t| t["bytes"].as_u64().unwrap()).sum();
        assert!(document["bytes"].as_u64().unwrap().abs_diff(sum) <= 30);
        let text = table(&prediction);
        let mut lines = text.lines();
        let first = lines.next().unwrap();
        assert!(
            first.contains(" on disk with the configured retention on the apache edition, most of it "),
            "{first}"
        );
        let site = "1,428 nodes, 32 ranks each; 4,830 fabric ports, read each 1 s";
        assert!(lines.next().unwrap().starts_with(site), "{text}");
        assert!(text.contains("\nib_port_counters      row           4,830        293"), "{text}");
        let words = [&words[..], &["--edition", "full"]].concat();
        let full = self::arguments(&words).edition.map(Edition::way).unwrap();
        let full = predict_size(&prediction.site, &Retention::default(), full);
        assert!(full.steady_bytes() < prediction.steady_bytes() && json(&full)["edition"] == "full");
        assert!(table(&full).contains(" on the full edition, "));
        assert!(!text.contains("mpi_trace"), "tables without rows are left out: {text}");
    }

    #[test]
    fn the_first_line_of_the_status_says_what_is_wrong() {
        let running = |predicted: u64, settings: Value| {
            json!({"state": "running", "schema": 3, "bytes": 1_000_000, "free_bytes": 9_000_000,
                   "predicted_bytes": predicted, "settings": settings})
        };
        assert_eq!(
            headline(&running(5_000_000, json!([]))),
            "Nothing is wrong: it runs, 1.0 MB of 5.0 MB predicted are on disk."
        );
        assert!(
            headline(&running(50_000_000, json!([]))).starts_with("NOT ENOUGH ROOM: 50.0 MB are predicted")
        );
        assert!(
            headline(&running(5_000_000, json!([{}])))
                .ends_with("1 setting below would be better otherwise.")
        );
        assert!(headline(&json!({"state": "stopped"})).contains("does not run (stopped)"));
        assert!(headline(&json!({"state": "running"})).contains("no schema"));
    }

    #[test]
    fn without_options_the_database_is_asked_and_wrong_ones_are_named() {
        let open = arguments(&["--port-seconds", "2"]);
        assert!(open.is_open());
        let known = Site { ports: 10, ..Site::default() };
        assert_eq!(open.site(Some(known)).unwrap(), Site { port_seconds: 2.0, ..known });
        let wrong = arguments(&["--ports", "3", "--port-seconds", "0"]).site(None).unwrap_err();
        assert!(wrong.to_string().contains("--port-seconds 0"), "{wrong}");
        assert!(Command::try_parse_from(["size", "--ranks", "3"]).is_err(), "ranks of no nodes");
    }

    #[test]
    fn what_is_there_stands_beside_what_was_predicted() {
        let site = Site { ports: 100, port_seconds: 1.0, ..Site::default() };
        let prediction = predict_size(&site, &Retention::default(), RetentionWay::Upkeep);
        let now = SystemTime::now();
        let observed = |table: &str, bytes_per_row| ObservedTable {
            table: table.to_owned(),
            chunks: 2,
            bytes: 30_000_000,
            bytes_per_row,
            since: now - Duration::from_secs(1000),
        };
        let tables = [observed("ib_port_counters", Some(300.4)), observed("events", None)];
        let compared = compare(&prediction, &tables, now);
        assert_eq!(compared[0].predicted_bytes, Some(29_300_000));
        let text = compared_text(&compared);
        let line = text.lines().find(|line| line.starts_with("ib_port_counters")).unwrap();
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>()[1..],
            ["2", "30.0", "MB", "29.3", "MB", "300", "293", "90", "min"]
        );
        let document = compared_json(&compared);
        assert_eq!(
            (&document[1]["predicted_bytes"], &document[1]["bytes"]),
            (&Value::Null, &json!(30_000_000))
        );
        assert_eq!(compared_text(&[]), "");
    }
}
