use crate::{Set, THRESHOLDS, grafana, prometheus, table};

#[test]
fn both_sets_have_the_same_rules() {
    let set = Set::new(THRESHOLDS).unwrap();
    let (by_promql, by_sql, page) = (prometheus(&set), grafana(&set), table(&set));
    let lines = |text: &str, key: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.trim().strip_prefix(key)).map(str::to_owned).collect()
    };
    let mut names = lines(&by_promql, "- alert: ");
    let mut uids = lines(&by_sql, "- uid: ");
    assert_eq!(names.len(), set.rules().count());
    for rule in set.rules() {
        assert!(names.contains(&rule.name) && uids.contains(&rule.uid), "{}", rule.name);
        assert!(page.contains(&format!("\n### {}\n", rule.name)), "{}", rule.name);
    }
    let count = names.len();
    names.sort();
    names.dedup();
    uids.sort();
    uids.dedup();
    assert_eq!((names.len(), uids.len()), (count, count), "each name once");
}

#[test]
fn a_site_changes_what_it_names_and_nothing_else() {
    let own = "[InfinibandLinkSaturated]\nfires_above = 0.77\nholds_above = 0.66\npending = \"3m\"\n";
    let set = Set::new(own).unwrap();
    let before = Set::new("").unwrap();
    let (by_promql, by_sql) = (prometheus(&set), grafana(&set));
    assert!(by_promql.contains("> 0.77") && by_promql.contains("> 0.66") && by_promql.contains("over 77 % "));
    assert!(
        by_sql.contains("params: [0.77]") && by_sql.contains("params: [0.66]") && by_sql.contains("for: 3m")
    );
    let changed = set.rules().zip(before.rules()).filter(|(a, b)| a.threshold != b.threshold).count();
    assert_eq!(changed, 1);
}

#[test]
fn wrong_thresholds_are_told_with_their_alert() {
    for (text, cause) in [
        ("[LinkSaturated]\nfires_above = 1\npending = \"1m\"", "no such alert"),
        ("[NvlinkErrors]\nfires_above = 1\nholds_above = 2\npending = \"1m\"", "holds_above = 2 is over"),
        ("[NvlinkErrors]\nfires_above = -1\npending = \"1m\"", "a number from 0 on"),
        ("[NvlinkErrors]\nfires_above = 1\npending = \"90s\"", "whole minutes"),
        ("[NvlinkErrors]\nfire_above = 1\npending = \"1m\"", "unknown field"),
    ] {
        let error = Set::new(text).unwrap_err().to_string();
        assert!(error.contains(cause), "{text}: {error}");
    }
}
