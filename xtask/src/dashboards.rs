//! `cargo xtask dashboards` writes `dashboards/*.json` from their definitions; `cargo xtask dashboards check` runs every
//! query of every dashboard and alert rule on a running installation.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Args, Subcommand};
use throughline_dashboard_check::{
    Error, Files, GrafanaRule, Prometheus, PrometheusRules, Sources, Sql, Window, check, saturated_by_promql,
    saturated_by_sql,
};

/// Status of a check that found something.
const FOUND_SOMETHING: u8 = 2;
/// The saturation alert's name in Grafana's rules and in Prometheus'.
const SATURATION: (&str, &str) = ("throughline-link-saturated", "InfinibandLinkSaturated");

/// The task's arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Without one: write the files.
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run every query of the dashboards and alert rules on a running installation.
    Check(Check),
}

#[derive(Debug, Args)]
struct Check {
    /// Database, for instance `postgresql://throughline_read@%2Frun%2Fthroughline/throughline` or `host=... dbname=...`;
    /// without it queries in SQL are left out.
    #[arg(long)]
    database_url: Option<String>,
    /// Prometheus, for instance `http://127.0.0.1:9090`; without it queries in PromQL are left out.
    #[arg(long)]
    prometheus_url: Option<String>,
    /// Minutes back from now that the dashboards show.
    #[arg(long, default_value_t = 15)]
    minutes: u32,
    /// The repository with `dashboards/` and `deploy/`.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
    root: PathBuf,
}

/// Writes the files, or prints each finding and the saturated links on standard output; status 2 when there is a finding.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        None => write(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboards"))),
        Some(Action::Check(check)) => {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run_check(check))
        }
    }
}

/// Writes each dashboard, and removes the file of one that is no more.
fn write(folder: &Path) -> anyhow::Result<ExitCode> {
    let files = throughline_dashboards::files(&throughline_dashboards::Site::default());
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let is_made =
            files.iter().any(|(name, _)| path.file_name().is_some_and(|found| found == name.as_str()));
        if path.extension().is_some_and(|extension| extension == "json") && !is_made {
            std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
    }
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn run_check(arguments: &Check) -> anyhow::Result<ExitCode> {
    let files = Files::read(&arguments.root)?;
    let sql = match &arguments.database_url {
        Some(url) => Some(Sql::connect(url).await?),
        None => None,
    };
    let prometheus = arguments.prometheus_url.as_deref().map(Prometheus::at).transpose()?;
    let sources = Sources { sql, prometheus };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?;
    let now = i64::try_from(now.as_nanos()).context("the clock stands after 2262")?;
    let back = Duration::from_secs(60 * u64::from(arguments.minutes));
    let window = Window::new(now - i64::try_from(back.as_nanos())?, now);

    let report = check(&files, &sources, window).await?;
    for finding in &report.findings {
        println!("{finding}");
    }
    for note in &report.notes {
        println!("may be: {note}");
    }
    for line in saturated(&files, &sources, &window).await? {
        println!("{line}");
    }
    let (queries, left_out, found) = (report.queries, report.left_out, report.findings.len());
    let empty = report.notes.len();
    println!("{queries} queries ran, {left_out} left out, {empty} empty as may be, {found} findings");
    Ok(if found == 0 { ExitCode::SUCCESS } else { ExitCode::from(FOUND_SOMETHING) })
}

/// A line for each link that is over the alert's threshold now, and for each sending port that the alert fires for
/// after its pending time, by each data source.
async fn saturated(files: &Files, sources: &Sources, window: &Window) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    if let Some(sql) = &sources.sql {
        let rules = GrafanaRule::parse(&files.grafana_rules)?;
        if let Some(rule) = rules.iter().find(|rule| rule.uid == SATURATION.0) {
            let values = rule.evaluate(sql, window.to).await.map_err(Error::Rule)?;
            for (labels, value) in values.iter().filter(|(_, value)| **value > rule.threshold) {
                let of = |name: &str| labels.get(name).map_or("?", String::as_str);
                let (node, port, uplink, uplink_port) =
                    (of("node"), of("port"), of("uplink"), of("uplink_port"));
                let percent = value * 100.0;
                lines.push(format!(
                    "over the threshold now: {node}[{port}] > {uplink}[{uplink_port}] {percent:.1} %"
                ));
            }
        }
        let ports = saturated_by_sql(&rules, SATURATION.0, sql, window).await?;
        lines.extend(ports.iter().map(|(guid, port)| format!("firing by SQL: {guid} port {port}")));
    }
    if let Some(prometheus) = &sources.prometheus {
        let rules = PrometheusRules::parse(&files.prometheus_rules)?;
        let ports = saturated_by_promql(&rules, SATURATION.1, prometheus, window).await?;
        lines.extend(ports.iter().map(|(guid, port)| format!("firing by PromQL: {guid} port {port}")));
    }
    Ok(lines)
}
