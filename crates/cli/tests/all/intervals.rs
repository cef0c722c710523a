//! `throughline status` says of a source what its server says: whether it is silent goes by the intervals that its sender reports.

use crate::client::Site;

/// Two nodes whose last round is 80 s old, and a node whose last one is older. One of the two reads each 90 s and reports so.
const SEED: &str = "
    INSERT INTO internal.node_key (name) VALUES ('n1'), ('n2'), ('n3');
    INSERT INTO internal.row_rules (instance, source, valid_from, heartbeat_seconds, largest_gap_seconds, quiet_bytes)
        SELECT name, 'sysfs', now() - interval '1 hour', 90, 270, 0 FROM internal.node_key WHERE name <> 'n2';
    INSERT INTO internal.coverage (time, instance, source, expected, read, failed, elapsed_seconds)
        SELECT now() - CASE name WHEN 'n3' THEN interval '5 minutes' ELSE interval '80 seconds' END, name, 'sysfs', 1, 1, 0, 0
        FROM internal.node_key;";

#[tokio::test(flavor = "multi_thread")]
async fn status_goes_by_the_intervals_that_senders_report() {
    let site = Site::with(SEED).await;
    let text = site.text(&["status"]);
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let json: serde_json::Value = serde_json::from_str(&site.text(&["status", "--json"])).unwrap();
    for (place, (node, state, gap)) in
        [("n1", "rows", 270.0), ("n2", "silent", 75.0), ("n3", "silent", 270.0)].into_iter().enumerate()
    {
        assert!(words.iter().any(|line| line.starts_with(&["sysfs", node, state])), "{node}\n{text}");
        let source = &json["sources"][place];
        assert_eq!((&source["instance"], &source["state"]), (&node.into(), &state.into()), "{json:#}");
        assert_eq!(source["largest_gap_seconds"], gap, "{json:#}");
    }
    assert!(text.starts_with("SILENT: sysfs of n2, sysfs of n3.\n"), "{text}");
}
