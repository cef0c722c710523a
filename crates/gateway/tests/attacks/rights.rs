//! Attack 13: other users of the server's machine; attack 7: web pages of other sites; attack 14: no `nosniff`.

use crate::site::{STRANGER, Site, status, users};
use std::os::unix::fs::PermissionsExt;
use throughline_gateway::access::Access;
use throughline_sample::catalogue::REQUESTS_REJECTED;
use throughline_store::testing;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const DATA: [&str; 3] = ["/api/v1/jobs", "/api/v1/search?q=a", "/metrics"];

#[tokio::test(flavor = "multi_thread")]
async fn attack_13_other_local_users_cannot_read() {
    let site = Site::new(testing::database().await, Default::default(), Access::default()).await;
    for path in DATA {
        assert_eq!(status(&site.get(path, &[]).await), 200, "the server's own user reads {path}");
        let Some(answer) = site.get_as(STRANGER, path, "").await else { return };
        assert_eq!(status(&answer), 403, "{answer}");
        assert!(answer.contains("61234") && answer.contains("query.local_users"), "{answer}");
    }
    assert_eq!(site.count(("query", "right"), &REQUESTS_REJECTED), 3.0);
    for open in ["/healthz", "/api/v1/openapi.yaml"] {
        assert_eq!(status(&site.get_as(STRANGER, open, "").await.unwrap()), 200, "{open}");
    }
    // A header that only a proxy may send changes nothing.
    let claimed = site.get_as(STRANGER, DATA[0], "X-Forwarded-User: root\\r\\n").await.unwrap();
    assert_eq!(status(&claimed), 403);
    // Who is named may.
    let named = Access { local_users: users(&["61234"]), ..Access::default() };
    let site = Site::new(testing::database().await, Default::default(), named).await;
    assert_eq!(status(&site.get_as(STRANGER, DATA[0], "").await.unwrap()), 200);
    assert_eq!(status(&site.get_as(STRANGER + 1, DATA[0], "").await.unwrap()), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_13_a_token_lets_other_local_users_in_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let access = Access { token_file: Some(file), ..Access::default() };
    let site = Site::new(testing::database().await, Default::default(), access).await;
    let Some(answer) = site.get_as(STRANGER, DATA[0], "").await else { return };
    assert!(status(&answer) == 401 && answer.contains("query.token_file"), "{answer}");
    let bearer = |token: &str| format!("Authorization: Bearer {token}\\r\\n");
    assert_eq!(status(&site.get_as(STRANGER, DATA[0], &bearer("0123456789abcdef")).await.unwrap()), 401);
    assert_eq!(status(&site.get_as(STRANGER, DATA[0], &bearer(TOKEN)).await.unwrap()), 200);
    // The server's own user reads without.
    assert_eq!(status(&site.get(DATA[0], &[]).await), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_25_a_token_that_was_replaced_reads_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let write = |text: &str| {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write(TOKEN);
    let access = Access { token_file: Some(file.clone()), ..Access::default() };
    let site = Site::nowhere(access).await;
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let renewed = "fedcba9876543210fedcba9876543210";
    let read = async |token: &str| status(&site.get("/metrics", &[&bearer(token)]).await);
    assert_eq!((read(TOKEN).await, read(renewed).await), (200, 401));
    write(renewed);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while read(TOKEN).await != 401 {
        assert!(std::time::Instant::now() < end, "the old token still reads");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(read(renewed).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_07_web_pages_of_other_sites_read_nothing() {
    let site = Site::nowhere(Access::default()).await;
    for (line, expected) in [
        ("Host: evil.example", 421),
        ("Host: evil.example:9460", 421),
        ("Origin: http://evil.example", 403),
        ("Origin: null", 403),
        ("Sec-Fetch-Site: cross-site", 403),
        ("Sec-Fetch-Site: same-site", 403),
    ] {
        for path in DATA {
            let answer = site.get(path, &[line]).await;
            assert_eq!(status(&answer), expected, "{line} {path}: {answer}");
            assert!(answer.contains("query.hosts") || answer.contains("other sites"), "{answer}");
            assert!(!answer.to_lowercase().contains("access-control-allow"), "{answer}");
        }
        // A link to the pages is followed: they have no data.
        assert_ne!(status(&site.get("/healthz", &[line]).await), expected);
    }
    // What a page can send to any server without asking first is no remote-read.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let host = format!("Host: {}", site.address);
        let lines = [host.as_str(), &format!("Content-Type: {kind}"), "Content-Encoding: snappy"];
        assert_eq!(status(&site.send("POST /api/v1/read", &lines, b"x").await), 415, "{kind}");
    }
    assert_eq!(site.count(("query", "host"), &REQUESTS_REJECTED), 6.0);
    assert_eq!(site.count(("query", "origin"), &REQUESTS_REJECTED), 12.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn attack_14_no_answer_is_sniffed_framed_or_embedded() {
    let site = Site::nowhere(Access::default()).await;
    let answers = [
        site.get("/", &[]).await,
        site.get("/healthz", &[]).await,
        site.get("/metrics", &[]).await,
        site.get("/nothing", &[]).await,
        site.get("/api/v1/nothing", &[]).await,
        site.get("/api/v1/jobs", &[]).await,
        site.get("/api/v1/jobs", &["Host: evil.example"]).await,
        site.get("/api/v1/openapi.yaml", &[]).await,
        site.send("POST /api/v1/read", &[&format!("Host: {}", site.address)], b"x").await,
    ];
    for answer in answers {
        let head = answer.split("\r\n\r\n").next().unwrap().to_lowercase();
        for line in [
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "x-frame-options: sameorigin",
            "cross-origin-resource-policy: same-origin",
            "cross-origin-opener-policy: same-origin",
            "content-security-policy: default-src 'none'",
        ] {
            assert_eq!(head.matches(line).count(), 1, "{line} is not once in {head}");
        }
    }
}
