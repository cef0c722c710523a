//! Ways from one dashboard to the next, with time range and data sources, and to our own pages.

use crate::site::Site;
use serde_json::{Value, json};

/// Identifiers of the dashboards; stable, because alerts and bookmarks have them.
pub const OVERVIEW: &str = "throughline";
pub const FABRIC: &str = "throughline-fabric";
pub const SWITCH: &str = "throughline-switch";
pub const LINK: &str = "throughline-link";
pub const NODE: &str = "throughline-node";
pub const JOBS: &str = "throughline-jobs";
pub const JOB: &str = "throughline-job";
pub const COMPARE: &str = "throughline-compare";
pub const HEALTH: &str = "throughline-health";

/// A link as a panel, a field or a dashboard has it.
#[derive(Clone, Debug)]
pub struct Link(Value);

impl Link {
    /// As JSON.
    pub fn into_value(self) -> Value {
        self.0
    }
}

/// To a dashboard; each variable gets a text that may have fields of the row (`${__data.fields[...]}`).
pub fn to(uid: &str, title: &str, variables: &[(&str, &str)]) -> Link {
    let set: String = variables.iter().map(|(name, value)| format!("var-{name}={value}&")).collect();
    // Both data sources go along, so that a site with several databases stays in one of them.
    let url =
        format!("/d/{uid}?{set}${{database:queryparam}}&${{prometheus:queryparam}}&${{__url_time_range}}");
    Link(json!({"title": title, "url": url, "targetBlank": false}))
}

/// To the job of a row, at the job's own time: the row has it in columns `from` and `to`, see [`crate::sql::job_range`].
pub fn to_job_of_row(column: &str) -> Link {
    let (job, from, to) = (field(column), field("from"), field("to"));
    let url = format!(
        "/d/{JOB}?var-job={job}&${{database:queryparam}}&${{prometheus:queryparam}}&from={from}&to={to}"
    );
    Link(json!({"title": "This job, at its own time", "url": url, "targetBlank": false}))
}

/// To the list of alert rules.
pub fn to_alerts() -> Link {
    let title = "Alert rules";
    Link(json!({"title": title, "url": "/alerting/list?search=throughline", "targetBlank": false}))
}

/// To one of our own pages, if the site has their address.
pub fn to_page(site: &Site, title: &str, path: &str) -> Option<Link> {
    let url = format!("{}{path}", site.pages_url);
    (!site.pages_url.is_empty()).then(|| Link(json!({"title": title, "url": url, "targetBlank": true})))
}

/// A column of the row as part of a URL.
pub fn field(name: &str) -> String {
    format!("${{__data.fields[\"{name}\"]:percentencode}}")
}

/// The switch, link or adapter of a row that has the sending end in `GUID` and `Port`.
pub fn of_row_to_link() -> Link {
    to(LINK, "This link", &[("guid", &field("GUID")), ("port", &field("Port"))])
}
