//! All answers of a running build at one moment, by surface.

use crate::renames::{Excluded, Renames, lines};
use crate::requests::Requests;
use crate::site::{Site, end};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;

/// Pages of a list that are read.
const PAGES_MAX: usize = 20;
/// Exit status of a command line that the program does not have.
const WRONG_USAGE: i32 = 64;
/// Prometheus takes no port 0: those from here on are tried, so many at most.
const FIRST_PORT: u16 = 20_000;
const STARTS_MAX: usize = 20;
/// How many were started.
static STARTED: AtomicU16 = AtomicU16::new(0);

/// What somebody sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A document.
    Json(Value),
    /// Lines.
    Text(String),
}

/// Answers by surface and request.
pub type Answers = BTreeMap<(String, String), Answer>;

/// The committed lists, and programs.
pub struct Lists {
    /// Requests to routes and of the command line.
    pub requests: Requests,
    /// New names.
    pub renames: Renames,
    /// What is left out.
    pub excluded: Excluded,
    /// `COLUMN SQL`: a column of numbers that only the database knows, and the names that people know them by.
    ids: Vec<(String, String)>,
    /// Prometheus' program.
    pub prometheus: PathBuf,
}

impl Lists {
    /// Reads them from a folder.
    ///
    /// # Errors
    /// One is not there, or has another form.
    pub fn read(folder: &Path, prometheus: PathBuf) -> anyhow::Result<Self> {
        let ids = lines(folder, "ids.txt")?.into_iter().filter_map(|line| {
            let (column, sql) = line.split_once(' ')?;
            Some((column.to_owned(), sql.to_owned()))
        });
        Ok(Self {
            requests: Requests::read(folder)?,
            renames: Renames::read(folder)?,
            excluded: Excluded::read(folder)?,
            ids: ids.collect(),
            prometheus,
        })
    }
}

/// Requests everything. `old_names` says that the build has the names of the committed lists; else the new ones.
///
/// # Errors
/// A program does not start, or a surface gives no answer at all.
pub fn all(site: &Site, lists: &Lists, moment: &str, now: i64, old_names: bool) -> anyhow::Result<Answers> {
    let none = Renames::default();
    let renames = if old_names { &none } else { &lists.renames };
    let mut answers = Answers::new();
    let names = names(site, lists);
    for request in lists.requests.of(moment)? {
        let own = renames.text("request", &request);
        let (surface, answer) = match own.split_once(' ').context("a request of two words")? {
            ("throughline", command) => ("commands", by_command(site, command)?),
            ("SELECT", _) => ("functions", rows(site, &names, &own)?),
            _ => ("routes", by_route(site, &own)?),
        };
        answers.insert((surface.to_owned(), request), answer);
    }
    views(site, &names, &mut answers)?;
    let prometheus = Prometheus::start(&lists.prometheus, site)?;
    for metric in metrics(&site.build.checkout)? {
        prometheus.query(&metric, now, &mut answers)?;
    }
    Ok(answers)
}

/// An HTTP request; status and body.
///
/// # Errors
/// Nobody answers.
pub fn http(method: &str, url: &str, body: &str) -> anyhow::Result<(u16, String)> {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    let mut response = match method {
        "POST" => agent.post(url).header("content-type", "application/json").send(body)?,
        _ => agent.get(url).call()?,
    };
    let status = response.status().as_u16();
    Ok((status, response.body_mut().with_config().limit(1 << 30).read_to_string()?))
}

/// Posts to the JSON API.
///
/// # Errors
/// The server refuses it.
pub fn post(site: &Site, path: &str) -> anyhow::Result<()> {
    let (status, text) = http("POST", &format!("http://{}/api/v1{path}", site.query), "")?;
    ensure!(status < 300, "POST {path}: {status} {text}");
    Ok(())
}

/// An answer of the JSON API with its status, and with all further pages.
fn by_route(site: &Site, request: &str) -> anyhow::Result<Answer> {
    let (request, body) = request.split_once(" body=").unwrap_or((request, ""));
    let (method, path) = request.split_once(' ').context("METHOD PATH")?;
    let url = format!("http://{}/api/v1{path}", site.query);
    let (mut status, mut text) = http(method, &url, body)?;
    let mut pages = Vec::new();
    loop {
        let Ok(page) = serde_json::from_str::<Value>(&site.without_places(&text)) else {
            return Ok(Answer::Text(format!("{status}\n{text}")));
        };
        let next = page["next"].as_str().map(|next| next.replace('+', "%2B").replace(' ', "%20"));
        pages.push(serde_json::json!({ "status": status, "body": page }));
        let Some(next) = next.filter(|_| pages.len() < PAGES_MAX) else { break };
        let mark = if url.contains('?') { '&' } else { '?' };
        (status, text) = http(method, &format!("{url}{mark}next={next}"), body)?;
    }
    Ok(Answer::Json(pages.into()))
}

/// Output, errors and status of a command, and the file that it writes.
fn by_command(site: &Site, command: &str) -> anyhow::Result<Answer> {
    let file = site.folder().join("output");
    let _ = std::fs::remove_file(&file);
    let words: Vec<String> = command
        .split(' ')
        .map(|word| {
            word.replace("{file}", "output")
                .replace("{state}", &site.folder().join("state").display().to_string())
        })
        .collect();
    let output = site.client(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
    let plain = |bytes: &[u8]| site.without_places(&String::from_utf8_lossy(bytes));
    let (mut text, errors) = (plain(&output.stdout), plain(&output.stderr));
    let written = std::fs::read(&file).unwrap_or_default();
    let code = output.status.code();
    ensure!(code != Some(WRONG_USAGE), "throughline {command}: {errors}");
    if output.status.success() && errors.is_empty() && written.is_empty() {
        // A document, or one a line.
        let lines = || text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        if let Ok(document) = serde_json::from_str(&text).or_else(|_| lines().map(Value::from)) {
            return Ok(Answer::Json(document));
        }
    }
    if !errors.is_empty() || code != Some(0) {
        write!(text, "\nstatus {code:?}\n{errors}")?;
    }
    if let Ok(document) = serde_json::from_slice::<Value>(&written) {
        return Ok(Answer::Json(serde_json::json!({ "output": text, "file": document })));
    }
    Ok(Answer::Text(text + &plain(&written)))
}

/// Names of what a database numbers, by column and number.
type Names<'a> = BTreeMap<&'a str, BTreeMap<String, String>>;

fn names<'a>(site: &Site, lists: &'a Lists) -> Names<'a> {
    let mut names = Names::new();
    for (column, sql) in &lists.ids {
        // A line is of the schema that has its tables.
        let Ok(rows) = site.sql(sql) else { continue };
        let pairs = rows.lines().filter_map(|row| row.split_once('|'));
        names.entry(column).or_default().extend(pairs.map(|(id, name)| (id.to_owned(), name.to_owned())));
    }
    names
}

/// All rows of a query; numbers that only the database knows are replaced by names.
fn rows(site: &Site, names: &Names, query: &str) -> anyhow::Result<Answer> {
    let mut rows = Vec::new();
    for row in site.sql(&format!("SELECT to_jsonb(v) FROM ({query}) v"))?.lines() {
        let mut row: Value = serde_json::from_str(row)?;
        for (column, value) in row.as_object_mut().into_iter().flatten() {
            let name = names.get(column.as_str()).and_then(|names| names.get(&value.to_string()));
            if let Some(name) = name {
                *value = name.as_str().into();
            }
        }
        rows.push(row);
    }
    rows.sort_by_cached_key(Value::to_string);
    Ok(Answer::Json(rows.into()))
}

/// All rows of all views.
fn views(site: &Site, names: &Names, answers: &mut Answers) -> anyhow::Result<()> {
    let list =
        site.sql("SELECT viewname FROM pg_views WHERE schemaname IN ('public', 'internal') ORDER BY 1")?;
    ensure!(!list.is_empty(), "the database has no view");
    for view in list.lines() {
        let answer = rows(site, names, &format!("SELECT * FROM {view}"))?;
        answers.insert(("views".into(), view.to_owned()), answer);
    }
    Ok(())
}

/// Names of all metrics as Prometheus has them, by the build's own page of the catalogue.
///
/// # Errors
/// The page is not there.
pub fn metrics(checkout: &Path) -> anyhow::Result<Vec<String>> {
    let page = std::fs::read_to_string(checkout.join("docs/METRICS.md"))?;
    let (mut names, mut prefixes): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    for line in page.lines() {
        if line.starts_with("## ") {
            prefixes.clear();
        } else if line.starts_with("Prometheus: ") {
            prefixes = line.split('`').skip(1).step_by(2).filter_map(|word| word.strip_suffix('…')).collect();
        } else if let Some((name, rest)) = line.strip_prefix("| `").and_then(|row| row.split_once('`')) {
            let end = if rest.split('|').nth(2).is_some_and(|kind| kind.trim() == "counter") {
                "_total"
            } else {
                ""
            };
            names.extend(prefixes.iter().map(|prefix| format!("{prefix}{name}{end}")));
        }
    }
    ensure!(!names.is_empty(), "docs/METRICS.md of {} has no metrics", checkout.display());
    let page = std::fs::read_to_string(checkout.join("docs/PROMQL.md"))?;
    let words = page.split('`').skip(1).step_by(2);
    names.extend(words.filter(|word| word.ends_with("_info") && !word.contains(' ')).map(str::to_owned));
    names.sort();
    names.dedup();
    Ok(names)
}

/// A Prometheus that reads from the build.
pub struct Prometheus {
    child: Option<Child>,
    url: String,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Starts it.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(program: &Path, site: &Site) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("prometheus.yml");
        let read = format!("http://{}/api/v1/read", site.query);
        std::fs::write(&config, format!("remote_read:\n  - url: {read}\n    read_recent: true\n"))?;
        for _ in 0..STARTS_MAX {
            // Each another port, also of two that start at the same time.
            let offset = u16::try_from(std::process::id() % 5_000)? + 101 * STARTED.fetch_add(1, Relaxed);
            let address = format!("127.0.0.1:{}", FIRST_PORT + offset % 10_000);
            let mut child = Command::new(program)
                .arg(format!("--config.file={}", config.display()))
                .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
                .arg(format!("--web.listen-address={address}"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .with_context(|| program.display().to_string())?;
            let url = format!("http://{address}");
            // Another program on this port lets it end.
            while child.try_wait()?.is_none() {
                if http("GET", &format!("{url}/-/ready"), "").is_ok_and(|(status, _)| status == 200) {
                    return Ok(Self { child: Some(child), url, _folder: folder });
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        anyhow::bail!("{} does not start", program.display())
    }

    /// All samples of a metric of the last four hours, and its rate and increase where it only grows.
    fn query(&self, metric: &str, now: i64, answers: &mut Answers) -> anyhow::Result<()> {
        let (end, start) = (now / 1_000_000_000, now / 1_000_000_000 - 4 * 3600);
        let mut queries = vec![(format!("{metric}[4h]"), format!("query?time={end}"))];
        if metric.ends_with("_total") {
            let range = format!("query_range?start={start}&end={end}&step=15");
            queries.push((format!("rate({metric}[1m])"), range.clone()));
            queries.push((format!("increase({metric}[5m])"), range));
        }
        for (query, way) in queries {
            let encoded = query.replace('[', "%5B").replace(']', "%5D");
            let (status, text) = http("GET", &format!("{}/api/v1/{way}&query={encoded}", self.url), "")?;
            let mut document: Value =
                serde_json::from_str(&text).with_context(|| format!("{query}: {status} {text:.200}"))?;
            if let Some(series) = document["data"]["result"].as_array_mut() {
                series.sort_by_cached_key(|one| one["metric"].to_string());
            }
            answers.insert(("promql".into(), query), Answer::Json(document));
        }
        Ok(())
    }
}

impl Prometheus {
    /// Values of an expression over a range, `&start=…&end=…&step=…`.
    ///
    /// # Errors
    /// It is refused.
    pub fn range(&self, expression: &str, range: &str) -> anyhow::Result<()> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (status, text) =
            http("GET", &format!("{}/api/v1/query_range?query={encoded}{range}", self.url), "")?;
        ensure!(status == 200, "{expression}: {status} {text:.200}");
        Ok(())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = end(self.child.take());
    }
}
