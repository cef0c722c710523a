//! Nodes of fabrics, hosts and jobs by what people know of them.

use throughline_store::Error;
use tokio_postgres::{Client, Row};

/// A search result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// switch, ca, router, host or job.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Prefix of its subnet.
    pub subnet: Option<String>,
    /// Node GUID.
    pub guid: Option<String>,
    /// LID.
    pub lid: Option<i32>,
    /// The host that it is or belongs to.
    pub host: Option<String>,
    /// Key of the job.
    pub job_key: Option<String>,
}

/// Names are cut: one may have a megabyte. How well something fits: 0 is the same, 1 begins with it, 2 has it somewhere.
const SEARCH: &str = "
    WITH typed AS (SELECT lower($1::text) AS word, CASE WHEN $1 ~ '^[0-9]{1,6}$' THEN $1::integer END AS lid),
    -- Nodes of the port with this GUID.
    of_port AS (SELECT DISTINCT p.ib_node_id AS id FROM typed t JOIN internal.ib_port p ON p.port_guid = t.word
                WHERE p.valid_to IS NULL AND t.word ~ '^0x[0-9a-f]{16}$'),
    found AS (
        SELECT n.type AS kind, coalesce(nullif(n.description, ''), k.guid) AS name, s.name AS subnet, k.guid, n.lid,
               (SELECT h.name FROM internal.node h WHERE h.valid_to IS NULL AND k.guid = ANY (h.hca_guids) LIMIT 1) AS host,
               NULL::text AS job_key,
               CASE WHEN n.lid = a.lid OR k.guid = a.word OR o.id IS NOT NULL OR lower(n.description) = a.word THEN 0
                    WHEN starts_with(k.guid, a.word) OR starts_with(lower(n.description), a.word) THEN 1 ELSE 2 END AS rank
        FROM typed a, internal.ib_node_key k JOIN internal.ib_node n ON n.ib_node_id = k.id AND n.valid_to IS NULL
        JOIN internal.fabric s ON s.id = k.fabric_id LEFT JOIN of_port o ON o.id = k.id
        WHERE o.id IS NOT NULL OR n.lid = a.lid OR starts_with(k.guid, a.word) OR strpos(lower(n.description), a.word) > 0
        UNION ALL
        SELECT 'host', k.name, NULL, NULL, NULL, k.name, NULL,
               CASE WHEN lower(k.name) = a.word THEN 0 WHEN starts_with(lower(k.name), a.word) THEN 1 ELSE 2 END
        FROM typed a, internal.node_key k WHERE strpos(lower(k.name), a.word) > 0
        UNION ALL
        (SELECT 'job', coalesce(nullif(j.name, ''), j.key), NULL, NULL, NULL, NULL, j.key,
               CASE WHEN lower(j.key) = a.word OR j.native_id = a.word THEN 0
                    WHEN starts_with(lower(j.key), a.word) THEN 1 ELSE 2 END
        FROM typed a, internal.run_visible j
        WHERE strpos(lower(concat_ws(' ', j.key, j.native_id, j.user_name, j.name)), a.word) > 0
        ORDER BY 8, j.end_time IS NOT NULL, j.id DESC LIMIT $2)
    )
    SELECT kind, left(name, 256), subnet, guid, lid, host, job_key FROM found
    ORDER BY rank, kind = 'job', name, guid, job_key LIMIT $2";

/// What fits a word best; at most `limit`.
///
/// # Errors
/// The database's.
pub async fn search(client: &Client, word: &str, limit: i64) -> Result<Vec<SearchHit>, Error> {
    let rows = client.query(SEARCH, &[&word, &limit]).await.map_err(Error::sql("searching"))?;
    let found = |row: &Row| SearchHit {
        kind: row.get(0),
        name: row.get(1),
        subnet: row.get(2),
        guid: row.get(3),
        lid: row.get(4),
        host: row.get(5),
        job_key: row.get(6),
    };
    Ok(rows.iter().map(found).collect())
}
