//! Series: labels, how their rows are found, and the query for those of some labels.

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
    pub(super) known: SampleLocation,
}

impl Series {
    /// The id of the thing whose rows have it.
    pub(super) fn id(&self) -> Option<i64> {
        match self.known {
            SampleLocation::Rows { id, .. } => Some(id),
            _ => None,
        }
    }

    /// The name of the daemon that sent them, as its rules have it.
    pub(super) fn sender(&self) -> Option<&str> {
        self.labels.iter().find(|(name, _)| *name == "instance").map(|(_, value)| value.as_str())
    }
}

/// How the samples of a series are found.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SampleLocation {
    /// Rows with this id, and of arrays this element, from 0.
    Rows { id: i64, element: i32 },
    /// Self-metrics of this instance, source and label.
    SelfMetric { instance: String, source: String, label: String },
    /// 1 while valid.
    Valid(Validity),
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

/// Seconds since 1970, for `to_timestamp`; exact to the microsecond until 2255.
pub(super) fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1e3
}
