//! Which series a family has: labels from the inventory.

use super::family::{Family, Place, families, self_metric_labels};
use super::series::{Equal, Labels, Parameter, SampleLocation, Series, request, seconds, texts};
use super::{Range, infos};
use std::fmt::Write;
use throughline_store::Error;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

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
            let known = |row: &Row| SampleLocation::Rows { id: row.get(0), element: row.get(1) };
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

async fn self_metrics(
    client: &Client,
    name: &str,
    columns: &[(&'static str, &'static str)],
    range: Range,
    equal: &[Equal<'_>],
) -> Result<Vec<Series>, Error> {
    let (from, to) = (seconds(range.from), seconds(range.to));
    let mut labels = vec![("instance", "internal.instance_name(instance)")];
    labels.extend(columns);
    let columns: Vec<&str> = labels.iter().map(|(_, column)| *column).collect();
    let mut sql = format!(
        "SELECT 0, 0, {}, instance, source, label FROM (\
           SELECT k.source, k.label, k.instance FROM internal.self_stat_series k WHERE k.name = $1 AND EXISTS (\
             SELECT FROM internal.self_stat_rows r LEFT JOIN internal.self_stat_names l ON l.id = r.names_id \
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
        known: SampleLocation::SelfMetric {
            instance: row.get(own),
            source: row.get(own + 1),
            label: row.get(own + 2),
        },
    };
    Ok(rows.iter().map(series).collect())
}
