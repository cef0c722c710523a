//! The registry of tables and the schema say the same, in both directions.

use std::collections::{BTreeMap, BTreeSet};

use throughline_store::{Life, PlainRetention, TABLES, testing};

#[tokio::test]
async fn the_registry_has_each_table_with_its_key_and_the_length_of_its_chunks() {
    let client = testing::database().await.connect().await.unwrap();
    let query = "SELECT c.relname::text, coalesce((SELECT array_agg(a.attname::text) FROM pg_index i
                     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                     WHERE i.indrelid = c.oid AND i.indisprimary), '{}'),
                     (SELECT extract(epoch FROM d.time_interval)::bigint FROM timescaledb_information.dimensions d
                      WHERE d.hypertable_schema = 'internal' AND d.hypertable_name = c.relname)
                 FROM pg_class c WHERE c.relnamespace = 'internal'::regnamespace AND c.relkind = 'r'";
    let rows = client.query(query, &[]).await.unwrap();
    let mut schema: BTreeMap<String, (BTreeSet<String>, Option<i64>)> = rows
        .iter()
        .map(|row| (row.get(0), (row.get::<_, Vec<String>>(1).into_iter().collect(), row.get(2))))
        .collect();
    for table in &TABLES {
        let (primary, chunk_seconds) =
            schema.remove(table.name).unwrap_or_else(|| panic!("no table {}", table.name));
        let key: BTreeSet<String> = table.key.iter().map(ToString::to_string).collect();
        assert!(primary.is_empty() || primary == key, "{}: {primary:?} and {key:?}", table.name);
        let hours = match &table.life {
            Life::Chunks(chunks) => Some(i64::from(chunks.hours) * 3600),
            Life::Plain(_) => None,
        };
        assert_eq!(chunk_seconds, hours, "{}", table.name);
        // Its key has columns of it.
        let columns = table.key.join(", ");
        client.query(&format!("SELECT {columns} FROM internal.{} LIMIT 0", table.name), &[]).await.unwrap();
    }
    assert!(schema.is_empty(), "no entry of {:?}", schema.keys());
}

#[tokio::test]
async fn what_has_a_job_s_number_goes_with_the_job() {
    let client = testing::database().await.connect().await.unwrap();
    let query = "SELECT c.conrelid::regclass::text, a.attname::text FROM pg_constraint c
                 JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
                 WHERE c.contype = 'f' AND c.confrelid = 'internal.run'::regclass";
    for row in client.query(query, &[]).await.unwrap() {
        let (table, column): (String, String) = (row.get(0), row.get(1));
        let table = table.rsplit('.').next().unwrap_or_default().to_owned();
        let entry = TABLES.iter().find(|entry| entry.name == table).unwrap();
        let keep = entry.plain().map(|plain| plain.keep);
        let goes = matches!(keep, Some(PlainRetention::Job("job_id") | PlainRetention::Rank("job_id")));
        assert!(goes && column == "job_id", "{table}.{column}: {keep:?}");
    }
}
