//! `cargo xtask tables`: writes docs/TABLES.md from the registry of tables and from the comments of tables, views and functions in
//! `crates/store/schema/current.sql`. These are the truth, not the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::tree::{read, write};

const DOCUMENT: &str = "docs/TABLES.md";
const SCHEMA: &str = "crates/store/schema/current.sql";

const HEAD: &str = "# Tables, views and functions

Written by `cargo xtask tables`. [DATABASE.md](DATABASE.md) explains how to read them; `\\d+ NAME` of psql shows columns with their
comments, [METRICS.md](METRICS.md) has the columns of counters.

";

/// Comments by name.
type Comments = BTreeMap<String, String>;

pub fn run() -> anyhow::Result<()> {
    write(DOCUMENT, &document(&read(SCHEMA)?))
}

fn document(schema: &str) -> String {
    let mut text = HEAD.to_owned();
    for (title, first, comments) in [
        ("Tables", "table", tables(schema)),
        ("Views", "view", commented(schema, "VIEW")),
        ("Functions", "function", commented(schema, "FUNCTION")),
    ] {
        let _ = write!(text, "## {title}\n\n| {first} | |\n| --- | --- |\n");
        for (name, comment) in comments {
            let _ = writeln!(text, "| `{name}` | {} |", comment.replace('|', "\\|"));
        }
        text.push('\n');
    }
    text + "## Keys, sizes and old rows\n\n" + &throughline_store::tables_document()
}

/// Tables with the comment lines before each.
fn tables(schema: &str) -> Comments {
    let mut found = Comments::new();
    let mut comment = Vec::new();
    for line in schema.lines() {
        if let Some(text) = line.strip_prefix("-- ") {
            comment.push(text);
            continue;
        }
        let created = line.strip_prefix("CREATE ").and_then(|rest| rest.split_once("TABLE "));
        if let Some((_, rest)) = created
            && !comment.is_empty()
        {
            found.insert(bare(rest).to_owned(), comment.join(" "));
        }
        comment.clear();
    }
    found
}

/// Views or functions that people use with their comments: those of the schema `internal` are left out.
fn commented(schema: &str, kind: &str) -> Comments {
    let begin = format!("\nCOMMENT ON {kind} ");
    let statements = schema.split(&begin).skip(1);
    let named = statements.filter(|statement| !statement.starts_with("internal."));
    named
        .filter_map(|statement| Some((bare(statement).to_owned(), literal(statement.split_once(" IS")?.1))))
        .collect()
}

/// The name that a text begins with, without its schema and its arguments.
fn bare(text: &str) -> &str {
    let name = text.split([' ', '(', '\n']).next().unwrap_or_default();
    name.rsplit('.').next().unwrap_or_default()
}

/// The SQL string that a text begins with; parts that follow each other are one.
fn literal(text: &str) -> String {
    let mut value = String::new();
    let mut rest = text.trim_start();
    while let Some(part) = rest.strip_prefix('\'') {
        let (inner, after) = part.split_once('\'').unwrap_or((part, ""));
        value.push_str(inner);
        if after.starts_with('\'') {
            value.push('\'');
            rest = after;
        } else {
            rest = after.trim_start();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_list_of_tables_is_the_schemas_and_the_registrys() {
        let made = document(&read(SCHEMA).unwrap());
        assert_eq!(made, read(DOCUMENT).unwrap(), "cargo xtask tables writes it");
    }

    #[test]
    fn comments_are_read_whatever_their_schema() {
        let schema = "-- Jobs and\n-- steps.\nCREATE TABLE internal.run (\n\nCREATE TABLE bare (\n\
                      \nCOMMENT ON VIEW public.named IS\n    'A job''s name: ' 'all.';\
                      \nCOMMENT ON VIEW internal.hidden IS 'x';\n";
        assert_eq!(tables(schema), Comments::from([("run".to_owned(), "Jobs and steps.".to_owned())]));
        let views = Comments::from([("named".to_owned(), "A job's name: all.".to_owned())]);
        assert_eq!(commented(schema, "VIEW"), views);
    }
}
