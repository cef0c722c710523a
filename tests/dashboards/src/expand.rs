//! Macros and variables in queries, expanded as Grafana does: built-in variables and template variables in the
//! browser, then the PostgreSQL plugin's macros on the server. Anything else after a `$` is an error.
//!
//! Source: Grafana's documentation of global variables, variable formats and PostgreSQL macros (version 11).

use std::collections::BTreeMap;
use std::time::Duration;
use throughline_sample::to_rfc3339 as rfc3339;

/// A time range in UTC nanoseconds and the step that Grafana would choose for it.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Beginning.
    pub from: i64,
    /// End.
    pub to: i64,
    /// `$__interval`.
    pub step: Duration,
    /// Scrape interval of Prometheus; `$__rate_interval` is at least four of them.
    pub scrape: Duration,
}

/// Grafana's default number of points.
const DEFAULT_POINTS: u32 = 1000;

impl Window {
    /// A range with a step of 15 seconds.
    #[must_use]
    pub fn new(from: i64, to: i64) -> Self {
        Self { from, to, step: Duration::from_secs(15), scrape: Duration::from_secs(15) }
    }

    /// The same range with the step of a panel: the range over its points, at least its interval.
    #[must_use]
    pub fn for_panel(mut self, interval: Option<&str>, points: Option<u32>) -> Self {
        let points = points.unwrap_or(DEFAULT_POINTS).max(1);
        let least = interval.and_then(duration).unwrap_or(Duration::from_secs(1));
        self.step = (self.range() / points).max(least);
        self
    }

    /// The same length of time, ending earlier by this many seconds.
    #[must_use]
    pub fn earlier(mut self, seconds: i64) -> Self {
        self.from -= seconds * 1_000_000_000;
        self.to -= seconds * 1_000_000_000;
        self
    }

    /// Its length.
    #[must_use]
    pub fn range(&self) -> Duration {
        Duration::from_nanos(self.to.abs_diff(self.from))
    }

    fn rate_interval(&self) -> Duration {
        (self.step + self.scrape).max(self.scrape * 4)
    }
}

/// The language of a query: default formats and macros differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// PostgreSQL.
    Sql,
    /// Prometheus.
    PromQl,
}

/// A `$` that Grafana would leave alone or refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownDollar(pub String);

/// Values of template variables and the time range of one evaluation.
#[derive(Clone, Debug)]
pub struct Expander {
    /// Time range.
    pub window: Window,
    /// Chosen values by variable.
    pub values: BTreeMap<String, Vec<String>>,
    /// Variables that can have more than one value: quoted or made a pattern without a format.
    pub multiple: Vec<String>,
}

impl Expander {
    /// Without template variables.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self { window, values: BTreeMap::new(), multiple: Vec::new() }
    }

    /// The query as the data source gets it.
    ///
    /// # Errors
    /// The first unknown `$`.
    pub fn expand(&self, query: &str, language: Language) -> Result<String, UnknownDollar> {
        let mut out = String::with_capacity(query.len() * 2);
        let mut rest = query;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(inner) = rest.strip_prefix('{') {
                let Some((name, after)) = inner.split_once('}') else {
                    return Err(UnknownDollar(String::from("'${' without '}'")));
                };
                let (name, format) = name.split_once(':').map_or((name, None), |(name, f)| (name, Some(f)));
                out.push_str(&self.variable(name, format, language)?);
                rest = after;
                continue;
            }
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            rest = after;
            if language == Language::PromQl && name.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() {
                // A group of label_replace: Grafana leaves it alone.
                out.push('$');
                out.push_str(name);
            } else if let (Language::Sql, Some(inner)) = (language, rest.strip_prefix('(')) {
                let Some((arguments, after)) = inner.split_once(')') else {
                    return Err(UnknownDollar(format!("'${name}(' without ')'")));
                };
                if arguments.contains('(') {
                    return Err(UnknownDollar(format!(
                        "'${name}': Grafana ends a macro's arguments at the first ')'"
                    )));
                }
                out.push_str(&self.sql_macro(name, &self.expand(arguments, language)?)?);
                rest = after;
            } else {
                out.push_str(&self.variable(name, None, language)?);
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    fn variable(
        &self,
        name: &str,
        format: Option<&str>,
        language: Language,
    ) -> Result<String, UnknownDollar> {
        let window = &self.window;
        let built_in = match name {
            "__interval" => Some(in_units(window.step)),
            "__interval_ms" => Some(window.step.as_millis().to_string()),
            "__range" => Some(format!("{}s", window.range().as_secs())),
            "__range_s" => Some(window.range().as_secs().to_string()),
            "__range_ms" => Some(window.range().as_millis().to_string()),
            "__rate_interval" if language == Language::PromQl => Some(in_units(window.rate_interval())),
            "__from" => Some((window.from / 1_000_000).to_string()),
            "__to" => Some((window.to / 1_000_000).to_string()),
            _ => None,
        };
        if let Some(text) = built_in {
            return Ok(text);
        }
        let Some(values) = self.values.get(name) else {
            return Err(UnknownDollar(format!(
                "unknown '${name}': no macro and no variable of the dashboard"
            )));
        };
        let multiple = self.multiple.iter().any(|multiple| multiple == name);
        let format = match (format, language, multiple) {
            (Some(format), _, _) => format,
            (None, Language::Sql, true) => "singlequote",
            (None, Language::PromQl, true) => "promregex",
            (None, _, false) => "raw",
        };
        formatted(values, format)
            .ok_or_else(|| UnknownDollar(format!("unknown format '{format}' of '${name}'")))
    }

    fn sql_macro(&self, name: &str, arguments: &str) -> Result<String, UnknownDollar> {
        let parts: Vec<&str> = arguments.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        let (from, to) = (rfc3339(self.window.from), rfc3339(self.window.to));
        let (from_s, to_s) = (self.window.from / 1_000_000_000, self.window.to / 1_000_000_000);
        let column =
            || parts.first().copied().ok_or_else(|| UnknownDollar(format!("'${name}' needs a column")));
        let group = |alias: &str| {
            let seconds = parts.get(1).and_then(|text| duration(text.trim_matches('\'')));
            let seconds =
                seconds.ok_or_else(|| UnknownDollar(format!("'${name}' needs a column and an interval")))?;
            Ok(format!("time_bucket('{:.3}s',{}){alias}", seconds.as_secs_f64(), column()?))
        };
        match name {
            "__time" => Ok(format!("{} AS \"time\"", column()?)),
            "__timeEpoch" => Ok(format!("extract(epoch from {}) as \"time\"", column()?)),
            "__timeFilter" => Ok(format!("{} BETWEEN '{from}' AND '{to}'", column()?)),
            "__timeFrom" => Ok(format!("'{from}'")),
            "__timeTo" => Ok(format!("'{to}'")),
            "__timeGroup" => group(""),
            "__timeGroupAlias" => group(" AS \"time\""),
            "__unixEpochFilter" => {
                let column = column()?;
                Ok(format!("{column} >= {from_s} AND {column} <= {to_s}"))
            }
            "__unixEpochFrom" => Ok(from_s.to_string()),
            "__unixEpochTo" => Ok(to_s.to_string()),
            "__unixEpochNanoFilter" => {
                let column = column()?;
                Ok(format!("{column} >= {} AND {column} <= {}", self.window.from, self.window.to))
            }
            _ => Err(UnknownDollar(format!("unknown macro '${name}()'"))),
        }
    }
}

/// Values in one of Grafana's formats; `None` for a format that does not exist.
fn formatted(values: &[String], format: &str) -> Option<String> {
    let quoted = || values.iter().map(|value| format!("'{}'", value.replace('\'', "''"))).collect::<Vec<_>>();
    let pattern = |escape: fn(&str) -> String| {
        // What an "all" that stands for every value is written as, and not a value itself.
        let one = |value: &String| if value == ".*" { value.clone() } else { escape(value) };
        let escaped: Vec<String> = values.iter().map(one).collect();
        if let [one] = escaped.as_slice() { one.clone() } else { format!("({})", escaped.join("|")) }
    };
    match format {
        "sqlstring" | "singlequote" => Some(quoted().join(",")),
        "csv" | "raw" => Some(values.join(",")),
        "pipe" => Some(values.join("|")),
        "regex" => Some(pattern(|value| escaped(value, "\\"))),
        // Inside a PromQL string a backslash is written twice.
        "promregex" => Some(pattern(|value| escaped(value, "\\\\"))),
        _ => None,
    }
}

fn escaped(value: &str, escape: &str) -> String {
    value.chars().fold(String::new(), |mut out, c| {
        if "\\^$*+?.()|[]{}/".contains(c) {
            out.push_str(escape);
        }
        out.push(c);
        out
    })
}

/// Grafana's notation of a length of time: a whole number and one unit.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let count: u64 = text[..end].parse().ok()?;
    let milliseconds = match &text[end..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    count.checked_mul(milliseconds).map(Duration::from_millis)
}

fn in_units(length: Duration) -> String {
    if length.subsec_millis() == 0 {
        format!("{}s", length.as_secs())
    } else {
        format!("{}ms", length.as_millis())
    }
}

/// Fields that a link takes from the row: `${__data.fields.X}` and `${__data.fields["X"]}`.
#[must_use]
pub fn data_fields(url: &str) -> Vec<String> {
    url.split("${__data.fields")
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(field, _)| field.split_once("]:").map_or(field, |(field, _)| field))
        .map(|field| field.trim_matches(|c| matches!(c, '.' | '[' | ']' | '"')).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expander() -> Expander {
        let window = Window::new(1_790_000_000_000_000_000, 1_790_000_600_000_000_000);
        let mut expander = Expander::new(window.for_panel(Some("10s"), Some(600)));
        expander.values.insert(String::from("gpu"), vec![String::from("GPU-1"), String::from("o'x.y")]);
        expander.values.insert(String::from("job"), vec![String::from("slurm:7")]);
        expander.multiple.push(String::from("gpu"));
        expander
    }

    fn sql(query: &str) -> Result<String, String> {
        expander().expand(query, Language::Sql).map_err(|error| error.0)
    }

    #[test]
    fn sql_macros() {
        assert_eq!(
            sql("$__timeGroupAlias(c.time, $__interval)").unwrap(),
            "time_bucket('10.000s',c.time) AS \"time\""
        );
        assert_eq!(
            sql("WHERE $__timeFilter(time) AND x").unwrap(),
            "WHERE time BETWEEN '2026-09-21T14:13:20.000000Z' AND '2026-09-21T14:23:20.000000Z' AND x"
        );
        assert_eq!(sql("f($__timeFrom(), $__timeTo())").unwrap().matches('\'').count(), 4);
        assert_eq!(sql("/ ($__interval_ms / 1000.0)").unwrap(), "/ (10000 / 1000.0)");
        assert_eq!(sql("$__unixEpochFilter(t)").unwrap(), "t >= 1790000000 AND t <= 1790000600");
        assert_eq!(sql("$__from-${__to}").unwrap(), "1790000000000-1790000600000");
    }

    #[test]
    fn variables_by_format_and_language() {
        assert_eq!(sql("IN (${gpu:sqlstring})").unwrap(), "IN ('GPU-1','o''x.y')");
        assert_eq!(sql("IN ($gpu)").unwrap(), "IN ('GPU-1','o''x.y')");
        assert_eq!(sql("= ${job:sqlstring}").unwrap(), "= 'slurm:7'");
        let promql = |query| expander().expand(query, Language::PromQl);
        assert_eq!(promql("{gpu=~\"$gpu\"}").unwrap(), "{gpu=~\"(GPU-1|o'x\\\\.y)\"}");
        assert_eq!(promql("rate(x[$__rate_interval])").unwrap(), "rate(x[60s])");
        assert_eq!(
            promql("label_replace(a, \"b\", \"$1\", \"c\", \"(.*)\")").unwrap().matches("$1").count(),
            1
        );
    }

    #[test]
    fn an_unknown_dollar_is_an_error() {
        for query in
            ["$node", "${node}", "$__intervall", "$__timeFliter(time)", "$1", "a $ b", "${gpu:lisp}", "${gpu"]
        {
            assert!(sql(query).is_err(), "{query}");
        }
        assert!(sql("$__timeFilter(date(time))").unwrap_err().contains("first ')'"));
        assert!(sql("$__rate_interval").is_err(), "PromQL only");
    }

    #[test]
    fn fields_of_links() {
        assert_eq!(
            data_fields("?a=${__data.fields.UUID}&b=${__data.fields[\"Switch GUID\"]:percentencode}&${x}"),
            ["UUID", "Switch GUID"]
        );
    }
}
