//! What cannot be answered: one form, the right status, what is wrong and what to do.

use super::*;
use throughline_store::testing;

#[tokio::test]
async fn wrong_addresses_parameters_and_things_that_are_not_there() {
    let router = api_on(super::seed::fabric().await);
    for (path, said) in [
        ("/nothing", "404 not_found: nothing at /nothing; /api/v1/openapi.yaml lists"),
        ("/fabric/0x1/topology", "404 not_found: no fabric 0x1; there are 0xfe80000000000000"),
        ("/fabric/%ff/topology", "400 bad_parameter"),
        (
            "/fabric/0xfe80000000000000/topology?at=noon",
            "400 bad_parameter: at = noon is no time; give milliseconds",
        ),
        (
            "/fabric/0xfe80000000000000/topology?when=1",
            "400 bad_parameter: there is no parameter when here; this address takes at; when",
        ),
        ("/fabric/0xfe80000000000000/load?at=9000000000000", "400 bad_parameter: at is in the future"),
        (
            "/fabric/0xfe80000000000000/load?window=0",
            "400 bad_parameter: window = 0; give a number from 1 to 86400; window",
        ),
        ("/fabric/0xfe80000000000000/load?window=NaN", "400 bad_parameter"),
        (
            "/subnets?limit=1",
            "400 bad_parameter: there is no parameter limit here; this address takes no parameters",
        ),
    ] {
        let body = refused(&router, path).await;
        assert!(body.starts_with(said), "{path}: {body}");
    }
    let request = Request::post("/subnets").body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 405);
    let body: Value = serde_json::from_slice(&to_bytes(response.into_body(), 9999).await.unwrap()).unwrap();
    assert_eq!(body["error"]["code"], "method_not_allowed");
}

#[tokio::test]
async fn a_database_that_is_away_busy_or_slow() {
    let nowhere = Database::from_url("host=/nonexistent user=a dbname=b").unwrap();
    let body = refused(&api_on(nowhere), "/subnets").await;
    assert!(body.starts_with("503 database_absent") && body.contains("throughline db status"), "{body}");

    let database = testing::database().await;
    let limits = Limits { time: Duration::from_millis(300), parallel: 1, ..Limits::default() };
    let api = Arc::new(Api::new(database.clone(), limits));
    let router = super::super::router(api);
    // Somebody holds the table: the statement waits for longer than it may.
    let mut holder = database.connect().await.unwrap();
    let transaction = holder.transaction().await.unwrap();
    transaction.batch_execute("LOCK TABLE internal.fabric IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let body = refused(&router, "/subnets").await;
    assert!(body.starts_with("504 too_slow") && body.contains("query.seconds_max"), "{body}");
    transaction.rollback().await.unwrap();
    assert_eq!(get(&router, "/subnets").await["subnets"], serde_json::json!([]));
}

#[tokio::test]
async fn the_connections_only_read() {
    let api = Api::new(testing::database().await, Limits::default());
    let write = api.query(async |client| {
        let done = client
            .execute("INSERT INTO internal.fabric (name, guids) VALUES ('0x1', ARRAY['0x1'])", &[])
            .await;
        assert_eq!(done.unwrap_err().code().unwrap().code(), "25006");
        Ok(())
    });
    write.await.unwrap();
}

#[tokio::test]
async fn a_database_that_hangs_is_not_waited_for() {
    let limits = Limits { time: Duration::from_millis(200), parallel: 1, ..Limits::default() };
    let api = Arc::new(Api::new(testing::database().await, limits));
    let send = |signal: &str, process: i32| {
        let status = std::process::Command::new("kill").args([signal, &process.to_string()]).status();
        assert!(status.unwrap().success());
    };
    // The connection's own server process: it answers nothing any more, and its limit of time does not end anything.
    let mut process = 0;
    let hung = api.query(async |client| {
        process = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0);
        send("-STOP", process);
        client.query_one("SELECT 1", &[]).await.unwrap();
        Ok(())
    });
    let body = serde_json::to_string(&hung.await.unwrap_err()).unwrap();
    send("-CONT", process);
    assert!(body.contains("too_slow") && body.contains("query.seconds_max"), "{body}");
    // One that hangs while nobody uses it is replaced.
    api.query(async |client| {
        process = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0);
        Ok(())
    })
    .await
    .unwrap();
    send("-STOP", process);
    let router = super::super::router(api);
    assert_eq!(get(&router, "/subnets").await["subnets"], serde_json::json!([]));
    send("-CONT", process);
}
