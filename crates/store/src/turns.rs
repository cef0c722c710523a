//! Fair turns: of jobs that wait for the same work, each sender has one in its turn, and within a sender each owner.
//!
//! A flood of one sender or one owner delays only its own jobs. Owners are the word of a sender, which can invent them: therefore
//! senders come first. A job that several nodes report has the best of their turns, so that none of them can hold it back.
//!
//! What waits is read through an index on sender, owner and time, a few rows of each owner: a round reads as many rows as there are
//! owners, however many jobs wait.

/// Owners of one sender that have turns. No node runs jobs of more users at a time; one that reports more invents them.
const OWNERS_OF_SENDER_MAX: usize = 1024;

/// Jobs of one owner that are looked at in a round: more than a round has time for.
const JOBS_OF_OWNER_MAX: usize = 256;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    /// The sender: a node that reports the job.
    pub node_id: i64,
    /// The owner by that node's word; -1 where it names none.
    pub uid: i64,
}

/// A table in which jobs wait, each row in the turn of its `node_id`. There is an index on `node_id`, owner, class, time.
pub(crate) struct TurnQueue {
    /// The table.
    pub table: &'static str,
    /// The owner, in SQL.
    pub owner: &'static str,
    /// The condition of the index.
    pub is_waiting: &'static str,
    /// From when on the row waits, in SQL.
    pub due: &'static str,
    /// A column that says that others of the same owner come first: two for each of these, so that none waits for ever.
    pub comes_later: Option<&'static str>,
}

impl TurnQueue {
    /// Jobs that are due, in turns: `job_id`, `node_id`, `uid`, `place` and `due`, by the last two. $1 is the most.
    pub fn select(&self) -> String {
        let Self { table, owner, is_waiting, .. } = self;
        let jobs = self.jobs_of_owner();
        format!(
            "WITH RECURSIVE owners AS (
                (SELECT q.node_id, {owner} AS uid, 1 AS number FROM {table} q WHERE {is_waiting} ORDER BY q.node_id, {owner} LIMIT 1)
                UNION ALL
                SELECT n.node_id, n.uid, CASE WHEN n.node_id = o.node_id THEN o.number + 1 ELSE 1 END
                FROM owners o CROSS JOIN LATERAL (
                    SELECT q.node_id, {owner} AS uid FROM {table} q
                    WHERE {is_waiting} AND (q.node_id, {owner}) >
                        (o.node_id, CASE WHEN o.number < {OWNERS_OF_SENDER_MAX} THEN o.uid ELSE {last_uid} END)
                    ORDER BY q.node_id, {owner} LIMIT 1) n
            ), of_owner AS (
                SELECT o.node_id, o.uid, j.job_id, j.due,
                    row_number() OVER (PARTITION BY o.node_id, o.uid ORDER BY j.weight, j.weight_of_class, j.due, j.job_id) AS number
                FROM owners o CROSS JOIN LATERAL ({jobs}) j
            ), of_sender AS (
                SELECT *, row_number() OVER (PARTITION BY node_id ORDER BY number, due, job_id) AS place,
                    count(*) OVER (PARTITION BY node_id) AS jobs
                FROM of_owner
            ), best AS (
                SELECT DISTINCT ON (job_id) job_id, node_id, uid, place, due FROM of_sender ORDER BY job_id, place, jobs, node_id
            )
            SELECT job_id, node_id, uid, place, due FROM best ORDER BY place, due, job_id LIMIT $1",
            last_uid = i64::MAX,
        )
    }

    /// Jobs of owner `o` that are due, with their weights: those of the class that comes later count twice.
    fn jobs_of_owner(&self) -> String {
        let Self { table, owner, is_waiting, due, comes_later } = self;
        let classes = match comes_later {
            None => vec![(String::new(), 1)],
            Some(column) => vec![(format!("AND NOT q.{column}"), 1), (format!("AND q.{column}"), 2)],
        };
        let of_class = |(condition, weight): &(String, i32)| {
            format!(
                "SELECT c.job_id, c.due, {weight} * row_number() OVER (ORDER BY c.due, c.job_id) AS weight, {weight} AS weight_of_class
                 FROM (SELECT q.job_id, q.{due} AS due FROM {table} q
                       WHERE {is_waiting} AND q.node_id = o.node_id AND {owner} = o.uid {condition} AND q.{due} <= now()
                       ORDER BY q.{due} LIMIT {JOBS_OF_OWNER_MAX}) c"
            )
        };
        classes.iter().map(of_class).collect::<Vec<_>>().join(" UNION ALL ")
    }
}
