//! `cargo xtask schema`: writes `crates/store/schema/current.sql`, the schema of a new database as one text.

use anyhow::Context;

/// Where it is written to.
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/store/schema/current.sql");

pub fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let text = runtime.block_on(async {
        let database = throughline_store::testing::database().await;
        throughline_store::schema_text(&database).await
    })?;
    std::fs::write(PATH, text).with_context(|| format!("cannot write {PATH}"))
}
