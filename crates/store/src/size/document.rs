//! The registry as a list in docs/TABLES.md.

use super::predict::predict_size;
use crate::retention::{Retention, RetentionWay};
use crate::tables::{Chunks, PlainTable, RetentionClass, Site, StoredTable, TABLES, plain_tables};

/// The site of the figures: a hundred nodes with four GPUs each, a fabric of 200 cables.
const SITE: Site = Site {
    nodes: 100,
    ranks_per_node: 32,
    ports: 400,
    host_ports: 100,
    gpus: 400,
    links_per_gpu: 6,
    port_seconds: 5.0,
    node_seconds: 1.0,
};

/// Two tables in Markdown: hypertables, and plain ones.
#[must_use]
pub fn tables_document() -> String {
    let chunks = TABLES.iter().filter_map(|table| Some(hypertable(table, table.chunks()?)));
    let stays = plain_tables().map(|(table, entry)| plain(table, entry));
    let year: f64 = plain_tables().map(|(_, entry)| (entry.bytes_a_year)(&SITE)).sum();
    let day = predict_size(&SITE, &Retention::default(), RetentionWay::Upkeep).bytes_per_day();
    format!(
        "Bytes of rows and years are those of a busy site of {} nodes with {} ranks and {} GPUs each and {} ports of switches, at \
         default intervals: {:.1} GB a day of hypertables before anything is thinned, packed or removed, and {:.1} GB a year of all \
         other tables, where each node runs four jobs a day.\n\n\
         | hypertable | key | filled from | a chunk | retained as | a row | old rows | as columns |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n{}\n\
         | other table | key | filled from | rows stay | a year |\n| --- | --- | --- | --- | --- |\n{}",
        SITE.nodes,
        SITE.ranks_per_node,
        SITE.gpus / SITE.nodes,
        SITE.ports,
        day / 1e9,
        year / 1e9,
        chunks.collect::<String>(),
        stays.collect::<String>()
    )
}

fn hypertable(table: &StoredTable, chunks: &Chunks) -> String {
    let kept = match chunks.keep {
        RetentionClass::Readings => "`default_seconds`".to_owned(),
        RetentionClass::Minutes => "`minutes_seconds`".to_owned(),
        RetentionClass::Events => "`events_seconds`".to_owned(),
        RetentionClass::Windows => "`rows_seconds`".to_owned(),
        RetentionClass::Detail => "`detail_seconds`".to_owned(),
        RetentionClass::With(other) => format!("`{other}`"),
    };
    let row = match (chunks.row_bytes)(&SITE) {
        0.0 => String::new(),
        bytes => format!("{bytes:.0} B"),
    };
    let old = chunks.thinned.map_or(String::new(), |thinned| format!("one in {} s", thinned.step_seconds));
    let columns = chunks.columns.map_or(String::new(), |columns| {
        let row = match (columns.row_bytes)(&SITE) {
            0.0 => String::new(),
            bytes => format!(", {bytes:.0} B"),
        };
        format!("by {}; {}{row}", columns.segment_by, columns.order_by)
    });
    let (name, key, records) = names(table);
    format!("| {name} | {key} | {records} | {} h | {kept} | {row} | {old} | {columns} |\n", chunks.hours)
}

fn plain(table: &StoredTable, entry: &PlainTable) -> String {
    let year = match (entry.bytes_a_year)(&SITE) {
        0.0 => String::new(),
        bytes => format!("{:.1} MB", bytes / 1e6),
    };
    let (name, key, records) = names(table);
    format!("| {name} | {key} | {records} | {} | {year} |\n", entry.keep.text())
}

fn names(table: &StoredTable) -> (String, String, String) {
    let records =
        if table.records.is_empty() { "`throughline serve`".to_owned() } else { list(table.records) };
    (format!("`{}`", table.name), table.key.join(", "), records)
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
