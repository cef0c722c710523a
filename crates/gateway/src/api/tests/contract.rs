//! The document and the routes say the same.

use super::schema::{OPENAPI, resolved};
use super::*;

/// An address for a path of the document, with something for each placeholder.
fn example(path: &str) -> String {
    path.replace("{subnet}", "0xfe80000000000000")
        .replace("{link}", "0x0000000000000001.1")
        .replace("{mlid}", "0xc000")
        .replace("{host}", "n1")
        .replace("{name}", "last")
        .replace("{rank}", "0")
        .replace("{job}", "slurm%3A1%40%31")
}

#[tokio::test]
async fn each_path_has_a_route_and_each_route_a_path() {
    let nowhere = Database::from_url("host=/nonexistent user=a dbname=b").unwrap();
    let router = api_on(nowhere);
    let paths = OPENAPI["paths"].as_object().unwrap();
    for path in paths.keys().filter(|path| *path != "/openapi.yaml") {
        let address = match path.as_str() {
            "/search" => "/search?q=n".to_owned(),
            "/jobs/{job}/trace/{rank}" => example(path) + "?epoch_us=0",
            _ => example(path),
        };
        let said = refused(&router, &address).await;
        assert!(said.starts_with("503 database_absent"), "{path}: {said}");
    }
    // The source has the list of the routes once.
    let source = include_str!("../mod.rs");
    let routes: Vec<&str> =
        source.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(routes.len(), paths.len());
    assert!(routes.iter().all(|route| paths.contains_key(*route)), "{routes:?}");
}

#[tokio::test]
async fn the_server_hands_out_the_document() {
    let router = api_on(Database::from_url("host=/nonexistent user=a dbname=b").unwrap());
    let request = Request::get("/openapi.yaml").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/yaml");
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert_eq!(body, DOCUMENT.as_bytes());
}

/// Every placeholder and parameter of each path is described, and each reference leads somewhere.
#[test]
fn the_document_is_whole() {
    for (path, item) in OPENAPI["paths"].as_object().unwrap() {
        let parameters: Vec<&Value> =
            item["get"]["parameters"].as_array().into_iter().flatten().map(resolved).collect();
        for placeholder in path.split('/').filter_map(|part| part.strip_prefix('{')) {
            let name = placeholder.trim_end_matches('}');
            let is_described = |one: &&&Value| one["name"] == name && one["in"] == "path";
            assert!(parameters.iter().find(is_described).is_some(), "{path}: {name}");
        }
        assert!(!item["get"]["summary"].as_str().unwrap().is_empty());
    }
    let mut waiting = vec![&*OPENAPI];
    while let Some(value) = waiting.pop() {
        if value["$ref"].is_string() {
            resolved(value);
        }
        waiting.extend(value.as_object().into_iter().flat_map(|fields| fields.values()));
        waiting.extend(value.as_array().into_iter().flatten());
    }
}
