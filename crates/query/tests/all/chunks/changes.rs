//! Blocks of readings while these change: what comes late, what is dropped, what is damaged, and upkeep that is killed.

use super::*;

/// Readings of some ports each 5 s.
fn batch(ports: &[u32], seconds: impl Iterator<Item = i64> + Clone) -> Batch {
    let base = BEGIN - START / SECOND;
    let sample = |port, second: i64| {
        let value = u64::try_from(second * 100 + i64::from(port)).unwrap();
        port_sample(port, base + second, base, &[(&TRANSMIT_DATA_BYTES, value), (&SYMBOL_ERROR, 3)])
    };
    let samples = ports.iter().flat_map(|port| seconds.clone().map(|second| sample(*port, second))).collect();
    Batch { fabric: throughline_store::testing::fabric(PREFIX), ib_ports: samples, ..Batch::default() }
}

/// A switch with two ports and the readings of two hours, in a database; the writer goes on with what is late.
struct Site {
    database: Database,
    cache: BlockCache,
    writer: throughline_store::Writer,
    sequence: u64,
}

impl Site {
    async fn new() -> Site {
        let database = testing::database().await;
        let writer = throughline_store::Writer::new(database.clone());
        let mut site = Site { database, cache: no_cache(), writer, sequence: 0 };
        let whole = (0..2 * HOUR).step_by(5).filter(|second| !(4000..4600).contains(second));
        site.write(batch(&[1, 2], whole)).await;
        let client = site.database.connect().await.unwrap();
        let node = format!(
            "INSERT INTO internal.ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, valid_from)
             SELECT id, guid, 'switch', 's', 1, 1, 1, guid, 1, to_timestamp({BEGIN}) FROM internal.ib_node_key"
        );
        client.batch_execute(&node).await.unwrap();
        site
    }

    async fn write(&mut self, batch: Batch) {
        self.sequence += 1;
        let outcome = self.writer.write(&[entry(Uuid::from_u128(7), self.sequence, batch)]).await.unwrap();
        assert_eq!(outcome.quarantined, 0);
    }

    /// Samples of each port in the two hours. Who has blocks in memory and who has none are returned the same.
    async fn answer(&self) -> Vec<usize> {
        let first = answer(&self.database, BYTES, hours(0, 2)).await;
        assert_eq!(answers_with((&self.database, &self.cache), BYTES, hours(0, 2)).await, first);
        first.values().map(Vec::len).collect()
    }

    /// The same by the one server that requests again and again.
    async fn answer_again(&self) -> Vec<usize> {
        answers_with((&self.database, &self.cache), BYTES, hours(0, 2)).await.values().map(Vec::len).collect()
    }
}

#[tokio::test]
async fn what_comes_late_is_seen_at_once_and_packed_again() {
    let mut site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    minutes_made(&site.database).await;
    assert_eq!(site.answer().await, [1320, 1320]);
    let made = blocks_made(&site.database).await.unwrap();
    assert_eq!((made.blocks, made.samples), (4, 4 * 1320));
    assert_eq!(site.answer().await, [1320, 1320]);

    // At each step the answer has all of it: noted, then without a block, then packed.
    site.write(batch(&[2], (4000..4600).step_by(5))).await;
    assert_eq!(count(&client, "internal.minute_late").await, 1);
    assert_eq!(site.answer().await, [1320, 1440]);
    minutes_made(&site.database).await;
    assert_eq!(
        (count(&client, "internal.minute_late").await, count(&client, "internal.block_wanted").await),
        (0, 1)
    );
    assert_eq!(site.answer().await, [1320, 1440]);
    let again = blocks_made(&site.database).await.unwrap();
    assert_eq!(
        (again.blocks, again.samples),
        (1, 2 * 720),
        "of the other port and hour nothing was made again"
    );
    assert_eq!(site.answer().await, [1320, 1440]);
    // It is the blocks that answer.
    client.batch_execute("DELETE FROM internal.ib_port_counters").await.unwrap();
    assert_eq!(site.answer().await, [1320, 1440]);
}

#[tokio::test]
async fn a_counter_at_its_end_is_shown_as_pages_show_it() {
    const ERRORS: &str = "infiniband_switch_port_symbol_error_total";
    const FULL: &str = "infiniband_switch_port_symbol_error_saturated";
    let mut site = Site::new().await;
    // Behind the last reading of the second hour.
    let base = BEGIN - START / SECOND;
    let mut full = port_sample(1, base + 2 * HOUR - 2, base, &[(&TRANSMIT_DATA_BYTES, 1 << 40)]);
    full.saturated = vec![SYMBOL_ERROR.id];
    let time = full.time / 1_000_000;
    site.write(Batch {
        fabric: throughline_store::testing::fabric(PREFIX),
        ib_ports: vec![full],
        ..Batch::default()
    })
    .await;
    let newest = async |name: &str| -> Vec<(i64, f64)> {
        let series = answer(&site.database, name, hours(0, 2)).await.into_values();
        series.filter_map(|points| points.last().map(|(time, bits)| (*time, f64::from_bits(*bits)))).collect()
    };
    let by_rows = newest(ERRORS).await;
    assert_eq!(by_rows.first(), Some(&(time, 65_535.0)), "not absent: its alerts must not resolve");
    assert_eq!(newest(FULL).await, [(time, 1.0)]);
    minutes_made(&site.database).await;
    blocks_made(&site.database).await.unwrap();
    assert_eq!(newest(ERRORS).await, by_rows);
    assert_eq!(newest(FULL).await, [(time, 1.0)]);
}

#[tokio::test]
async fn what_was_read_answers_from_memory_while_it_holds() {
    let site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    minutes_made(&site.database).await;
    blocks_made(&site.database).await.unwrap();
    assert_eq!(site.answer().await, [1320, 1320]);
    // Nothing is left to be read, in rows that the same transaction made.
    let gone = "DELETE FROM internal.ib_port_counters;
                ALTER TABLE internal.ib_port_blocks DROP COLUMN samples CASCADE, DROP COLUMN metrics CASCADE, DROP COLUMN offsets CASCADE;
                ALTER TABLE internal.ib_port_blocks ADD COLUMN samples bytea, ADD COLUMN metrics integer[], ADD COLUMN offsets integer[]";
    client.batch_execute(gone).await.unwrap();
    assert_eq!(site.answer_again().await, [1320, 1320]);
    assert!(
        answer(&site.database, BYTES, hours(0, 2)).await.is_empty(),
        "who has none in memory finds nothing"
    );
    // One is made anew, of readings that are gone: all of its port is read again, and nothing of the other one.
    let want =
        format!("INSERT INTO internal.block_wanted VALUES ('ib_port_blocks', to_timestamp({BEGIN}), 1)");
    client.batch_execute(&want).await.unwrap();
    blocks_made(&site.database).await.unwrap();
    assert_eq!(site.answer_again().await, [1320]);
    client.batch_execute("DELETE FROM internal.ib_port_blocks WHERE port_id = 2").await.unwrap();
    assert!(site.answer_again().await.is_empty());
}

#[tokio::test]
async fn readings_of_a_whole_day_that_come_late_touch_each_of_its_hours() {
    let mut site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    site.write(batch(&[1], (20 * HOUR..20 * HOUR + 60).step_by(5))).await;
    minutes_made(&site.database).await;
    blocks_made(&site.database).await.unwrap();
    site.write(batch(&[2], (2 * HOUR - 30..9 * HOUR).step_by(30))).await;
    minutes_made(&site.database).await;
    let touched =
        "SELECT array_agg(extract(epoch FROM time)::bigint ORDER BY time) FROM internal.block_wanted";
    let touched: Vec<i64> = client.query_one(touched, &[]).await.unwrap().get(0);
    assert_eq!(touched, (1..9).map(|hour| BEGIN + hour * HOUR).collect::<Vec<_>>());
    let before = answer(&site.database, BYTES, hours(0, 24)).await;
    blocks_made(&site.database).await.unwrap();
    assert_eq!(answer(&site.database, BYTES, hours(0, 24)).await, before);
}

#[tokio::test]
async fn upkeep_that_is_killed_leaves_nothing_wrong_and_the_next_one_goes_on() {
    let mut site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    minutes_made(&site.database).await;
    /// Ends the session that waits for this lock.
    async fn killed(client: &mut Client, table: &str, work: impl Future<Output = bool> + Send + 'static) {
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute(&format!("LOCK TABLE internal.{table} IN EXCLUSIVE MODE")).await.unwrap();
        let work = tokio::spawn(work);
        let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks \
                    WHERE NOT granted AND relation = ('internal.' || $1::text)::regclass";
        while transaction.query_one(kill, &[&table]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(work.await.unwrap(), "it was killed");
        transaction.rollback().await.unwrap();
    }
    let mut holder = site.database.connect().await.unwrap();
    let database = site.database.clone();
    killed(&mut holder, "ib_port_blocks", async move { blocks_made(&database).await.is_err() }).await;
    assert_eq!(count(&client, "internal.ib_port_blocks").await, 0);
    assert_eq!(count(&client, "internal.block_wanted").await, 4);
    assert_eq!(site.answer().await, [1320, 1320]);
    assert_eq!(blocks_made(&site.database).await.unwrap().blocks, 4);

    // While blocks of late readings are forgotten.
    site.write(batch(&[1, 2], (4000..4600).step_by(5))).await;
    let database = site.database.clone();
    killed(&mut holder, "ib_port_blocks", async move {
        let mut client = database.connect().await.unwrap();
        make_rollups(&mut client, &Retention::for_all(ALWAYS), PATIENCE).await.is_err()
    })
    .await;
    assert_eq!(count(&client, "internal.minute_late").await, 2, "the notes are there still");
    assert_eq!(site.answer().await, [1440, 1440]);
    minutes_made(&site.database).await;
    assert_eq!(blocks_made(&site.database).await.unwrap().blocks, 2);
    client.batch_execute("DELETE FROM internal.ib_port_counters").await.unwrap();
    assert_eq!(site.answer().await, [1440, 1440]);
}

#[tokio::test]
async fn blocks_go_with_their_readings_and_answer_no_longer_than_they() {
    let site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    minutes_made(&site.database).await;
    blocks_made(&site.database).await.unwrap();
    // Readings went by a policy, blocks are to follow.
    let drop = format!(
        "SELECT public.drop_chunks('internal.ib_port_counters', older_than => to_timestamp({BEGIN} + 3600))"
    );
    client.query(&drop, &[]).await.unwrap();
    let mixed = site.answer().await;
    assert!(mixed[0] < 700, "an hour of minutes and one of readings: {mixed:?}");
    client.batch_execute("DELETE FROM internal.ib_port_blocks").await.unwrap();
    assert_eq!(site.answer().await, mixed);
    // What is older than retention keeps readings is neither made again nor retained.
    let want = format!(
        "INSERT INTO internal.block_wanted SELECT 'ib_port_blocks', to_timestamp({BEGIN}), id FROM internal.ib_port_key"
    );
    client.batch_execute(&want).await.unwrap();
    let short = Retention::for_all(Duration::from_secs(3600));
    let made = encode_chunks(&mut site.database.connect().await.unwrap(), &short, PATIENCE).await.unwrap();
    assert_eq!((made.blocks, count(&client, "internal.ib_port_blocks").await), (0, 0));
    client.batch_execute(&want).await.unwrap();
    blocks_made(&site.database).await.unwrap();
    assert!(count(&client, "internal.ib_port_blocks").await > 0);
    apply_retention(&client, &short, None).await.unwrap();
    let mut policies =
        count(&client, "timescaledb_information.jobs WHERE hypertable_name = 'ib_port_blocks'").await;
    if policies == 0 {
        policies = i64::from(count(&client, "internal.ib_port_blocks").await == 0);
    }
    assert_eq!(policies, 1, "dropped, or to be dropped by the database");
}

#[tokio::test]
async fn a_damaged_block_is_reported_with_a_remedy_that_helps() {
    let site = Site::new().await;
    let client = site.database.connect().await.unwrap();
    minutes_made(&site.database).await;
    blocks_made(&site.database).await.unwrap();
    let place = format!("offsets[array_position(metrics, {})] + 10", TRANSMIT_DATA_BYTES.id);
    let changed = format!("set_byte(samples, {place}, 1 + get_byte(samples, {place}) % 255)");
    for damage in [changed.as_str(), "substr(samples, 1, 20)", "''", "NULL"] {
        let damaged = format!(
            "UPDATE internal.ib_port_blocks SET samples = {damage} WHERE port_id = 1 AND time = to_timestamp({BEGIN})"
        );
        client.batch_execute(&damaged).await.unwrap();
        let error = request((&site.database, &no_cache()), BYTES, hours(0, 2), Thinning::None, true)
            .await
            .unwrap_err()
            .to_string();
        let remedy = error.split_once("damaged; ").unwrap().1.split_once(" has its").unwrap().0;
        assert!(
            error.contains("ib_port_blocks")
                && remedy.starts_with("DELETE FROM internal.ib_port_blocks WHERE port_id = 1"),
            "{error}"
        );
        client.batch_execute(remedy).await.unwrap();
        assert_eq!(site.answer().await, [1320, 1320]);
        client
            .batch_execute(&format!(
                "INSERT INTO internal.block_wanted VALUES ('ib_port_blocks', to_timestamp({BEGIN}), 1)"
            ))
            .await
            .unwrap();
        assert_eq!(blocks_made(&site.database).await.unwrap().blocks, 1);
    }
}
