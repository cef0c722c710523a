//! `--json` prints what the API answers: the same keys in the same order, in the same units.

use crate::client::Site;
use serde_json::Value;
use throughline_client::{Connection, Server};

/// What is of the moment of the request: two requests have different ones.
const MOMENTARY: [&str; 7] =
    ["as_of_ms", "at_ms", "time_ms", "age_seconds", "duration_seconds", "running_seconds", "lag_seconds"];

/// An answer without the values of the moment.
fn fixed(answer: &str) -> String {
    MOMENTARY.into_iter().fold(answer.to_owned(), |text, name| {
        let key = format!("\"{name}\":");
        let mut parts = text.split(&key);
        let mut fixed = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find([',', '}']).unwrap();
            fixed.push_str(&key);
            fixed.push_str(&part[end..]);
        }
        fixed
    })
}

/// The same without what upkeep of the running server changes all the time: what is known of the database's clock, and the chunks that go
/// next.
fn without_upkeep(answer: &str) -> String {
    let mut fixed = fixed(answer);
    let going = fixed.find("\"next_day_chunks\":").zip(fixed.find(",\"is_backup_running\""));
    if let Some((from, to)) = going {
        fixed.replace_range(from..to, "");
    }
    let Some((before, clock)) = fixed.split_once("\"clock\":{") else { return fixed };
    let (_, after) = clock.split_once('}').unwrap();
    format!("{before}{after}")
}

/// What the API answers to a request, as it comes.
fn api(server: &Server, parts: &[&str], query: &[(&str, &str)]) -> String {
    tokio::task::block_in_place(|| server.answer::<Value>(parts, query)).unwrap().body
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_print_the_answers_of_the_api() {
    let site = Site::start().await;
    let connection = Connection {
        server: Some(site.server.clone()),
        token_file: Some(site.folder.path().join("token")),
        ca_file: Some(site.folder.path().join("ca.pem")),
    };
    let server = tokio::task::block_in_place(|| connection.server()).unwrap();
    let same = |arguments: &[&str], expected: &str| {
        let printed = site.text(arguments);
        assert_eq!(without_upkeep(printed.trim_end_matches('\n')), without_upkeep(expected), "{arguments:?}");
        assert_eq!(printed.lines().count(), 1, "{arguments:?}: {printed}");
    };
    let job = "slurm:41.0@1000";
    let of_job = |part: &str| api(&server, &["jobs", job, part], &[]);

    same(&["status", "--json"], &api(&server, &["status"], &[]));
    let list = [("state", "all"), ("totals", "true"), ("limit", "20")];
    same(&["job", "list", "--json"], &api(&server, &["jobs"], &list));
    // The server writes the report of an ended job within a minute or two.
    site.text(&["job", "report", job, "--wait", "150"]);
    for (command, part) in [("waits", "waits"), ("report", "report"), ("matrix", "pairs")] {
        same(&["job", command, job, "--json"], &of_job(part));
    }
    same(&["job", "top", "--once", "--json"], &api(&server, &["job-rates"], &[]));
    same(&["job", "fetch", job, "--list", "--json"], &of_job("detail"));
    let to = throughline_daemon::Clock::new().now() / 1_000_000;
    let at = throughline_sample::to_rfc3339(to * 1_000_000);
    let [from_ms, to_ms] = [to - 60_000, to].map(|time| time.to_string());
    let shares = ["fabric", "0xfe80000000000000", "links", "0x0000000000000021.1", "shares"];
    let query = [("from", from_ms.as_str()), ("to", &to_ms), ("points", "60")];
    let link = ["link", "spine1", "leaf1", "--to", &at, "--last", "1m", "--json"];
    same(&link, &api(&server, &shares, &query));
    same(&["multicast", "--json"], &api(&server, &["fabric", "0xfe80000000000000", "groups"], &[]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_several_routes_prints_each_answer_under_its_name() {
    let site = Site::start().await;
    let connection = Connection {
        server: Some(site.server.clone()),
        token_file: Some(site.folder.path().join("token")),
        ca_file: Some(site.folder.path().join("ca.pem")),
    };
    let server = tokio::task::block_in_place(|| connection.server()).unwrap();
    let (one, other) = ("slurm:41.0@1000", "slurm:42.0@1000");
    let of = |job: &str, part: &[&str]| api(&server, &[&["jobs", job], part].concat(), &[]);
    let parts = ["ranks", "regions", "traffic", "link-shares", "account", "waits", "broadcast"];
    let answers: Vec<String> = parts.into_iter().map(|part| of(one, &[part])).collect();
    let [ranks, regions, traffic, shares, account, waits, broadcast] = answers.try_into().unwrap();
    let beside = api(&server, &["jobs", one, "gpu-traffic"], &[("points", "30")]);
    let expected = format!(
        "{{\"job\":{},\"ranks\":{ranks},\"regions\":{regions},\"traffic\":{traffic},\"link_shares\":{shares},\
         \"link_peaks\":null,\"gpus\":null,\"account\":{account},\"waits\":{waits},\"broadcast\":{broadcast},\
         \"gpu_traffic\":{beside},\"findings\":[",
        of(one, &[])
    );
    let printed = site.text(&["job", "show", one, "--json"]);
    assert!(fixed(&printed).starts_with(&fixed(&expected)), "{printed}\n{expected}");
    let expected = format!(
        "{{\"a\":{{\"job\":{},\"ranks\":{}}},\"b\":{{\"job\":{},\"ranks\":{}}},\"comparison\":{{",
        of(one, &[]),
        of(one, &["ranks"]),
        of(other, &[]),
        of(other, &["ranks"]),
    );
    let printed = site.text(&["job", "diff", one, other, "--json"]);
    assert!(fixed(&printed).starts_with(&fixed(&expected)), "{printed}\n{expected}");
}
