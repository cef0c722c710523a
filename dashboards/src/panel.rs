//! Panels as Grafana 11 and 12 have them: what all panels of a kind share is here.

use crate::link::Link;
use crate::site::{OVER_FULL, OVER_FULL_COLOUR, OVER_FULL_TEXT, Scale};
use crate::sql::whole_steps;
use serde_json::{Value, json};

/// The plugin of TimescaleDB, and the variable that names the data source.
pub const SQL: (&str, &str) = ("grafana-postgresql-datasource", "${database}");
/// The same of Prometheus.
pub const PROMQL: (&str, &str) = ("prometheus", "${prometheus}");
/// Units, as Grafana names them.
pub const BYTES_PER_SECOND: &str = "Bps";
pub const BYTES: &str = "bytes";
pub const SHARE: &str = "percentunit";
pub const COUNT: &str = "short";
pub const SECONDS: &str = "s";
/// Names and identifiers, also those made of digits: Grafana reads a text such as `0x0002c903` as a number and shows it as
/// `46.7 Mil` in every unit but this one.
pub const TEXT: &str = "string";
/// Lines up the left and right edges of charts below one another, so that one instant is at the same place in all.
const AXIS_WIDTH: u32 = 80;
/// A port that stands still has a row a minute; lines go on over that and show longer gaps.
const LONGEST_GAP_MILLISECONDS: u32 = 90_000;

/// A data source as JSON.
pub fn source((kind, uid): (&str, &str)) -> Value {
    json!({"type": kind, "uid": uid})
}

/// How one column or series is shown.
#[derive(Clone, Debug)]
pub enum FieldDisplay<'a> {
    /// Its unit.
    Unit(&'a str),
    /// A bar from 0 to 1 in the colours of a scale.
    Bar(&'a Scale),
    /// Text in the colours of a scale.
    Coloured(&'a Scale),
    /// A cell without colours.
    Plain,
    /// A share of a speed, marked where it is above 1.
    Share,
    /// Links of its cells.
    Links(Vec<Link>),
    /// Its width in a table.
    Width(u32),
    /// Not shown; links may use it.
    Hidden,
    /// A fixed colour.
    Colour(&'a str),
}

/// A panel in the making.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Columns of 24, and rows.
    pub size: (u32, u32),
    value: Value,
}

impl Panel {
    fn new(id: u32, kind: &str, title: &str, description: &str, size: (u32, u32)) -> Self {
        let value = json!({
            "id": id, "type": kind, "title": title, "description": description,
            "datasource": source(SQL), "targets": [], "links": [],
            "interval": "10s", "maxDataPoints": 600,
            "fieldConfig": {
                "defaults": {
                    "unit": COUNT, "mappings": [], "color": {"mode": "palette-classic"},
                    "thresholds": {"mode": "absolute", "steps": [{"color": "green", "value": null}]},
                },
                "overrides": [],
            },
        });
        Self { size, value }
    }

    /// Lines over time.
    pub fn series(id: u32, title: &str, description: &str, size: (u32, u32)) -> Self {
        let mut panel = Self::new(id, "timeseries", title, description, size);
        panel.value["fieldConfig"]["defaults"]["min"] = json!(0);
        panel.value["fieldConfig"]["defaults"]["custom"] = json!({
            "drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1, "fillOpacity": 5,
            "showPoints": "auto", "spanNulls": LONGEST_GAP_MILLISECONDS, "stacking": {"mode": "none", "group": "A"},
            "axisPlacement": "auto", "axisSoftMin": 0, "axisWidth": AXIS_WIDTH,
        });
        // A list below: the drawing is then as wide as the panel, and charts one below the other agree.
        panel.value["options"] = json!({
            "legend": {"displayMode": "list", "placement": "bottom", "calcs": [], "showLegend": true},
            "tooltip": {"mode": "multi", "sort": "desc"},
        });
        panel
    }

    /// One on the other instead of beside it, filled.
    pub fn stacked(mut self) -> Self {
        let custom = &mut self.value["fieldConfig"]["defaults"]["custom"];
        custom["stacking"]["mode"] = json!("normal");
        custom["fillOpacity"] = json!(40);
        custom["lineWidth"] = json!(0);
        self
    }

    /// Bars, one on the other.
    pub fn stacked_bars(mut self) -> Self {
        self = self.stacked();
        let custom = &mut self.value["fieldConfig"]["defaults"]["custom"];
        custom["drawStyle"] = json!("bars");
        custom["fillOpacity"] = json!(90);
        self
    }

    /// A number in large digits, with its history behind it where the query gives one. Texts belong into a table: here they
    /// shrink until they fit.
    pub fn stat(id: u32, title: &str, description: &str, size: (u32, u32)) -> Self {
        let mut panel = Self::new(id, "stat", title, description, size);
        panel.value["fieldConfig"]["defaults"]["color"]["mode"] = json!("thresholds");
        panel.value["options"] = json!({
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
            "colorMode": "value", "graphMode": "area", "textMode": "auto", "justifyMode": "auto",
            "orientation": "auto", "wideLayout": true, "showPercentChange": false,
        });
        panel
    }

    /// A stat with a number for each column.
    pub fn all_fields(mut self) -> Self {
        self.value["options"]["reduceOptions"]["fields"] = json!("/.*/");
        self.value["options"]["graphMode"] = json!("none");
        self
    }

    /// A table.
    pub fn table(id: u32, title: &str, description: &str, size: (u32, u32)) -> Self {
        let mut panel = Self::new(id, "table", title, description, size);
        panel.value["fieldConfig"]["defaults"]["custom"] = json!({
            "align": "auto", "cellOptions": {"type": "auto"}, "inspect": false, "filterable": true,
        });
        panel.value["options"] = json!({
            "showHeader": true, "cellHeight": "sm",
        });
        panel.texts()
    }

    /// Columns of text are shown as they are, whatever they look like.
    fn texts(self) -> Self {
        self.matching("byType", "string", &[FieldDisplay::Unit(TEXT)])
    }

    /// A table of rows by columns, coloured by value: `row`, `column` and `value` are columns of the query.
    pub fn matrix(self, row: &str, column: &str, value: &str) -> Self {
        let corner = format!("{row}\\{column}");
        let mut panel = self.transform(
            "groupingToMatrix",
            json!({
                "rowField": row, "columnField": column, "valueField": value, "emptyValue": "null",
            }),
        );
        let defaults = &mut panel.value["fieldConfig"]["defaults"];
        defaults["color"]["mode"] = json!("continuous-BlPu");
        defaults["custom"]["cellOptions"] = json!({"type": "color-background", "mode": "gradient"});
        panel.field(&corner, &[FieldDisplay::Plain, FieldDisplay::Unit(TEXT)])
    }

    /// A line of coloured cells over time for each series.
    pub fn history(id: u32, title: &str, description: &str, size: (u32, u32), scale: &Scale) -> Self {
        let mut panel = Self::new(id, "status-history", title, description, size).scale(scale);
        panel.value["fieldConfig"]["defaults"]["custom"] = json!({"fillOpacity": 90, "lineWidth": 0});
        panel.value["options"] = json!({
            "showValue": "never", "rowHeight": 0.9, "colWidth": 1.0,
            "legend": {"displayMode": "list", "placement": "bottom", "calcs": [], "showLegend": false},
            "tooltip": {"mode": "single", "sort": "none"},
        });
        // Cells and not pixels; Grafana refuses to draw more cells than there is room for.
        panel.points(100)
    }

    /// Bars of classes: `x` is the column with their names.
    pub fn bars(id: u32, title: &str, description: &str, size: (u32, u32), x: &str) -> Self {
        let mut panel = Self::new(id, "barchart", title, description, size);
        panel.value["fieldConfig"]["defaults"]["custom"] =
            json!({"fillOpacity": 80, "lineWidth": 1, "axisPlacement": "auto"});
        panel.value["options"] = json!({
            "xField": x, "orientation": "vertical", "barWidth": 0.9, "groupWidth": 0.8, "stacking": "normal",
            "showValue": "never", "xTickLabelRotation": 0, "xTickLabelSpacing": 0, "fullHighlight": false,
            "barRadius": 0.0,
            "legend": {"displayMode": "list", "placement": "bottom", "calcs": [], "showLegend": true},
            "tooltip": {"mode": "multi", "sort": "desc"},
        });
        panel
    }

    /// Lines over a number instead of the time: `x` is the column.
    pub fn trend(id: u32, title: &str, description: &str, size: (u32, u32), x: &str) -> Self {
        let mut panel = Self::series(id, title, description, size);
        panel.value["type"] = json!("trend");
        panel.value["options"]["xField"] = json!(x);
        panel
    }

    /// Circles and lines between them; its queries are called `nodes` and `edges`.
    pub fn graph(
        id: u32,
        title: &str,
        description: &str,
        size: (u32, u32),
        nodes: &str,
        edges: &str,
    ) -> Self {
        let mut panel = Self::new(id, "nodeGraph", title, description, size);
        panel.value["options"] = json!({"zoomMode": "cooperative", "nodes": {}, "edges": {}});
        for (name, sql) in [("nodes", nodes), ("edges", edges)] {
            panel = panel.target(sql_target(name, "table", sql));
        }
        panel
    }

    /// Columns of the circles that are parts of their rings, and the colours of these. They and both values of a circle are
    /// the legend, under the names that `names` or the part after `arc__` gives them.
    pub fn arcs(mut self, arcs: &[(String, String)], names: &[(&str, &str)]) -> Self {
        self.value["options"]["nodes"]["arcs"] =
            arcs.iter().map(|(field, colour)| json!({"field": field, "color": colour})).collect();
        let of_arcs = arcs.iter().map(|(field, _)| (field.as_str(), field.trim_start_matches("arc__")));
        let renamed: serde_json::Map<String, Value> = names
            .iter()
            .copied()
            .chain(of_arcs)
            .map(|(field, name)| (field.to_owned(), json!(name)))
            .collect();
        self.transform("organize", json!({"excludeByName": {}, "indexByName": {}, "renameByName": renamed}))
    }

    /// Rows as they are.
    pub fn rows(self, sql: &str) -> Self {
        let letter = self.letter();
        self.target(sql_target(&letter, "table", sql))
    }

    /// `time`, a `metric` that names the series, numbers. Of steps of time only whole ones are shown: in the first and in the
    /// newest one, readings are still missing.
    pub fn over_time(self, sql: &str) -> Self {
        let letter = self.letter();
        self.target(sql_target(&letter, "time_series", &whole_steps(sql)))
    }

    /// Series of Prometheus.
    pub fn promql(mut self, expression: &str, legend: &str) -> Self {
        self.value["datasource"] = source(PROMQL);
        let letter = self.letter();
        self.target(json!({
            "refId": letter, "datasource": source(PROMQL), "editorMode": "code", "expr": expression,
            "legendFormat": legend, "range": true, "instant": false,
        }))
    }

    fn letter(&self) -> String {
        let count = self.value["targets"].as_array().map_or(0, Vec::len);
        ["A", "B", "C", "D", "E", "F", "G", "H"]
            .get(count)
            .map_or_else(|| format!("Q{count}"), |l| (*l).to_owned())
    }

    fn target(mut self, target: Value) -> Self {
        push(&mut self.value["targets"], target);
        self
    }

    /// A transformation of the answer.
    pub fn transform(mut self, id: &str, options: Value) -> Self {
        push(&mut self.value["transformations"], json!({"id": id, "options": options}));
        self
    }

    /// The unit of all fields without one of their own.
    pub fn unit(mut self, unit: &str) -> Self {
        self.value["fieldConfig"]["defaults"]["unit"] = json!(unit);
        if unit == SHARE {
            self.value["fieldConfig"]["defaults"]["decimals"] = json!(1);
        }
        self
    }

    /// Shares of a speed or of time, which can't be above 1: what is above is marked.
    pub fn share(mut self) -> Self {
        self.value["fieldConfig"]["defaults"]["mappings"] = over_full();
        self.unit(SHARE)
    }

    /// Colours of all fields.
    pub fn scale(mut self, scale: &Scale) -> Self {
        let defaults = &mut self.value["fieldConfig"]["defaults"];
        defaults["color"] = json!({"mode": "thresholds"});
        defaults["thresholds"] = thresholds(scale);
        self
    }

    /// Lines at the thresholds of a scale; the series keep their colours.
    pub fn marks(mut self, scale: &Scale) -> Self {
        self.value["fieldConfig"]["defaults"]["thresholds"] = thresholds(scale);
        self.value["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"] = json!({"mode": "dashed"});
        self
    }

    /// The smallest step, for example `1m`.
    pub fn step(mut self, step: &str) -> Self {
        self.value["interval"] = json!(step);
        self
    }

    /// The most points.
    pub fn points(mut self, points: u32) -> Self {
        self.value["maxDataPoints"] = json!(points);
        self
    }

    /// A link of the panel.
    pub fn link(mut self, link: impl Into<Option<Link>>) -> Self {
        if let Some(link) = link.into() {
            push(&mut self.value["links"], link.into_value());
        }
        self
    }

    /// How the column or series of this name is shown.
    pub fn field(self, name: &str, shows: &[FieldDisplay<'_>]) -> Self {
        self.matching("byName", name, shows)
    }

    /// How the columns or series are shown whose names match a pattern.
    pub fn fields_like(self, pattern: &str, shows: &[FieldDisplay<'_>]) -> Self {
        self.matching("byRegexp", pattern, shows)
    }

    fn matching(mut self, by: &str, what: &str, shows: &[FieldDisplay<'_>]) -> Self {
        let properties: Vec<Value> = shows.iter().flat_map(properties).collect();
        let entry = json!({"matcher": {"id": by, "options": what}, "properties": properties});
        push(&mut self.value["fieldConfig"]["overrides"], entry);
        self
    }

    /// The panel at a place of the grid.
    pub fn at(mut self, x: u32, y: u32) -> Value {
        self.value["gridPos"] = json!({"x": x, "y": y, "w": self.size.0, "h": self.size.1});
        self.value
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(list) => list.push(item),
        other => *other = json!([item]),
    }
}

fn sql_target(name: &str, format: &str, sql: &str) -> Value {
    json!({
        "refId": name, "datasource": source(SQL), "editorMode": "code", "format": format, "rawQuery": true,
        "rawSql": sql.trim(),
    })
}

/// The mark of a share above 1: a counter can't pass its link's speed, so the readings or the speed are wrong. Grafana takes
/// an absent upper end for 0.
fn over_full() -> Value {
    json!([{"type": "range", "options": {
        "from": OVER_FULL, "to": f64::from(u32::MAX), "result": {"text": OVER_FULL_TEXT, "color": OVER_FULL_COLOUR, "index": 0},
    }}])
}

fn thresholds(scale: &Scale) -> Value {
    let step = |(at, (from, colour)): (usize, &(f64, String))| {
        // Grafana's first step has no lower end.
        json!({"color": colour, "value": if at == 0 { Value::Null } else { json!(from) }})
    };
    let steps: Vec<Value> = scale.steps().iter().enumerate().map(step).collect();
    json!({"mode": "absolute", "steps": steps})
}

fn properties(show: &FieldDisplay<'_>) -> Vec<Value> {
    let one = |id: &str, value: Value| json!({"id": id, "value": value});
    let of_scale = |scale: &Scale, cell: Value| {
        vec![
            one("custom.cellOptions", cell),
            one("color", json!({"mode": "thresholds"})),
            one("thresholds", thresholds(scale)),
        ]
    };
    match show {
        FieldDisplay::Unit(unit) => vec![one("unit", json!(unit))],
        FieldDisplay::Bar(scale) => {
            let mut all = vec![
                one("unit", json!(SHARE)),
                one("min", json!(0)),
                one("max", json!(1)),
                one("decimals", json!(1)),
                one("mappings", over_full()),
            ];
            all.extend(of_scale(
                scale,
                json!({"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}),
            ));
            all
        }
        FieldDisplay::Coloured(scale) => of_scale(scale, json!({"type": "color-text"})),
        FieldDisplay::Share => {
            vec![one("unit", json!(SHARE)), one("decimals", json!(1)), one("mappings", over_full())]
        }
        FieldDisplay::Plain => vec![one("custom.cellOptions", json!({"type": "auto"}))],
        FieldDisplay::Links(links) => {
            vec![one("links", links.iter().cloned().map(Link::into_value).collect())]
        }
        FieldDisplay::Width(width) => vec![one("custom.width", json!(width))],
        FieldDisplay::Hidden => vec![one("custom.hidden", json!(true))],
        FieldDisplay::Colour(colour) => vec![one("color", json!({"mode": "fixed", "fixedColor": colour}))],
    }
}
