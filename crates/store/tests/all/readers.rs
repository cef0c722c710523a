//! The login of people against everybody who reads: what it alters of itself, leaves on the disk, and does without end. Each has a
//! cluster of its own, as roles and settings are those of all databases.

use std::time::Duration;

use throughline_store::{
    Database, PrivateCluster, QUERY_ROLE, READ_ROLE, ReadBounds, ReaderCheck, WRITE_ROLE, check_readers,
    end_long_reads, migrate, reader_role_statements, testing,
};
use tokio_postgres::Client;

use crate::cluster::State;
use throughline_store::Lifetime;

/// A cluster that runs and its database, as `serve` makes it.
async fn start(state: &State) -> (PrivateCluster, Database) {
    let cluster = PrivateCluster::find(&state.options()).unwrap();
    let (database, _) = cluster.run(Lifetime::WithCaller).await.unwrap();
    (cluster, database)
}

/// A session of people's login.
async fn person(database: &Database) -> Client {
    testing::connect_as(database, database.name(), READ_ROLE).await.unwrap()
}

/// What the login sends in place of a panel's query.
async fn alter_itself(person: &Client) {
    person.batch_execute(ALTER_ITSELF).await.unwrap();
    // PostgreSQL 17 and later: the one that ends any session at its first statement.
    let newer = "BEGIN READ WRITE; ALTER ROLE throughline_read SET transaction_timeout = '1ms'; COMMIT";
    _ = person.batch_execute(newer).await;
}

const ALTER_ITSELF: &str = "BEGIN READ WRITE;
    ALTER ROLE throughline_read SET lock_timeout = '1ms';
    ALTER ROLE throughline_read SET search_path = 'nowhere';
    ALTER ROLE throughline_read SET statement_timeout = '1ms';
    ALTER ROLE throughline_read IN DATABASE throughline SET work_mem = '4GB';
    ALTER ROLE throughline_read PASSWORD 'stolen';
    COMMIT";

/// What a session of the login begins with.
async fn settings(client: &Client) -> Vec<String> {
    let names = ["statement_timeout", "lock_timeout", "search_path", "work_mem", "temp_file_limit"];
    let mut all = Vec::new();
    for name in names {
        all.push(client.query_one("SELECT current_setting($1)", &[&name]).await.unwrap().get(0));
    }
    all
}

async fn reports(client: &Client) -> Vec<String> {
    let query =
        "SELECT text FROM internal.events WHERE kind = 'reader.reset' AND severity = 'warning' ORDER BY time";
    client.query(query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

fn is_quiet(check: &ReaderCheck) -> bool {
    *check == ReaderCheck::default()
}

#[tokio::test]
async fn attack_19_the_login_of_people_alters_itself_and_harms_nobody_else() {
    let state = State::new();
    let (cluster, database) = start(&state).await;
    let admin = database.connect_admin().await.unwrap();
    let owner = database.connect().await.unwrap();
    assert!(is_quiet(&check_readers(&database, &admin).await.unwrap()), "a new cluster has nothing to reset");
    let first = settings(&person(&database).await).await;

    alter_itself(&person(&database).await).await;
    // Readers of `serve` have another login.
    let reader = database.connect_reader().await.unwrap();
    let query = "SELECT count(*), current_user::text FROM public.job_summary";
    let row = reader.query_one(query, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, String>(1)), (0, QUERY_ROLE.to_owned()));
    let found = check_readers(&database, &admin).await.unwrap();
    let text = found.reset_text().unwrap();
    for part in [
        "lock_timeout=1ms of throughline_read",
        "statement_timeout=1ms",
        "search_path=nowhere",
        "work_mem=4GB in database throughline",
        "password of throughline_read",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(reports(&owner).await, [text]);
    assert_eq!(settings(&person(&database).await).await, first);
    let password = "SELECT rolpassword FROM pg_authid WHERE rolname = 'throughline_read'";
    assert_eq!(admin.query_one(password, &[]).await.unwrap().get::<_, Option<String>>(0), None);
    assert!(is_quiet(&check_readers(&database, &admin).await.unwrap()), "and nothing more");

    // It removes the limits that it has. At the next start of `serve` it has them again.
    person(&database)
        .await
        .batch_execute("BEGIN READ WRITE; ALTER ROLE throughline_read RESET ALL; COMMIT")
        .await
        .unwrap();
    cluster.run(Lifetime::WithCaller).await.unwrap();
    assert!(reports(&owner).await.last().unwrap().contains("statement_timeout removed of throughline_read"));
    assert_eq!(settings(&person(&database).await).await, first);
}

#[tokio::test]
async fn attack_19_on_an_operated_database_its_owner_resets_it_as_a_member() {
    let state = State::new();
    let (_cluster, private) = start(&state).await;
    let admin = private.connect_admin().await.unwrap();
    // As an administrator gives it: a database and its owner, who may make no roles, and functions that everybody may call.
    admin.batch_execute("DROP OWNED BY throughline_read, throughline_query; DROP ROLE throughline_read, throughline_query").await.unwrap();
    let notify = "FUNCTION pg_catalog.pg_notify(text,text)";
    admin
        .batch_execute(&format!(
            "GRANT EXECUTE ON {notify} TO PUBLIC; REVOKE EXECUTE ON {notify} FROM {WRITE_ROLE}"
        ))
        .await
        .unwrap();
    let socket = private.socket_folder().unwrap();
    let url = format!("host={} user={WRITE_ROLE} dbname={}", socket.display(), private.name());
    let database = Database::from_url(&url).unwrap();
    migrate(&database).await.unwrap();
    let owner = database.connect_admin().await.unwrap();
    let found = check_readers(&database, &owner).await.unwrap();
    assert_eq!(found.missing, [QUERY_ROLE, READ_ROLE]);
    let lines = reader_role_statements(database.user());
    let text = found.missing_text(database.user()).unwrap();
    assert!(text.contains(&lines.join("; ")) && text.contains("administrator"), "{text}");

    // The administrator runs the three lines. The next round does the rest, without a restart.
    admin.batch_execute(&lines.join(";")).await.unwrap();
    let found = check_readers(&database, &owner).await.unwrap();
    assert_eq!((found.missing.len(), found.reset.len()), (0, 0), "{found:?}");
    let (functions, left): (Vec<_>, Vec<_>) =
        found.for_administrator.into_iter().partition(|line| line.contains("EXECUTE"));
    assert!(
        left.iter().all(|line| line.contains("temp_file_limit") || line.contains("log_min_")),
        "{left:?}"
    );
    assert_eq!(
        functions,
        [format!("GRANT EXECUTE ON {notify} TO {WRITE_ROLE}; REVOKE EXECUTE ON {notify} FROM PUBLIC")]
    );
    admin.batch_execute(&functions[0]).await.unwrap();
    let found = check_readers(&database, &owner).await.unwrap();
    assert!(found.for_administrator.iter().all(|line| !line.contains("EXECUTE")), "{found:?}");
    person(&private).await.query("SELECT * FROM public.job_summary", &[]).await.unwrap();
    admin.batch_execute("ALTER ROLE throughline_read SET temp_file_limit = '1GB'; ALTER ROLE throughline_read PASSWORD 'of Grafana'").await.unwrap();
    let first = settings(&person(&private).await).await;
    assert_eq!((first[0].as_str(), first[4].as_str()), ("5min", "1GB"), "{first:?}");

    alter_itself(&person(&private).await).await;
    let found = check_readers(&database, &owner).await.unwrap();
    assert!(found.reset_text().unwrap().contains("lock_timeout=1ms"), "{found:?}");
    assert!(reports(&owner).await[0].contains("lock_timeout=1ms"));
    // The administrator's limit stays, and so does the password, which is his.
    assert_eq!(settings(&person(&private).await).await, first);
    assert!(check_readers(&database, &owner).await.unwrap().reset.is_empty());
}

#[tokio::test]
async fn attack_20_nothing_of_a_reader_stays_on_any_disk_of_the_server() {
    let state = State::new();
    let (cluster, database) = start(&state).await;
    // The databases that each server has: no login at all.
    for other in ["postgres", "template1"] {
        for role in [READ_ROLE, QUERY_ROLE] {
            let error = testing::connect_as(&database, other, role).await.err().unwrap().to_string();
            assert!(
                error.contains("CONNECT") || error.contains("permission denied"),
                "{other}, {role}: {error}"
            );
        }
    }
    // One that somebody adds has no temporary tables from the next round on.
    let admin = database.connect_admin().await.unwrap();
    admin.batch_execute("CREATE DATABASE more").await.unwrap();
    check_readers(&database, &admin).await.unwrap();
    for name in [database.name(), "more"] {
        let person = testing::connect_as(&database, name, READ_ROLE).await.unwrap();
        person.batch_execute("SET default_transaction_read_only = off").await.unwrap();
        let error = person.batch_execute("CREATE TEMPORARY TABLE big AS SELECT 1").await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{name}: {error}");
    }
    let person = person(&database).await;
    person.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    for attack in [
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT pg_logical_emit_message(true, 'x', repeat('x', 100))",
        "SELECT pg_notify('x', 'x')",
        // Shared ones hold up upkeep and migrations as well.
        "SELECT pg_try_advisory_lock_shared(8391735946632716645)",
        "SELECT pg_advisory_xact_lock_shared(1)",
        "SELECT pg_try_advisory_xact_lock_shared(1, 2)",
    ] {
        let error = person.batch_execute(attack).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{attack}: {error}");
    }
    // Its errors and messages, whose text is its own, do not reach the server's log.
    for attack in [
        "DO $$ BEGIN RAISE LOG 'flood'; RAISE WARNING 'flood'; END $$",
        "SELECT 'flood'::integer",
        "SET log_min_messages = log",
    ] {
        _ = person.batch_execute(attack).await;
    }
    admin.batch_execute("DO $$ BEGIN RAISE LOG 'after it'; END $$").await.unwrap();
    let log = || {
        let folder = std::fs::read_dir(cluster.folder().join("data/log")).unwrap();
        folder.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect::<String>()
    };
    while !log().contains("after it") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!log().contains("flood"), "{}", log());
}

/// Waits until no session of a login does this.
async fn until_ended(admin: &Client, query: &str) {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE query = $1";
    while admin.query_one(count, &[&query]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn attack_21_a_read_without_end_ends_whatever_its_session_has_set() {
    let state = State::new();
    let (_cluster, database) = start(&state).await;
    let admin = database.connect_admin().await.unwrap();
    // A login of a site's own has the same bounds; the owner and `serve` have none.
    admin.batch_execute("CREATE ROLE ada LOGIN IN ROLE throughline_read").await.unwrap();
    let lifted = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
                  SET default_transaction_read_only = off";
    let catches = "DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$";
    let commits = "DO $$ BEGIN LOOP PERFORM pg_sleep(0.01); COMMIT; END LOOP; END $$";
    let sleeps = "SELECT pg_sleep(3600)";
    let mut running = Vec::new();
    for statement in [catches, commits, sleeps] {
        let person = person(&database).await;
        person.batch_execute(lifted).await.unwrap();
        running.push(tokio::spawn(async move { person.batch_execute(statement).await }));
    }
    let idle = person(&database).await;
    idle.batch_execute(&format!("{lifted}; BEGIN; LOCK TABLE internal.events IN ACCESS SHARE MODE"))
        .await
        .unwrap();
    let ours = database.connect_reader().await.unwrap();
    ours.batch_execute("BEGIN; SELECT 1 FROM internal.events").await.unwrap();
    let resting = person(&database).await;

    // Nobody is late yet.
    assert_eq!(end_long_reads(&admin, ReadBounds::default()).await.unwrap(), []);
    let bounds = ReadBounds { busy: Duration::from_millis(300), idle: Duration::from_millis(200) };
    let mut ended = Vec::new();
    while ended.len() < 4 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        ended.extend(end_long_reads(&admin, bounds).await.unwrap());
    }
    for task in running {
        let error = task.await.unwrap().unwrap_err();
        assert!(error.code().is_none_or(|code| code.code() == "57P01"), "{error}");
    }
    for statement in [catches, commits, sleeps] {
        until_ended(&admin, statement).await;
    }
    assert!(
        ended.iter().all(|one| one.role == READ_ROLE) && ended.iter().filter(|one| one.is_idle).count() >= 1,
        "{ended:?}"
    );
    assert!(idle.batch_execute("SELECT 1").await.is_err(), "its transaction is over");
    resting.batch_execute("SELECT 1").await.unwrap();
    ours.batch_execute("COMMIT").await.unwrap();
}
