//! What is requested: `requests.txt`, one request a line, and the checks that it leaves nothing out.
//!
//! * `name = value value …`: what `{name}` in lines below stands for; a line with it is a request for each value.
//! * `GET /path?parameter=value`, `POST …`: routes of the JSON API.
//! * `throughline …`: command lines. `{file}` is a file that the command writes, and part of its answer.
//! * `SELECT …`: functions of SQL for people; they return rows without an order.
//! * `MOMENT: …`: only at this moment.

use crate::renames::{Renames, lines};
use anyhow::{Context, bail, ensure};
use serde_yaml_ng::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The list.
pub struct Requests {
    values: BTreeMap<String, Vec<String>>,
    /// Moment, or nothing for each, and the request with names in braces.
    templates: Vec<(String, String)>,
}

/// How a request begins.
const STARTS: [&str; 4] = ["GET /", "POST /", "throughline ", "SELECT "];
/// Names in braces that a command has a file or folder for.
const FILES: [&str; 2] = ["file", "state"];
/// Commands that read nothing of the database, or that this bench itself uses: not compared.
const OTHER_COMMANDS: [&str; 10] = [
    "serve",
    "demo",
    "dashboards",
    "check-config",
    "help", // no answers from the database
    "install",
    "init",
    "start",
    "stop",
    "size", // of the database's programs; `size` predicts from its arguments alone
];

impl Requests {
    /// Reads the list.
    ///
    /// # Errors
    /// A line has another form.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let (mut values, mut templates) = (BTreeMap::new(), Vec::new());
        for line in lines(folder, "requests.txt")? {
            let (moment, request) = line.split_once(": ").unwrap_or(("", &line));
            if STARTS.iter().any(|start| request.starts_with(start)) {
                templates.push((moment.to_owned(), request.to_owned()));
            } else if let Some((name, list)) = line.split_once(" = ") {
                values.insert(name.to_owned(), list.split_whitespace().map(str::to_owned).collect());
            } else {
                bail!("requests.txt: `{line}` is neither a request nor a list of values");
            }
        }
        Ok(Self { values, templates })
    }

    /// The requests of a moment, with values for names.
    ///
    /// # Errors
    /// A name has no value.
    pub fn of(&self, moment: &str) -> anyhow::Result<Vec<String>> {
        let now = self.templates.iter().filter(|(only, _)| only.is_empty() || only == moment);
        self.expand(now.map(|(_, request)| request.clone()).collect())
    }

    /// With values for names in braces.
    fn expand(&self, mut requests: Vec<String>) -> anyhow::Result<Vec<String>> {
        for (name, values) in &self.values {
            let mark = format!("{{{name}}}");
            let all = requests.iter().flat_map(|request| {
                let count = if request.contains(&mark) { values.len() } else { 1 };
                values[..count].iter().map(|value| request.replace(&mark, value))
            });
            requests = all.collect();
        }
        let is_open = |request: &&String| {
            let names = request.split('{').skip(1).filter_map(|part| part.split('}').next());
            names
                .into_iter()
                .any(|name| name.chars().all(|letter| letter.is_alphabetic()) && !FILES.contains(&name))
        };
        let open = requests.iter().find(is_open);
        open.map_or(Ok(()), |request| bail!("requests.txt: `{request}` names what has no values"))?;
        Ok(requests)
    }

    /// Checks that each route with each of its parameters, and each command that reads, has a line.
    ///
    /// # Errors
    /// The first one that has none.
    pub fn check(&self, checkout: &Path, throughline: &Path, renames: &Renames) -> anyhow::Result<()> {
        let templates = self.templates.iter().map(|(_, line)| line.clone()).collect();
        let lines = self.expand(templates)?;
        let lines: Vec<String> = lines.iter().map(|line| renames.text("request", line)).collect();
        let path = checkout.join("crates/gateway/openapi.yaml");
        let document: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(path)?)?;
        let mut missing = Vec::new();
        for (route, methods) in document["paths"].as_mapping().context("paths")? {
            for (method, operation) in methods.as_mapping().context("methods")? {
                let (route, method) =
                    (route.as_str().unwrap_or_default(), method.as_str().unwrap_or_default());
                let start = format!("{} ", method.to_uppercase());
                let of_route: Vec<&str> = lines
                    .iter()
                    .filter_map(|line| line.strip_prefix(&start))
                    .filter(|line| fits(route, line.split(['?', ' ']).next().unwrap_or_default()))
                    .collect();
                if of_route.is_empty() {
                    missing.push(format!("{start}{route}"));
                }
                for parameter in operation["parameters"].as_sequence().into_iter().flatten() {
                    let name = parameter_name(&document, parameter);
                    let is_named =
                        |line: &&str| ["?", "&"].iter().any(|mark| line.contains(&format!("{mark}{name}=")));
                    // The next page is requested wherever an answer names one.
                    let is_covered = name.is_empty() || name == "next" || of_route.iter().any(is_named);
                    if !is_covered {
                        missing.push(format!("{start}{route} with {name}"));
                    }
                }
            }
        }
        for group in ["", "job", "db"] {
            for command in commands(throughline, group)?.difference(&OTHER_COMMANDS.map(str::to_owned).into())
            {
                let start = format!("throughline {group} {command}").replace("  ", " ");
                let has_line = lines.iter().any(|line| line.starts_with(&start));
                if !has_line {
                    missing.push(start);
                }
            }
        }
        ensure!(missing.is_empty(), "requests.txt has no line for {}", missing.join(", "));
        Ok(())
    }
}

/// Whether a path of a request is of a route: names in braces fit all.
fn fits(route: &str, path: &str) -> bool {
    let (route, path): (Vec<&str>, Vec<&str>) = (route.split('/').collect(), path.split('/').collect());
    route.len() == path.len()
        && route.iter().zip(path).all(|(part, value)| part.starts_with('{') || *part == value)
}

/// The name of a parameter in the query; empty for one of the path.
fn parameter_name(document: &Value, parameter: &Value) -> String {
    let shared = parameter["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let parameter = shared.map_or(parameter, |name| &document["components"]["parameters"][name]);
    let is_in_query = parameter["in"].as_str() == Some("query");
    parameter["name"].as_str().filter(|_| is_in_query).unwrap_or_default().to_owned()
}

/// The subcommands that `--help` lists.
fn commands(throughline: &Path, group: &str) -> anyhow::Result<BTreeSet<String>> {
    let arguments = [group, "--help"];
    let output = Command::new(throughline).args(arguments.iter().filter(|one| !one.is_empty())).output()?;
    let text = String::from_utf8(output.stdout)?;
    let list = text.split("Commands:\n").nth(1).with_context(|| format!("the help of {group}"))?;
    let lines = list.lines().take_while(|line| !line.is_empty());
    Ok(lines
        .filter_map(|line| Some(line.strip_prefix("  ")?.split(' ').next()?.to_owned()))
        .filter(|name| !name.is_empty())
        .collect())
}
