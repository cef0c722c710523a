//! What is stored packed has one codec: counted here, so that no second one comes beside it.

use std::path::Path;

use throughline_store::testing;

/// The source files below a folder, without their tests.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension() == Some("rs".as_ref()) {
            let text = std::fs::read_to_string(&path).unwrap();
            all.push((path.display().to_string(), text.split("#[cfg(test)]").next().unwrap().to_owned()));
        }
    }
    all
}

#[tokio::test]
async fn an_operation_of_mpi_has_two_forms_beside_what_is_requested_and_what_stays_of_a_job() {
    let client = testing::database().await.connect().await.unwrap();
    let query = "SELECT table_name::text FROM information_schema.columns
                 WHERE table_schema = 'internal' AND column_name IN ('cells', 'calls') AND table_name IN (
                     SELECT relname FROM pg_class WHERE relkind = 'r') ORDER BY 1";
    let tables: Vec<String> = client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(tables, ["detail_mpi_bins", "detail_mpi_bins", "job_final", "mpi_node_rows", "mpi_rank_rows"]);
}

#[tokio::test]
async fn bits_are_read_by_the_functions_of_one_file_and_written_by_one_crate() {
    let client = testing::database().await.connect().await.unwrap();
    let packed = include_str!("../../schema/functions/packed.sql");
    let readers = "SELECT proname::text FROM pg_proc WHERE pronamespace IN ('public'::regnamespace, 'internal'::regnamespace) AND prokind = 'f'
                   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = pg_proc.oid AND d.deptype = 'e')
                   AND pg_get_functiondef(oid) ~* 'get_bit|get_byte|::bit|substring' AND proname NOT LIKE '%_noticed' ORDER BY 1";
    let readers: Vec<String> =
        client.query(readers, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(
        readers.contains(&"packed_rows".to_owned()) && readers.contains(&"packed_stream".to_owned()),
        "{readers:?}"
    );
    let others: Vec<&String> = readers
        .iter()
        .filter(|name| !packed.contains(&format!("CREATE OR REPLACE FUNCTION internal.{name}(")))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let writers: Vec<String> = ["store", "query", "gateway", "recorder", "collector"]
        .iter()
        .flat_map(|name| sources(&crates.join(name).join("src")))
        .filter(|(_, text)| text.contains("Bits::default") || text.contains("Reader::new(bytes)"))
        .map(|(path, _)| path)
        .collect();
    assert!(writers.is_empty(), "{writers:?}");
}
