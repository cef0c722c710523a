//! `cargo xtask tables`: writes the list of tables in docs/DATABASE.md from the registry. The registry is the truth, not the file.

use anyhow::Context;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/DATABASE.md");

/// What the list is between.
const MARKS: (&str, &str) = ("<!-- tables: cargo xtask tables -->\n", "<!-- /tables -->");

pub fn run() -> anyhow::Result<()> {
    let text = std::fs::read_to_string(PATH).with_context(|| format!("cannot read {PATH}"))?;
    std::fs::write(PATH, with_tables(&text)?).with_context(|| format!("cannot write {PATH}"))
}

fn with_tables(text: &str) -> anyhow::Result<String> {
    let (before, rest) =
        text.split_once(MARKS.0).context("docs/DATABASE.md has no mark of the list of tables")?;
    let (_, after) = rest.split_once(MARKS.1).context("docs/DATABASE.md has no end of the list of tables")?;
    Ok(format!("{before}{}{}{}{after}", MARKS.0, throughline_store::tables_document(), MARKS.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_tables_is_the_registrys() {
        let text = std::fs::read_to_string(PATH).unwrap();
        assert_eq!(with_tables(&text).unwrap(), text, "cargo xtask tables writes it");
    }
}
