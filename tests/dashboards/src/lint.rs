//! What can be checked of a dashboard without running it. The rules are those of Grafana 11's model and of this
//! repository: every panel has a unit, a title, a description and a link, and only built-in panel types.

use crate::alerts::GrafanaRule;
use crate::bounds;
use crate::dashboard::{Dashboard, Panel, Target, Variable};
use crate::{Finding, shown};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Panel types that every Grafana 11 and 12 has.
const BUILT_IN_PANELS: [&str; 19] = [
    "alertlist",
    "bargauge",
    "barchart",
    "candlestick",
    "canvas",
    "dashlist",
    "gauge",
    "geomap",
    "heatmap",
    "histogram",
    "logs",
    "nodeGraph",
    "piechart",
    "stat",
    "state-timeline",
    "status-history",
    "table",
    "timeseries",
    "trend",
];
/// Grafana 11's version of the model; older ones are migrated by guessing.
const LEAST_SCHEMA_VERSION: u64 = 39;
/// Columns of the grid.
const GRID_COLUMNS: u32 = 24;
/// Longest identifier that Grafana takes.
const UID_BYTES: usize = 40;
/// Data sources that a query may use, and the plugin of the variable that names them.
const SQL_PLUGIN: &str = "grafana-postgresql-datasource";
const PROMETHEUS_PLUGIN: &str = "prometheus";
/// What a link may take from Grafana beside the dashboard's variables.
const LINK_VARIABLES: [&str; 2] = ["__url_time_range", "__all_variables"];
/// What a link of a field or panel may take from its row.
const ROW_VARIABLES: [&str; 3] = ["__data.fields", "__field.", "__value."];
/// Formats of a variable in a URL that keep `&` and `/` of a value from changing the URL.
const LINK_FORMATS: [&str; 2] = ["percentencode", "queryparam"];

/// Everything that is wrong with the form of these dashboards and rules; `data_sources` are the identifiers of
/// those that the repository provisions, `folders` those of the folders that dashboards are put into.
#[must_use]
pub fn lint(
    dashboards: &[(String, Dashboard)],
    rules: &[GrafanaRule],
    data_sources: &[String],
    folders: &[String],
) -> Vec<Finding> {
    let mut findings = of_uids(dashboards, rules, data_sources, folders);
    for (name, dashboard) in dashboards {
        of_dashboard(name, dashboard, dashboards, &mut findings);
    }
    for rule in rules {
        findings.extend(rule.findings());
        if !data_sources.contains(&rule.data_source) {
            let problem = format!("data source '{}' is not provisioned", rule.data_source);
            findings.push(Finding::new(format!("rule {}", rule.uid), problem));
        }
        let url = rule.annotations.get("dashboard").map_or("", String::as_str);
        if let Some(problem) = of_rule_link(url, dashboards) {
            findings.push(Finding::new(format!("rule {}", rule.uid), problem));
        }
    }
    findings
}

/// Identifiers that are empty, too long or used twice. Grafana looks dashboards and folders up in one list, where a dashboard
/// with a folder's uid never opens; rules and data sources have lists of their own in some versions only.
fn of_uids(
    dashboards: &[(String, Dashboard)],
    rules: &[GrafanaRule],
    data_sources: &[String],
    folders: &[String],
) -> Vec<Finding> {
    let of_folders = folders.iter().map(|uid| (String::from("a folder"), uid));
    let of_sources = data_sources.iter().map(|uid| (String::from("a data source"), uid));
    let of_dashboards = dashboards.iter().map(|(name, dashboard)| (name.clone(), &dashboard.uid));
    let of_rules = rules.iter().map(|rule| (format!("rule '{}'", rule.title), &rule.uid));
    let mut owners: HashMap<&String, String> = HashMap::new();
    let mut findings = Vec::new();
    for (owner, uid) in of_folders.chain(of_sources).chain(of_dashboards).chain(of_rules) {
        if uid.is_empty() || uid.len() > UID_BYTES {
            findings.push(Finding::new(&owner, format!("uid '{uid}' is empty or too long")));
        }
        if let Some(other) = owners.insert(uid, owner.clone()) {
            findings.push(Finding::new(owner, format!("uid '{uid}' is that of {other} too")));
        }
    }
    findings
}

fn of_dashboard(name: &str, dashboard: &Dashboard, all: &[(String, Dashboard)], findings: &mut Vec<Finding>) {
    let mut find = |problem: String| findings.push(Finding::new(name, problem));
    if dashboard.title.is_empty() {
        find(String::from("no title"));
    }
    if dashboard.schema_version < LEAST_SCHEMA_VERSION {
        find(format!("schemaVersion {} is under {LEAST_SCHEMA_VERSION}", dashboard.schema_version));
    }
    if dashboard.id.is_some() {
        find(String::from("has an id, which belongs to one Grafana's database"));
    }
    for variable in &dashboard.templating.list {
        for problem in of_variable(variable, dashboard) {
            find(format!("variable {}: {problem}", variable.name));
        }
    }
    for annotation in dashboard.annotations.list.iter().filter(|annotation| annotation.built_in == 0) {
        let problem = match &annotation.target {
            None => Some(String::from("no query")),
            Some(_) if annotation.name.is_empty() => Some(String::from("no name")),
            Some(target) if target.datasource != annotation.datasource => {
                let uid = annotation.datasource.as_ref().map_or("", |source| source.uid.as_str());
                Some(format!("'{uid}' is no data-source variable of its query"))
            }
            Some(target) => of_target(target, dashboard).into_iter().next(),
        };
        if let Some(problem) = problem {
            find(format!("annotation '{}': {problem}", annotation.name));
        }
    }
    for link in dashboard.links.iter().filter(|link| link.get("type").and_then(Value::as_str) == Some("link"))
    {
        if let Some(problem) = of_link(link, dashboard, all) {
            find(problem);
        }
    }
    let mut ids = HashSet::new();
    for panel in &dashboard.panels {
        if panel.id == 0 || !ids.insert(panel.id) {
            find(format!("panel '{}': id {} is missing or used twice", panel.title, panel.id));
        }
        let problems = if panel.kind == "row" { of_row(panel) } else { of_panel(panel, dashboard) };
        for problem in problems {
            find(format!("panel '{}': {problem}", panel.title));
        }
        for link in panel.all_links() {
            if let Some(problem) = of_link(link, dashboard, all) {
                find(format!("panel '{}': {problem}", panel.title));
            }
        }
    }
    for (at, panel) in dashboard.panels.iter().enumerate() {
        for other in dashboard.panels[..at].iter().filter(|other| other.place.overlaps(&panel.place)) {
            find(format!("panels '{}' and '{}' overlap", other.title, panel.title));
        }
    }
}

fn of_variable(variable: &Variable, dashboard: &Dashboard) -> Vec<String> {
    let mut problems = Vec::new();
    if variable.label.is_empty() {
        problems.push(String::from("no label"));
    }
    if variable.kind == "datasource" {
        let plugin = variable.query.as_str().unwrap_or_default();
        if ![SQL_PLUGIN, PROMETHEUS_PLUGIN].contains(&plugin) {
            problems.push(format!("plugin '{plugin}' is not used here"));
        }
    } else if variable.kind == "custom" {
        let value = |of: &Value| of.get("value").cloned().unwrap_or_default();
        if !variable.options.iter().any(|option| value(option) == value(&variable.current)) {
            problems.push(String::from("its choice at first is none of its options"));
        }
    } else if variable.kind == "query" {
        if variable.query.as_str() != Some(variable.definition.as_str()) {
            problems.push(String::from("definition differs from query"));
        }
        let chosen = variable.current.get("value");
        let all = serde_json::json!(["$__all"]);
        if chosen.is_some_and(|chosen| *chosen != all || !variable.include_all) {
            problems.push(String::from("its choice at first is a value of one site"));
        }
        problems.extend(bounds::problems(&variable.definition));
        let source = variable.datasource.as_ref();
        if source.is_none_or(|source| plugin_of(&source.uid, dashboard) != Some(SQL_PLUGIN)) {
            problems.push(String::from("its data source is no variable of the PostgreSQL plugin"));
        }
    }
    problems
}

/// The plugin of `${variable}`, `None` for a fixed identifier: a site's data sources have other ones.
fn plugin_of<'a>(uid: &str, dashboard: &'a Dashboard) -> Option<&'a str> {
    let name = uid.strip_prefix("${")?.strip_suffix('}')?;
    dashboard.variable(name).filter(|variable| variable.kind == "datasource")?.query.as_str()
}

fn of_row(row: &Panel) -> Vec<String> {
    let mut problems = Vec::new();
    if row.title.is_empty() {
        problems.push(String::from("a row without a title"));
    }
    if row.place.w != GRID_COLUMNS || row.place.h != 1 || row.place.x != 0 {
        problems.push(String::from("a row is 24 wide, 1 high and at the left edge"));
    }
    problems
}

fn of_panel(panel: &Panel, dashboard: &Dashboard) -> Vec<String> {
    let mut problems = Vec::new();
    if !BUILT_IN_PANELS.contains(&panel.kind.as_str()) {
        problems.push(format!("type '{}' is not built in", panel.kind));
    }
    for (what, text) in
        [("title", panel.title.as_str()), ("description", panel.description.as_str()), ("unit", panel.unit())]
    {
        if text.trim().is_empty() {
            problems.push(format!("no {what}"));
        }
    }
    for name in names_of_variables(&panel.title).chain(names_of_variables(&panel.description)) {
        if dashboard.variable(name).is_none() {
            problems.push(format!("unknown '${{{name}}}' in its title or description"));
        }
    }
    if panel.all_links().is_empty() {
        problems.push(String::from("no link"));
    }
    problems.extend(shown::unmarked_shares(panel));
    let source = panel.datasource.as_ref().map_or("", |source| source.uid.as_str());
    if plugin_of(source, dashboard).is_none() {
        problems.push(format!("its data source '{source}' is no data-source variable"));
    }
    let place = panel.place;
    if place.w == 0 || place.h < 2 || place.x + place.w > GRID_COLUMNS {
        problems.push(format!("its place {place:?} is not on the grid"));
    }
    if panel.targets.is_empty() {
        problems.push(String::from("no query"));
    }
    let mut letters = HashSet::new();
    for target in &panel.targets {
        if target.ref_id.is_empty() || !letters.insert(&target.ref_id) {
            problems.push(format!("refId '{}' is missing or used twice", target.ref_id));
        }
        problems.extend(of_target(target, dashboard));
        let sql = target.sql.as_deref().unwrap_or_default();
        let is_of_shares =
            ["FROM public.link_minute_shares", "FROM public.link_contributor", "FROM internal.link_share"]
                .iter()
                .any(|table| sql.contains(table));
        // A share without its kind is believed more than it may be.
        if is_of_shares && !sql.contains("AS \"Known\"") && !sql.contains(".known || ']'") {
            problems.push(String::from("shows shares of links without how they are known"));
        }
    }
    problems
}

fn of_target(target: &Target, dashboard: &Dashboard) -> Vec<String> {
    let Some(source) = &target.datasource else {
        return vec![format!("query {} has no data source", target.ref_id)];
    };
    let Some(plugin) = plugin_of(&source.uid, dashboard) else {
        return vec![format!(
            "data source '{}' of query {} is no data-source variable",
            source.uid, target.ref_id
        )];
    };
    if plugin != source.kind {
        return vec![format!("data source '{}' is a {plugin}, not a {}", source.uid, source.kind)];
    }
    let complete = match plugin {
        SQL_PLUGIN => {
            let format = target.format.as_deref().unwrap_or_default();
            target.sql.as_deref().is_some_and(|sql| !sql.trim().is_empty())
                && target.raw_query
                && ["time_series", "table"].contains(&format)
        }
        _ => target.expr.as_deref().is_some_and(|expr| !expr.trim().is_empty()) && target.legend.is_some(),
    };
    let form = if plugin == SQL_PLUGIN { "rawSql, rawQuery and format" } else { "expr and legendFormat" };
    let mut problems = bounds::problems(target.sql.as_deref().unwrap_or_default());
    if !complete {
        problems.push(format!("query {} needs {form}", target.ref_id));
    }
    problems
}

/// A rule leads to a dashboard that is there, by variables that it has.
fn of_rule_link(url: &str, all: &[(String, Dashboard)]) -> Option<String> {
    let path = url.strip_prefix("/d/").unwrap_or_default();
    let (uid, query) = path.split_once('?').unwrap_or((path, ""));
    let Some((_, target)) = all.iter().find(|(_, dashboard)| dashboard.uid == uid) else {
        return Some(format!("there is no dashboard '{uid}'"));
    };
    let mut names = query.split('&').filter_map(|part| part.strip_prefix("var-")?.split('=').next());
    let unknown = names.find(|name| target.variable(name).is_none())?;
    Some(format!("dashboard '{uid}' has no variable '{unknown}'"))
}

/// Names in `${...}`, without formats.
fn names_of_variables(text: &str) -> impl Iterator<Item = &str> {
    text.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| {
        // A field's name may have a colon: its format stands behind the bracket.
        name.split_once("]:").or_else(|| name.split_once(':')).map_or(name, |(name, _)| name)
    })
}

/// A link has a title; it takes only what is there; one to a dashboard names one that is there and sets variables that it
/// has.
fn of_link(link: &Value, dashboard: &Dashboard, all: &[(String, Dashboard)]) -> Option<String> {
    let text = |key: &str| link.get(key).and_then(Value::as_str).unwrap_or_default();
    let (title, url) = (text("title"), text("url"));
    if title.is_empty() || url.is_empty() {
        return Some(String::from("a link without title or URL"));
    }
    for name in names_of_variables(url) {
        let is_of_row = ROW_VARIABLES.iter().any(|known| name.starts_with(known));
        if !is_of_row && !LINK_VARIABLES.contains(&name) && dashboard.variable(name).is_none() {
            return Some(format!("link '{title}': unknown '${{{name}}}'"));
        }
        let safe = LINK_FORMATS.iter().any(|format| {
            url.contains(&format!("${{{name}:{format}}}")) || url.contains(&format!("${{{name}]:{format}}}"))
        });
        if is_of_row && !safe {
            return Some(format!("link '{title}': '${{{name}}}' needs a format, like :percentencode"));
        }
    }
    let rest = url.strip_prefix("/d/")?;
    let uid = rest.split(['/', '?']).next().unwrap_or_default();
    let Some((_, target)) = all.iter().find(|(_, dashboard)| dashboard.uid == uid) else {
        return Some(format!("link '{title}': there is no dashboard '{uid}'"));
    };
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    // A row's job ran at its own time: the one that is shown now may have nothing of it.
    let is_job_of_row = query.contains("var-job=${__data");
    if is_job_of_row && !["&from=${__data", "&to=${__data"].iter().all(|bound| query.contains(bound)) {
        return Some(format!("link '{title}' does not lead to the job's own time"));
    }
    let set = query
        .split('&')
        .filter_map(|part| part.strip_prefix("var-"))
        .filter_map(|part| part.split('=').next())
        .chain(url.split("${").filter_map(|part| part.split_once(":queryparam}").map(|(name, _)| name)));
    let unknown = set.into_iter().find(|name| target.variable(name).is_none())?;
    Some(format!("link '{title}': dashboard '{uid}' has no variable '{unknown}'"))
}
