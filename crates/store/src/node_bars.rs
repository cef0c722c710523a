//! Nodes and certificates that are barred: one list in the database, written by an administrator and read by every server.
//!
//! A node is barred by its name, which refuses each certificate with that name, or one certificate is by its serial number. What
//! such a certificate sent records as is in `node_certificate`.

use std::time::{Duration, SystemTime};

use tokio_postgres::{Client, GenericClient, Row};

use crate::database::Database;
use crate::error::Error;
use crate::lazy_connection::LazyConnection;

/// Time for one statement.
const LIMIT: Duration = Duration::from_secs(5);

/// What a server does with the list, for errors.
const WHAT: &str = "reading the list of barred nodes";

/// Certificates that were not seen for so long are forgotten, unless they are barred.
const CERTIFICATE_RETENTION: Duration = Duration::from_secs(400 * 86_400);

/// What is barred.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BarSubject {
    /// Each certificate with this DNS name.
    Node(String),
    /// The certificate with this serial number, as [`serial_number`] writes it.
    Serial(String),
}

impl std::fmt::Display for BarSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BarSubject::Node(name) => write!(f, "node {name}"),
            BarSubject::Serial(serial) => write!(f, "the certificate {serial}"),
        }
    }
}

impl BarSubject {
    fn columns(&self) -> (Option<&str>, Option<&str>) {
        match self {
            BarSubject::Node(name) => (Some(name), None),
            BarSubject::Serial(serial) => (None, Some(serial)),
        }
    }
}

/// A serial number as it is stored, of hexadecimal digits as `openssl x509 -serial` or a browser writes them: lower case, without
/// colons and leading zeros. `None` where the text is no such number.
#[must_use]
pub fn serial_number(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches("serial=");
    let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let digits: String = text.chars().filter(|c| *c != ':').map(|c| c.to_ascii_lowercase()).collect();
    // RFC 5280, 4.1.2.2: at most 20 octets.
    let is_number = (1..=40).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_number.then(|| match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        number => number.to_owned(),
    })
}

/// An entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBar {
    /// What is barred.
    pub subject: BarSubject,
    /// Since when.
    pub since: SystemTime,
    /// By which user of the server's machine.
    pub barred_by: String,
    /// Why; empty where that was not given.
    pub reason: String,
}

/// A certificate that sent records as a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCertificate {
    /// The node, or the crawler by a name of its certificate. Empty for a certificate that is barred and never sent anything.
    pub node: String,
    /// Its serial number; empty for a barred node without a known certificate.
    pub serial: String,
    /// When it first and last sent records.
    pub seen: Option<(SystemTime, SystemTime)>,
    /// Whether and since when it is refused, by either.
    pub bar: Option<NodeBar>,
}

const EVENT: &str = "INSERT INTO internal.events (time, instance, source, kind, severity, text) \
                     VALUES (now(), 'server', 'collector', $1, 'warning', $2)";

/// Bars a node or a certificate. False where it is barred already.
///
/// # Errors
/// The database is away or refuses.
pub async fn bar_node(
    client: &mut Client,
    subject: &BarSubject,
    by: &str,
    reason: &str,
) -> Result<bool, Error> {
    const BAR: &str = "INSERT INTO internal.node_bar (node, serial, barred_by, reason) VALUES ($1, $2, $3, $4) \
                       ON CONFLICT DO NOTHING";
    let what = "barring a node";
    let (node, serial) = subject.columns();
    let transaction = client.transaction().await.map_err(Error::sql(what))?;
    let barred = transaction.execute(BAR, &[&node, &serial, &by, &reason]).await.map_err(Error::sql(what))?;
    if barred == 0 {
        return Ok(false);
    }
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let text = format!("{subject} was barred by {by}{because}");
    transaction.execute(EVENT, &[&"node.barred", &text]).await.map_err(Error::sql(what))?;
    transaction.commit().await.map_err(Error::sql(what))?;
    Ok(true)
}

/// Lets a node or a certificate in again. False where it was not barred.
///
/// # Errors
/// As [`bar_node`].
pub async fn unbar_node(client: &mut Client, subject: &BarSubject, by: &str) -> Result<bool, Error> {
    const UNBAR: &str = "UPDATE internal.node_bar SET until = now(), unbarred_by = $3 \
                         WHERE until IS NULL AND (node = $1 OR serial = $2)";
    let what = "letting a barred node in again";
    let (node, serial) = subject.columns();
    let transaction = client.transaction().await.map_err(Error::sql(what))?;
    if transaction.execute(UNBAR, &[&node, &serial, &by]).await.map_err(Error::sql(what))? == 0 {
        return Ok(false);
    }
    let text = format!("{subject} was let in again by {by}");
    transaction.execute(EVENT, &[&"node.unbarred", &text]).await.map_err(Error::sql(what))?;
    transaction.commit().await.map_err(Error::sql(what))?;
    Ok(true)
}

/// All certificates that sent records as a node, and all that is barred, in the order of names.
///
/// # Errors
/// As [`bar_node`].
pub async fn node_certificates(client: &Client) -> Result<Vec<NodeCertificate>, Error> {
    const SQL: &str = "
        SELECT c.node, c.serial, c.first_at, c.last_at, b.node, b.serial, b.since, b.barred_by, b.reason
        FROM internal.node_certificate c
        LEFT JOIN LATERAL (
            SELECT * FROM internal.node_bar b WHERE b.until IS NULL AND (b.node = c.node OR b.serial = c.serial)
            ORDER BY b.id LIMIT 1) b ON true
        UNION ALL
        SELECT coalesce(b.node, ''), coalesce(b.serial, ''), NULL, NULL, b.node, b.serial, b.since, b.barred_by, b.reason
        FROM internal.node_bar b
        WHERE b.until IS NULL AND NOT EXISTS (
            SELECT FROM internal.node_certificate c WHERE c.node = b.node OR c.serial = b.serial)
        ORDER BY 1, 4 DESC NULLS LAST, 2";
    let rows = client.query(SQL, &[]).await.map_err(Error::sql("listing barred nodes"))?;
    let certificate = |row: &Row| NodeCertificate {
        node: row.get(0),
        serial: row.get(1),
        seen: row.get::<_, Option<SystemTime>>(2).zip(row.get(3)),
        bar: bar(row, 4),
    };
    Ok(rows.iter().map(certificate).collect())
}

/// Names of all nodes that are barred, by name or by the serial number of a certificate that sent records as them: what they
/// claimed does not count.
///
/// # Errors
/// As [`bar_node`].
pub async fn barred_nodes(client: &impl GenericClient) -> Result<Vec<String>, Error> {
    const SQL: &str = "SELECT DISTINCT node FROM internal.barred_nodes ORDER BY node";
    let rows = client.query(SQL, &[]).await.map_err(Error::sql("listing barred nodes"))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// An entry of the list in the columns from this one on; `None` where they are NULL.
fn bar(row: &Row, first: usize) -> Option<NodeBar> {
    let node = row.get::<_, Option<String>>(first).map(BarSubject::Node);
    let subject = node.or_else(|| row.get::<_, Option<String>>(first + 1).map(BarSubject::Serial))?;
    let (since, barred_by, reason) = (row.get(first + 2), row.get(first + 3), row.get(first + 4));
    Some(NodeBar { subject, since, barred_by, reason })
}

/// The list as a server reads it again and again, through one connection.
#[derive(Debug)]
pub struct NodeBars {
    connection: LazyConnection,
}

impl NodeBars {
    /// Connects with the first call.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { connection: LazyConnection::new(database) }
    }

    /// All that is barred now.
    ///
    /// # Errors
    /// The database is away, or refuses.
    pub async fn barred(&mut self) -> Result<Vec<NodeBar>, Error> {
        const SQL: &str =
            "SELECT node, serial, since, barred_by, reason FROM internal.node_bar WHERE until IS NULL";
        let rows = self.connection.with(WHAT, LIMIT, async |client| client.query(SQL, &[]).await).await?;
        Ok(rows.iter().filter_map(|row| bar(row, 0)).collect())
    }

    /// Notes which names certificates sent records as: node and serial number.
    ///
    /// # Errors
    /// As [`NodeBars::barred`].
    pub async fn note(&mut self, seen: &[(String, String)]) -> Result<(), Error> {
        const SQL: &str = "
            WITH old AS (
                DELETE FROM internal.node_certificate c WHERE c.last_at < (SELECT internal.expiry_time()) - make_interval(secs => $3)
                  AND NOT EXISTS (SELECT FROM internal.node_bar b WHERE b.serial = c.serial AND b.until IS NULL))
            INSERT INTO internal.node_certificate (node, serial)
            SELECT DISTINCT s.node, s.serial FROM unnest($1::text[], $2::text[]) s (node, serial) ORDER BY 1, 2
            ON CONFLICT (node, serial) DO UPDATE SET last_at = now()";
        let (nodes, serials): (Vec<&str>, Vec<&str>) =
            seen.iter().map(|(node, serial)| (node.as_str(), serial.as_str())).unzip();
        let retention = CERTIFICATE_RETENTION.as_secs_f64();
        self.connection
            .with(WHAT, LIMIT, async |client| client.execute(SQL, &[&nodes, &serials, &retention]).await)
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_is_the_same_however_it_is_written() {
        for text in ["0A:1b:C0", "serial=0A1BC0", "0x0a1bc0", " a1bc0\n"] {
            assert_eq!(serial_number(text).as_deref(), Some("a1bc0"), "{text}");
        }
        assert_eq!(serial_number("00").as_deref(), Some("0"));
        for text in ["", "n1", "12 34", &"1".repeat(41)] {
            assert_eq!(serial_number(text), None, "{text}");
        }
    }
}
