//! A metric of the catalogue gets its column at the next start: a new counter needs no migration.

use throughline_store::{migrate, testing};

/// Metrics on which no view depends: dropped, they stand for counters that a release adds.
const NEW: [(&str, &str); 3] = [
    ("ib_port_counters", "sync_header_errors"),
    ("host_port_counters", "physical_state_id"),
    ("gpu_pm_counters", "void_samples"),
];

#[tokio::test]
async fn columns_of_new_metrics_are_added_at_start() {
    let database = testing::database().await;
    let client = database.connect().await.unwrap();
    let column = "SELECT format_type(a.atttypid, a.atttypmod), col_description(a.attrelid, a.attnum) FROM pg_attribute a \
                  WHERE a.attrelid = ('internal.' || $1::text)::regclass AND a.attname = $2 AND NOT a.attisdropped";
    for (table, name) in NEW {
        client
            .batch_execute(&format!("ALTER TABLE internal.{table} DROP COLUMN {name} CASCADE"))
            .await
            .unwrap();
        assert!(client.query_opt(column, &[&table, &name]).await.unwrap().is_none());
    }
    migrate(&database).await.unwrap();
    for (table, name) in NEW {
        let row = client.query_one(column, &[&table, &name]).await.unwrap();
        let (kind, comment): (String, Option<String>) = (row.get(0), row.get(1));
        assert_eq!(kind, "bigint", "{table}.{name}");
        assert!(comment.is_some_and(|comment| comment.contains("Unit: ")), "{table}.{name}");
    }
    // Nothing is left to add.
    let again = migrate(&database).await.unwrap();
    assert_eq!((again.applied, again.objects), (0, 0));
}
