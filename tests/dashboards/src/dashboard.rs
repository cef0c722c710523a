//! The parts of Grafana's dashboard model that the check looks at. Everything else stays as JSON in `rest`.

use crate::Error;
use serde::Deserialize;
use serde_json::Value;

/// One dashboard file.
#[derive(Clone, Debug, Deserialize)]
pub struct Dashboard {
    /// Stable identifier, part of every link.
    #[serde(default)]
    pub uid: String,
    /// Shown title.
    #[serde(default)]
    pub title: String,
    /// Version of Grafana's model; 39 is that of Grafana 11.
    #[serde(default, rename = "schemaVersion")]
    pub schema_version: u64,
    /// Variables.
    pub templating: Templating,
    /// Panels and rows in order.
    pub panels: Vec<Panel>,
    /// Links at the top.
    #[serde(default)]
    pub links: Vec<Value>,
    /// Marks in every chart.
    #[serde(default)]
    pub annotations: Annotations,
    /// A stored dashboard's number; must not be in a provisioned file.
    #[serde(default)]
    pub id: Option<i64>,
}

/// List of annotations.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Annotations {
    /// Queries, and Grafana's own list.
    pub list: Vec<Annotation>,
}

/// One kind of marks.
#[derive(Clone, Debug, Deserialize)]
pub struct Annotation {
    /// Shown name.
    #[serde(default)]
    pub name: String,
    /// 1 for Grafana's own, which has no query.
    #[serde(default, rename = "builtIn")]
    pub built_in: u32,
    /// Where it runs.
    #[serde(default)]
    pub datasource: Option<DataSource>,
    /// The query.
    #[serde(default)]
    pub target: Option<Target>,
}

/// List of variables.
#[derive(Clone, Debug, Deserialize)]
pub struct Templating {
    /// In order: a variable's query may use those before it.
    pub list: Vec<Variable>,
}

/// One variable.
#[derive(Clone, Debug, Deserialize)]
pub struct Variable {
    /// Name, used as `${name}`.
    pub name: String,
    /// `datasource`, `query`, `custom`, `interval`, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// Shown label.
    #[serde(default)]
    pub label: String,
    /// The query, or the plugin of a data-source variable.
    #[serde(default)]
    pub query: Value,
    /// The query as text, shown in the list of variables.
    #[serde(default)]
    pub definition: String,
    /// Data source of a query.
    #[serde(default)]
    pub datasource: Option<DataSource>,
    /// More than one value can be chosen.
    #[serde(default)]
    pub multi: bool,
    /// The choice at first: `{"text", "value"}`, or empty for the first value.
    #[serde(default)]
    pub current: Value,
    /// Values of a menu.
    #[serde(default)]
    pub options: Vec<Value>,
    /// There is an entry for all values.
    #[serde(default, rename = "includeAll")]
    pub include_all: bool,
}

/// Reference to a data source.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct DataSource {
    /// Plugin.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Identifier, or `${variable}`.
    #[serde(default)]
    pub uid: String,
}

/// A panel or a row.
#[derive(Clone, Debug, Deserialize)]
pub struct Panel {
    /// Unique within the dashboard.
    #[serde(default)]
    pub id: u64,
    /// Plugin, or `row`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Shown title.
    #[serde(default)]
    pub title: String,
    /// Shown behind the title.
    #[serde(default)]
    pub description: String,
    /// Where queries without one of their own run.
    #[serde(default)]
    pub datasource: Option<DataSource>,
    /// Place on the grid.
    #[serde(default, rename = "gridPos")]
    pub place: GridPlace,
    /// Smallest step of `$__interval`, e.g. `10s`.
    #[serde(default)]
    pub interval: Option<String>,
    /// Most points of a series.
    #[serde(default, rename = "maxDataPoints")]
    pub max_data_points: Option<u32>,
    /// Queries.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// Units, thresholds, overrides.
    #[serde(default, rename = "fieldConfig")]
    pub field_config: FieldConfig,
    /// Links of the panel's title.
    #[serde(default)]
    pub links: Vec<Value>,
    /// Options of the kind of panel.
    #[serde(default)]
    pub options: Value,
    /// What Grafana does with the answer before it draws.
    #[serde(default)]
    pub transformations: Vec<Value>,
    /// Panels inside a collapsed row.
    #[serde(default)]
    pub panels: Vec<Panel>,
}

/// Place on a grid of 24 columns.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct GridPlace {
    /// Height.
    pub h: u32,
    /// Width.
    pub w: u32,
    /// Left edge.
    pub x: u32,
    /// Upper edge.
    pub y: u32,
}

impl GridPlace {
    /// Whether two places share a cell.
    #[must_use]
    pub fn overlaps(&self, other: &GridPlace) -> bool {
        self.x < other.x + other.w
            && other.x < self.x + self.w
            && self.y < other.y + other.h
            && other.y < self.y + self.h
    }
}

/// How fields are shown.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct FieldConfig {
    /// For all fields; `unit`, `links`, ...
    #[serde(default)]
    pub defaults: Value,
    /// For single fields.
    #[serde(default)]
    pub overrides: Vec<Override>,
}

/// How one field is shown.
#[derive(Clone, Debug, Deserialize)]
pub struct Override {
    /// `{"id": "byName", "options": "Column"}`.
    pub matcher: Value,
    /// Properties.
    #[serde(default)]
    pub properties: Vec<Value>,
}

/// One query of a panel.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// Letter, unique within the panel.
    #[serde(default, rename = "refId")]
    pub ref_id: String,
    /// Where it runs.
    #[serde(default)]
    pub datasource: Option<DataSource>,
    /// SQL.
    #[serde(default, rename = "rawSql")]
    pub sql: Option<String>,
    /// The SQL is the query, not the builder's form.
    #[serde(default, rename = "rawQuery")]
    pub raw_query: bool,
    /// `time_series` or `table`.
    #[serde(default)]
    pub format: Option<String>,
    /// PromQL.
    #[serde(default)]
    pub expr: Option<String>,
    /// Name of each series, e.g. `{{guid}}`.
    #[serde(default, rename = "legendFormat")]
    pub legend: Option<String>,
}

impl Dashboard {
    /// Reads a dashboard.
    ///
    /// # Errors
    /// [`Error::Form`] with line and column.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        serde_json::from_str(text)
            .map_err(|cause| Error::Form { path: name.to_owned(), cause: cause.to_string() })
    }

    /// All panels with queries: no rows, but the panels inside collapsed ones.
    pub fn query_panels(&self) -> impl Iterator<Item = &Panel> {
        self.panels
            .iter()
            .flat_map(|panel| std::iter::once(panel).chain(&panel.panels))
            .filter(|panel| panel.kind != "row")
    }

    /// The variable of this name.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.templating.list.iter().find(|variable| variable.name == name)
    }
}

impl Panel {
    /// The unit of all fields without one of their own.
    #[must_use]
    pub fn unit(&self) -> &str {
        self.field_config.defaults.get("unit").and_then(Value::as_str).unwrap_or_default()
    }

    /// All links: of the title, of fields and of single fields.
    #[must_use]
    pub fn all_links(&self) -> Vec<&Value> {
        let of_fields = self.field_config.defaults.get("links").and_then(Value::as_array);
        let properties = self.field_config.overrides.iter().flat_map(|entry| &entry.properties);
        let of_single = properties
            .filter(|property| property.get("id").and_then(Value::as_str) == Some("links"))
            .filter_map(|property| property.get("value").and_then(Value::as_array));
        self.links.iter().chain(of_fields.into_iter().flatten()).chain(of_single.flatten()).collect()
    }

    /// Patterns of overrides; each must match a column. Only of tables, where series have no names of their own.
    #[must_use]
    pub fn patterns(&self) -> Vec<&str> {
        let entries = self.field_config.overrides.iter().filter(|_| self.kind == "table");
        entries
            .filter(|entry| entry.matcher.get("id").and_then(Value::as_str) == Some("byRegexp"))
            .filter_map(|entry| entry.matcher.get("options").and_then(Value::as_str))
            .collect()
    }

    /// Columns that overrides, transformations and links name, and that an answer must therefore have.
    #[must_use]
    pub fn named_columns(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut made_here = Vec::new();
        for transformation in &self.transformations {
            let option =
                |name: &str| transformation.pointer(&format!("/options/{name}")).and_then(Value::as_str);
            if transformation.get("id").and_then(Value::as_str) == Some("groupingToMatrix") {
                let fields =
                    ["rowField", "columnField", "valueField"].map(|key| option(key).unwrap_or_default());
                made_here.push(format!("{}\\{}", fields[0], fields[1]));
                names.extend(fields.map(str::to_owned));
            }
        }
        for entry in &self.field_config.overrides {
            if entry.matcher.get("id").and_then(Value::as_str) == Some("byName") {
                let name = entry.matcher.get("options").and_then(Value::as_str).unwrap_or_default();
                names.push(name.to_owned());
            }
        }
        for link in self.all_links() {
            let url = link.get("url").and_then(Value::as_str).unwrap_or_default();
            names.extend(crate::expand::data_fields(url));
        }
        names.extend(self.options.get("xField").and_then(Value::as_str).map(str::to_owned));
        names.retain(|name| !made_here.contains(name));
        names.sort();
        names.dedup();
        names
    }
}
