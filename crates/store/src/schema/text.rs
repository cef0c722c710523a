//! The whole schema as one text: tables with their columns' comments, indexes, functions and views. For reading and for
//! comparing; `schema/current.sql` is it, of a new database.

use std::fmt::Write;

use super::objects::OBJECTS;
use crate::database::Database;
use crate::error::Error;

/// Tables: OID, name, comment, storage options, interval of chunks.
const TABLES: &str = "
SELECT c.oid, c.relname::text, obj_description(c.oid, 'pg_class'), array_to_string(c.reloptions, ', '),
       (SELECT d.time_interval::text FROM timescaledb_information.dimensions d
        WHERE d.hypertable_schema = 'internal' AND d.hypertable_name = c.relname AND d.dimension_number = 1)
FROM pg_class c WHERE c.relnamespace = 'internal'::regnamespace AND c.relkind IN ('r', 'p') ORDER BY c.relname";

/// Columns of a table: name, type with what follows it, comment.
const COLUMNS: &str = "
SELECT a.attname::text,
       replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz') || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
           || CASE WHEN a.attidentity = 'a' THEN ' GENERATED ALWAYS AS IDENTITY' ELSE '' END
           || coalesce(CASE a.attgenerated WHEN 's' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED'
                       ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END, ''),
       col_description(a.attrelid, a.attnum)
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// Constraints of a table: primary keys first, NOT NULL stands with the column.
const CONSTRAINTS: &str = "
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = $1 AND contype IN ('p', 'u', 'f', 'c')
ORDER BY position(contype::text IN 'pufc'), conname";

/// Indexes of a table that are not those of constraints.
const INDEXES: &str = "
SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = $1 AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = $1)
ORDER BY c.relname";

/// Where a line of a comment ends at the latest.
const WIDTH: usize = 120;

/// The schema of a database that this build has prepared.
///
/// # Errors
/// The database is not reachable, or it has no schema.
pub async fn schema_text(database: &Database) -> Result<String, Error> {
    let client = database.connect().await?;
    let version = client.query_one("SELECT max(version) FROM internal.schema_migrations", &[]).await;
    let version: i32 = version.map_err(Error::sql("reading the schema's version"))?.get(0);
    let mut text = format!(
        "-- The schema of version {}, as a new database has it. Written by `cargo xtask schema`; for reading only.\n",
        version
    );
    let what = "reading the schema";
    for table in client.query(TABLES, &[]).await.map_err(Error::sql(what))? {
        let (oid, name): (u32, &str) = (table.get(0), table.get(1));
        text.push('\n');
        push_comment(&mut text, "", table.get::<_, Option<&str>>(2).unwrap_or(""));
        text.push_str(&format!("CREATE TABLE internal.{name} (\n"));
        for column in client.query(COLUMNS, &[&oid]).await.map_err(Error::sql(what))? {
            push_comment(&mut text, "    ", column.get::<_, Option<&str>>(2).unwrap_or(""));
            push_line(&mut text, &format!("    {} {},", column.get::<_, &str>(0), column.get::<_, &str>(1)));
        }
        for constraint in client.query(CONSTRAINTS, &[&oid]).await.map_err(Error::sql(what))? {
            push_line(&mut text, &format!("    {},", constraint.get::<_, &str>(0)));
        }
        text.truncate(text.len() - ",\n".len());
        let options = table.get::<_, Option<&str>>(3).map(|options| format!(" WITH ({options})"));
        push_line(&mut text, &format!("\n){};", options.unwrap_or_default()));
        for index in client.query(INDEXES, &[&oid]).await.map_err(Error::sql(what))? {
            let index = index.get::<_, &str>(0).replace(" USING btree", "");
            push_line(&mut text, &format!("{index};"));
        }
        if let Some(interval) = table.get::<_, Option<&str>>(4) {
            push_line(
                &mut text,
                &format!(
                    "SELECT public.create_hypertable('internal.{name}', public.by_range('time', INTERVAL '{interval}'));"
                ),
            );
        }
    }
    for object in OBJECTS {
        text.push('\n');
        text.push_str(&object.sql());
    }
    Ok(text)
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// A comment, in as many lines as it needs.
fn push_comment(text: &mut String, indent: &str, comment: &str) {
    let mut line = String::new();
    for word in comment.split_whitespace() {
        if !line.is_empty() && indent.len() + line.len() + 1 + word.len() > WIDTH {
            push_line(text, &line);
            line.clear();
        }
        let start = if line.is_empty() { format!("{indent}--") } else { String::new() };
        let _ = write!(line, "{start} {word}");
    }
    if !line.is_empty() {
        push_line(text, &line);
    }
}
