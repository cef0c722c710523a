//! Which series there are: labels from the inventory, and how their rows are found.

use super::family::{Family, Place, families, self_metric_labels};
use super::{Range, infos};
use std::fmt::Write;
use throughline_store::Error;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

/// A label that must have this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Equal<'a> {
    /// Name of the label.
    pub label: &'a str,
    /// Its value; an empty one also means that there is no such label.
    pub value: &'a str,
}

/// Labels of a series, ordered by name.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// When something was valid, in milliseconds; the end is open while it is.
pub(super) type Validity = Vec<(i64, Option<i64>)>;

/// One series of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Labels without the name, ordered by name; none has an empty value.
    pub labels: Vec<(&'static str, String)>,
    pub(super) known: Known,
}

impl Series {
    /// The id of the thing whose rows have it.
    pub(super) fn id(&self) -> Option<i64> {
        match self.known {
            Known::Rows { id, .. } => Some(id),
            _ => None,
        }
    }
}

/// How the samples of a series are found.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    /// Rows with this id, and of arrays this element, from 0.
    Rows { id: i64, element: i32 },
    /// Self-metrics of this instance, source and label.
    SelfMetric { instance: String, source: String, label: String },
    /// 1 while valid.
    Valid(Validity),
}

/// The series of a family that there may be in a range, ordered by labels.
pub(super) async fn find(
    client: &Client,
    family: &Family,
    range: Range,
    equal: &[Equal<'_>],
) -> Result<Vec<Series>, Error> {
    let mut found = match &family.place {
        Place::Column { keys, .. } | Place::Saturated { keys, .. } => {
            let mut sql = format!("SELECT k.id, {}", keys.element);
            keys.labels.iter().for_each(|(_, label)| _ = write!(sql, ", {label}"));
            _ = write!(sql, " {}", keys.from);
            let rows = request(client, &mut sql, keys.labels, equal, &[]).await?;
            let known = |row: &Row| Known::Rows { id: row.get(0), element: row.get(1) };
            rows.iter().map(|row| Series { labels: texts(row, keys.labels), known: known(row) }).collect()
        }
        Place::SelfMetric { metric, name } => {
            self_metrics(client, name, &self_metric_labels(metric), range, equal).await?
        }
        Place::Info(info) => infos::find(client, info, range, equal).await?,
    };
    found.sort_by(|a, b| a.labels.cmp(&b.labels));
    Ok(found)
}

/// Labels of the series of a family whose rows have these ids, with the id and the element of its arrays.
pub(crate) async fn of_ids(
    client: &Client,
    name: &str,
    ids: &[i64],
) -> Result<Vec<((i64, i32), Labels)>, Error> {
    let family = families().iter().find(|family| family.name == name);
    let Some(keys) = family.and_then(Family::keys) else { return Ok(Vec::new()) };
    let mut sql = format!("SELECT k.id, {}", keys.element);
    keys.labels.iter().for_each(|(_, label)| _ = write!(sql, ", {label}"));
    _ = write!(sql, " {} AND k.id = ANY($1)", keys.from);
    let rows = request(client, &mut sql, keys.labels, &[], &[(&ids, Type::INT8_ARRAY)]).await?;
    Ok(rows.iter().map(|row| ((row.get(0), row.get(1)), texts(row, keys.labels))).collect())
}

/// A parameter of a query and its type.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Runs a query that ends within its WHERE, with the labels that must be equal. The first parameters are `given`. Types are
/// reported, so that there is one round trip.
pub(super) async fn request(
    client: &Client,
    sql: &mut String,
    labels: &[(&str, &str)],
    equal: &[Equal<'_>],
    given: &[Parameter<'_>],
) -> Result<Vec<Row>, Error> {
    let mut parameters = given.to_vec();
    for Equal { label, value } in equal {
        match labels.iter().find(|(name, _)| name == label) {
            Some((_, expression)) => {
                parameters.push((value, Type::TEXT));
                _ = write!(sql, " AND coalesce({expression}, '') = ${}", parameters.len());
            }
            // A label that no series of the family has is as good as empty.
            None if value.is_empty() => {}
            None => return Ok(Vec::new()),
        }
    }
    client.query_typed(sql.as_str(), &parameters).await.map_err(Error::sql("finding series"))
}

/// Labels from the third column on; an empty one is no label.
pub(super) fn texts(row: &Row, labels: &[(&'static str, &str)]) -> Labels {
    let text = |place: usize| row.get::<_, Option<String>>(place + 2).unwrap_or_default();
    let all = labels.iter().enumerate().map(|(place, (name, _))| (*name, text(place)));
    all.filter(|(_, value)| !value.is_empty()).collect()
}

async fn self_metrics(
    client: &Client,
    name: &str,
    columns: &[(&'static str, &'static str)],
    range: Range,
    equal: &[Equal<'_>],
) -> Result<Vec<Series>, Error> {
    let (from, to) = (seconds(range.from), seconds(range.to));
    let mut labels = vec![("instance", "instance")];
    labels.extend(columns);
    let columns: Vec<&str> = labels.iter().map(|(_, column)| *column).collect();
    let mut sql = format!(
        "SELECT 0, 0, {}, instance, source, label FROM (\
           SELECT k.source, k.label, k.instance FROM self_stat_series k WHERE k.name = $1 AND EXISTS (\
             SELECT FROM self_stat_rows r LEFT JOIN self_stat_names l ON l.id = r.names_id \
             CROSS JOIN LATERAL unnest(coalesce(l.sources, r.sources), coalesce(l.labels, r.labels), \
               coalesce(l.names, r.names)) v (source, label, name) \
             WHERE r.instance = k.instance AND r.time >= to_timestamp($2) AND r.time <= to_timestamp($3) \
             AND v.source = k.source AND v.label = k.label AND v.name = k.name)) p WHERE true",
        columns.join(", ")
    );
    let own = columns.len() + 2;
    let given: [Parameter<'_>; 3] = [(&name, Type::TEXT), (&from, Type::FLOAT8), (&to, Type::FLOAT8)];
    let rows = request(client, &mut sql, &labels, equal, &given).await?;
    let series = |row: &Row| Series {
        labels: texts(row, &labels),
        known: Known::SelfMetric {
            instance: row.get(own),
            source: row.get(own + 1),
            label: row.get(own + 2),
        },
    };
    Ok(rows.iter().map(series).collect())
}

/// Seconds since 1970, for `to_timestamp`; exact to the microsecond until 2255.
pub(super) fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1e3
}
