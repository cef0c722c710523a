//! Prometheus' HTTP API, the two calls that panels make. Plain HTTP only: it is a check, run beside its server.

use crate::Error;
use crate::expand::Window;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// As for SQL: a panel that takes longer is of no use.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// A panel's answer is far smaller; more is a query that forgot to aggregate.
const ANSWER_LIMIT_BYTES: u64 = 64 << 20;

/// A server's address.
#[derive(Clone, Debug)]
pub struct Prometheus {
    address: String,
    path: String,
}

/// One series of an answer.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Series {
    /// Labels with `__name__`.
    pub metric: BTreeMap<String, String>,
    /// Time in seconds and value as text.
    #[serde(default)]
    pub values: Vec<(f64, String)>,
}

#[derive(Deserialize)]
struct Reply {
    status: String,
    #[serde(default)]
    error: String,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    kind: String,
    #[serde(default)]
    result: serde_json::Value,
}

impl Prometheus {
    /// A server by its URL, `http://HOST:PORT` and a path where there is one.
    ///
    /// # Errors
    /// [`Error::Prometheus`] for another form of URL.
    pub fn at(url: &str) -> Result<Self, Error> {
        let cause =
            || Error::Prometheus { address: url.to_owned(), cause: String::from("not an http:// URL") };
        let rest = url.strip_prefix("http://").ok_or_else(cause)?;
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = if address.contains(':') { address.to_owned() } else { format!("{address}:80") };
        Ok(Self { address, path: path.trim_end_matches('/').to_owned() })
    }

    /// Whether it is up and has loaded its data.
    pub async fn is_ready(&self) -> bool {
        self.request("GET", "-/ready", "").await.is_ok_and(|(status, _)| status == 200)
    }

    /// A range query over the window with its step. The text is the server's message.
    pub async fn query_range(&self, expression: &str, window: &Window) -> Result<Vec<Series>, String> {
        let seconds = |nanos: i64| format!("{:.3}", nanos as f64 / 1e9);
        let step = format!("{:.3}", window.step.as_secs_f64());
        let (from, to) = (seconds(window.from), seconds(window.to));
        let form = [("query", expression), ("start", &from), ("end", &to), ("step", &step)];
        let body = form.map(|(key, value)| format!("{key}={}", percent_encoded(value))).join("&");
        let (status, text) =
            self.request("POST", "api/v1/query_range", &body).await.map_err(|e| e.to_string())?;
        let reply: Reply =
            serde_json::from_str(&text).map_err(|error| format!("status {status}, no JSON: {error}"))?;
        match reply.data {
            Some(data) if reply.status == "success" && data.kind == "matrix" => {
                serde_json::from_value(data.result).map_err(|error| error.to_string())
            }
            Some(data) if reply.status == "success" => Err(format!("a {} instead of series", data.kind)),
            _ => Err(reply.error),
        }
    }

    async fn request(&self, method: &str, path: &str, body: &str) -> Result<(u16, String), Error> {
        let fail = |cause: String| Error::Prometheus { address: self.address.clone(), cause };
        let exchange = async {
            let mut stream = TcpStream::connect(&self.address).await?;
            let prefix = if self.path.is_empty() { String::new() } else { format!("/{}", self.path) };
            // HTTP/1.0: the answer ends with the connection and comes in one piece.
            let head = format!(
                "{method} {prefix}/{path} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                 Content-Length: {}\r\n\r\n",
                self.address,
                body.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.take(ANSWER_LIMIT_BYTES).read_to_end(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(TIME_LIMIT, exchange)
            .await
            .map_err(|_| fail(format!("no answer within {} s", TIME_LIMIT.as_secs())))?
            .map_err(|error| fail(error.to_string()))?;
        let text = String::from_utf8_lossy(&answer);
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| fail(String::from("no HTTP answer")))?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Ok((status, body.to_owned()))
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String can't fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
