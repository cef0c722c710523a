//! Entries agree with each other and with the records of a batch. With the schema: `tests/all/tables.rs`.

use std::collections::BTreeSet;

use super::site::by_links;
use super::*;
use throughline_sample::record_kinds;

#[test]
fn names_are_there_once_and_an_index_is_that_of_its_name() {
    let names: BTreeSet<&str> = TABLES.iter().map(|table| table.name).collect();
    assert_eq!(names.len(), TABLES.len());
    assert_eq!(TABLES[const { index("events") }].name, "events");
    assert!(hypertable("events").is_some() && hypertable("run").is_none() && hypertable("no").is_none());
}

#[test]
fn each_kind_of_record_fills_a_table_and_each_that_is_copied_is_filled_by_one() {
    macro_rules! names {
        ($($kind:ident),+) => { BTreeSet::from([$(stringify!($kind)),+]) };
    }
    let filled: BTreeSet<&str> = TABLES.iter().flat_map(|table| table.records).copied().collect();
    assert_eq!(filled, record_kinds!(names));
    for (table, chunks) in hypertables() {
        assert_eq!(chunks.copied.is_empty(), table.records.is_empty(), "{}", table.name);
        assert_eq!(chunks.form == Form::Row, !table.records.is_empty(), "{}", table.name);
        assert_eq!(chunks.metrics.is_some(), chunks.copied.contains("{metrics}"), "{}", table.name);
    }
}

#[test]
fn rows_that_are_predicted_have_a_size() {
    let site = Site {
        nodes: 10,
        ranks_per_node: 4,
        ports: 50,
        host_ports: 10,
        gpus: 40,
        links_per_gpu: 6,
        ..Site::default()
    };
    for (table, chunks) in hypertables() {
        let (rows, bytes) = ((chunks.rows)(&site), (chunks.row_bytes)(&site));
        assert!(rows >= 0.0 && (rows == 0.0 || bytes >= 20.0), "{}: {rows} rows of {bytes}", table.name);
        assert_eq!((chunks.rows)(&Site::default()), 0.0, "{} of an empty site", table.name);
        if let RetentionClass::With(other) = chunks.keep {
            let (_, other) = hypertable(other).unwrap();
            assert!(
                matches!(other.keep, RetentionClass::Readings | RetentionClass::Minutes),
                "{}",
                table.name
            );
        }
        // Packed rows and those on demand are smaller, or go sooner, than columns are worth.
        let has_columns = chunks.columns.is_some();
        assert!(
            !has_columns || (chunks.form != Form::Packed && chunks.keep != RetentionClass::Detail),
            "{}",
            table.name
        );
        if let Some(columns) = chunks.columns {
            let order: Vec<&str> = columns.order_by.split(", ").collect();
            assert!(order.contains(&"time") && !order.contains(&columns.segment_by), "{}", table.name);
        }
    }
    for (table, plain) in plain_tables() {
        let year = (plain.bytes_a_year)(&site);
        assert!(year >= 0.0 && (plain.bytes_a_year)(&Site::default()) == 0.0, "{}", table.name);
        // What nobody removes has its reason and its bytes a year.
        if let PlainRetention::Forever(reason) = plain.keep {
            assert!(
                !reason.is_empty() && year > 0.0,
                "{} stays for ever: why, and how many bytes?",
                table.name
            );
        }
    }
    assert!((by_links(657.0, 1437.0, 12.0) - 1047.0).abs() < 1e-9);
}

#[test]
fn a_site_of_1428_nodes_is_12_500_rows_a_second() {
    let site = Site::papers();
    let rows = |chunks: &Chunks| (chunks.rows)(&site);
    let (from_senders, made): (Vec<_>, Vec<_>) =
        hypertables().partition(|(_, chunks)| chunks.form == Form::Row);
    let sum = |all: &[(&StoredTable, &Chunks)]| all.iter().map(|(_, chunks)| rows(chunks)).sum::<f64>();
    println!("{:.0} rows a second from senders, {:.0} made of them", sum(&from_senders), sum(&made));
    // What MPI takes of a rank and day.
    let of_mpi = from_senders.iter().filter(|(table, _)| table.name.starts_with("mpi_"));
    let mpi: f64 = of_mpi.map(|(_, chunks)| rows(chunks) * (chunks.row_bytes)(&site)).sum();
    let ranks = (site.nodes * site.ranks_per_node) as f64;
    println!("MPI: {:.2} MB a rank and day", mpi * 86_400.0 / ranks / 1e6);
    assert!(sum(&from_senders) < 10_000.0 && sum(&from_senders) + sum(&made) < 12_500.0);
    assert!(mpi * 86_400.0 / ranks < 8e6);
}
