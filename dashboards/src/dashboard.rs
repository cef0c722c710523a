//! A dashboard: its variables, the places of its panels, its events, and what all dashboards share.

use crate::link::{self, Link};
use crate::panel::{PROMQL, Panel, SQL, source};
use crate::site::Site;
use serde_json::{Value, json};

/// Columns of Grafana's grid.
const COLUMNS: u32 = 24;
/// Version of the model of Grafana 11.
const SCHEMA_VERSION: u32 = 39;

/// A dashboard in the making.
#[derive(Debug)]
pub struct Dashboard {
    uid: String,
    value: Value,
    /// Where the next panel goes, and the lower edge of this line of panels.
    at: (u32, u32),
    lower: u32,
}

impl Dashboard {
    /// Without variables but the data sources, and without panels.
    pub fn new(site: &Site, uid: &str, title: &str, description: &str) -> Self {
        let mut links = vec![
            json!({
                "type": "dashboards", "title": "Throughline", "tags": ["throughline"], "asDropdown": true,
                "includeVars": true, "keepTime": true, "targetBlank": false, "icon": "external link", "tooltip": "",
                "url": "",
            }),
            dashboard_link("Alert rules", "/alerting/list?search=throughline", "bell", false),
        ];
        if !site.pages_url.is_empty() {
            links.push(dashboard_link(
                "Fabric map",
                &format!("{}/fabric", site.pages_url),
                "external link",
                true,
            ));
        }
        let value = json!({
            "uid": uid, "title": title, "description": description, "tags": ["throughline"],
            "schemaVersion": SCHEMA_VERSION, "version": 1, "editable": false, "graphTooltip": 1,
            "fiscalYearStartMonth": 0, "liveNow": false, "timezone": "browser", "weekStart": "", "refresh": "30s",
            "time": {"from": "now-30m", "to": "now"}, "timepicker": {}, "links": links, "panels": [],
            "annotations": {"list": [{
                "builtIn": 1, "datasource": source(("grafana", "-- Grafana --")), "enable": true, "hide": true,
                "iconColor": "rgba(0, 211, 255, 1)", "name": "Annotations & Alerts", "type": "dashboard",
            }]},
            "templating": {"list": [
                data_source("database", "Database", "TimescaleDB of Throughline", SQL.0),
                data_source("prometheus", "Prometheus", "Prometheus that scrapes Throughline's daemons", PROMQL.0),
            ]},
        });
        Self { uid: uid.to_owned(), value, at: (0, 0), lower: 0 }
    }

    /// A variable: one value of a query's first column, or of `__text` and `__value`. A query that has the time range
    /// runs anew when it changes.
    pub fn choose(self, name: &str, label: &str, description: &str, sql: &str) -> Self {
        self.variable(name, label, description, sql, json!({}), false)
    }

    /// The same with any number of values, all at first.
    pub fn choose_many(self, name: &str, label: &str, description: &str, sql: &str) -> Self {
        self.variable(name, label, description, sql, json!({"text": ["All"], "value": ["$__all"]}), true)
    }

    fn variable(
        mut self,
        name: &str,
        label: &str,
        description: &str,
        sql: &str,
        current: Value,
        many: bool,
    ) -> Self {
        let sql = sql.trim();
        let refresh = if sql.contains("$__time") { 2 } else { 1 };
        self.push("/templating/list", json!({
            "name": name, "type": "query", "label": label, "description": description,
            "datasource": source(SQL), "definition": sql, "query": sql, "regex": "", "current": current, "hide": 0,
            "includeAll": many, "multi": many, "options": [], "refresh": refresh, "skipUrlSync": false, "sort": 0,
        }));
        self
    }

    /// A menu of fixed values, the first one at first.
    pub fn menu(mut self, name: &str, label: &str, description: &str, values: &[&str]) -> Self {
        let option =
            |(at, value): (usize, &&str)| json!({"text": value, "value": value, "selected": at == 0});
        let options: Vec<Value> = values.iter().enumerate().map(option).collect();
        self.push("/templating/list", json!({
            "name": name, "type": "custom", "label": label, "description": description, "query": values.join(","),
            "current": options.first(), "options": options, "hide": 0, "includeAll": false, "multi": false,
            "skipUrlSync": false,
        }));
        self
    }

    /// Events as marks in every chart: a query with `time`, `text`, and perhaps `timeEnd`, `title`, `tags`.
    pub fn events(mut self, name: &str, colour: &str, shown: bool, sql: &str) -> Self {
        self.push("/annotations/list", json!({
            "name": name, "datasource": source(SQL), "enable": shown, "hide": false, "iconColor": colour,
            "target": {
                "refId": "Anno", "datasource": source(SQL), "editorMode": "code", "format": "table", "rawQuery": true,
                "rawSql": sql.trim(),
            },
        }));
        self
    }

    /// A link at the top.
    pub fn link(mut self, link: Link) -> Self {
        let link = link.into_value();
        let text = |key: &str| link[key].as_str().unwrap_or_default();
        let path = text("url").split('?').next().unwrap_or_default();
        let mut link = dashboard_link(text("title"), path, "dashboard", false);
        // Grafana adds the time range and every variable itself.
        (link["keepTime"], link["includeVars"]) = (json!(true), json!(true));
        self.push("/links", link);
        self
    }

    /// The time range at first, for example `now-6h`, and how often it is refreshed; empty for never.
    pub fn time(mut self, from: &str, refresh: &str) -> Self {
        self.value["time"]["from"] = json!(from);
        self.value["refresh"] = json!(refresh);
        self
    }

    /// A heading over all columns.
    pub fn row(mut self, id: u32, title: &str) -> Self {
        let y = self.lower;
        self.push(
            "/panels",
            json!({
                "id": id, "type": "row", "title": title, "collapsed": false, "panels": [],
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
            }),
        );
        (self.at, self.lower) = ((0, y + 1), y + 1);
        self
    }

    /// A panel beside the last one, or below when there is no room.
    pub fn panel(mut self, panel: Panel) -> Self {
        let (width, height) = panel.size;
        if self.at.0 + width > COLUMNS {
            self.at = (0, self.lower);
        }
        let (x, y) = self.at;
        self.push("/panels", panel.at(x, y));
        self.at = (x + width, y);
        self.lower = self.lower.max(y + height);
        self
    }

    fn push(&mut self, list: &str, item: Value) {
        if let Some(Value::Array(list)) = self.value.pointer_mut(list) {
            list.push(item);
        }
    }

    /// Name and text of its file.
    pub fn into_file(self) -> (String, String) {
        // A tree of texts and numbers can always be written.
        let text = serde_json::to_string_pretty(&self.value).unwrap_or_default();
        (format!("{}.json", self.uid), text + "\n")
    }
}

fn data_source(name: &str, label: &str, description: &str, plugin: &str) -> Value {
    json!({
        "name": name, "type": "datasource", "label": label, "description": description, "query": plugin, "regex": "",
        "current": {}, "hide": 0, "includeAll": false, "multi": false, "options": [], "refresh": 1,
        "skipUrlSync": false,
    })
}

fn dashboard_link(title: &str, url: &str, icon: &str, is_new_tab: bool) -> Value {
    json!({
        "type": "link", "title": title, "url": url, "icon": icon, "targetBlank": is_new_tab, "tooltip": "", "tags": [],
        "asDropdown": false, "includeVars": false, "keepTime": false,
    })
}

/// The switches, as a variable's values.
pub fn switches() -> &'static str {
    "SELECT coalesce(nullif(description, ''), guid) AS __text, guid AS __value
FROM internal.ib_node
WHERE valid_to IS NULL AND type = 'switch'
ORDER BY 1"
}

/// Jobs that ran in the time range, newest first.
pub fn jobs() -> &'static str {
    "SELECT key
FROM internal.run_visible
WHERE coalesce(start_time, first_seen) <= $__timeTo() AND coalesce(end_time, $__timeTo()) >= $__timeFrom()
ORDER BY coalesce(start_time, first_seen) DESC, id DESC
LIMIT 200"
}

/// The panel's link to the fabric map of our own pages.
pub fn map(site: &Site) -> Option<Link> {
    link::to_page(site, "Fabric map", "/fabric")
}
