//! `server.toml`: what `throughline serve` does, and its bounds.

mod database;
mod detail;
mod export;
mod report;
mod retention;

pub use database::{DatabaseConfig, Databases};
use detail::DetailConfig;
use export::ExportConfig;
use report::ReportConfig;
use retention::{RETENTION_SECONDS_MAX, RetentionConfig, UpkeepConfig};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_collector::limits::CONNECTIONS_CEILING;
use throughline_collector::{
    AcceptTimes, Access as Senders, Crawlers, Limits as Connections, QuotaLimits, Socket,
};
use throughline_daemon::certificates::Purpose;
use throughline_daemon::peer::LocalUsers;
use throughline_daemon::{Failure, Token, TokenFile};
use throughline_delivery::{COLLECT_SOCKET, TlsFiles};
use throughline_gateway::access::{Access, Proxy};
use throughline_gateway::promql::Promql;
use throughline_gateway::read::{Limits, OwnHistory};
use throughline_gateway::thresholds::ThresholdsConfig;
use throughline_gateway::tls::ServerTls;
use throughline_gateway::upkeep;
use throughline_store::{Groups, NodeLimits};

/// Clocks further ahead than a day would make chunks that retention never reaches.
const ACCEPT_FUTURE_SECONDS_MAX: u64 = 24 * 3600;

/// Connections that write at a time: PostgreSQL works on one core for each, and the server needs one, too.
const WRITERS: usize = 2;

/// The most of them: PostgreSQL has 100 connections by default.
const WRITERS_MAX: usize = 16;

/// Most samples of one remote-read: what a Prometheus with default settings takes is a hundredth of it.
const SAMPLES_MAX: u64 = 5_000_000_000;

/// Longest statement: a day.
const QUERY_SECONDS_MAX: u64 = 24 * 3600;

/// Most connections for queries: PostgreSQL has 100 by default.
const QUERIES_AT_ONCE_MAX: u64 = 90;

/// Most connections of readers: each takes a descriptor, and collect needs one for each sender.
const CONNECTIONS_MAX: u64 = 100_000;

/// Longest name of a group of hosts and longest pattern, bytes: they are shown in tables and alerts.
const GROUP_BYTES_MAX: usize = 253;

/// The whole configuration; every part has defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Which database.
    pub database: DatabaseConfig,
    /// Role collect.
    pub collect: CollectConfig,
    /// Role query.
    pub query: QueryConfig,
    /// Role upkeep.
    pub upkeep: UpkeepConfig,
    /// Reports of jobs that have ended.
    pub report: ReportConfig,
    /// Role export.
    pub export: ExportConfig,
    /// Detail on demand.
    pub detail: DetailConfig,
    /// How long rows are kept.
    pub retention: RetentionConfig,
    /// Groups of hosts by patterns of their names.
    pub groups: BTreeMap<String, Vec<String>>,
}

/// `[collect]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CollectConfig {
    /// Whether this server takes batches.
    pub enabled: bool,
    /// Where; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Certificates, for senders on other machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// Names in the certificates of fabric crawlers.
    pub crawlers: CrawlersConfig,
    /// How old a record may be that is stored.
    pub accept_past_seconds: u64,
    /// How far ahead of this server's clock a record may be.
    pub accept_future_seconds: u64,
    /// Unix socket, below the run-time folder where relative; empty for none.
    pub socket: PathBuf,
    /// Users of this machine who may send without a certificate.
    pub local_users: Vec<String>,
    /// File with the token that other users of this machine may send with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Connections to the database that write at a time.
    pub writers: usize,
    /// Connections at once.
    pub connections_max: usize,
    /// Of these those of one certificate.
    pub connections_per_sender_max: usize,
    /// Rows of one certificate in a second; more wait at their sender.
    pub rows_per_second_of_sender: u32,
    /// Events of one certificate in a second; more are rejected.
    pub events_per_second_of_sender: u32,
    /// The same of a crawler's certificate.
    pub rows_per_second_of_crawler: u32,
    /// The same of a crawler's certificate.
    pub events_per_second_of_crawler: u32,
    /// Jobs that a node reports at a time; more are rejected.
    pub jobs_per_node_max: u32,
    /// Jobs that a node begins to report in an hour, half of them of one user.
    pub jobs_per_hour_of_node: u32,
    /// GPUs of a node.
    pub gpus_per_node_max: u32,
    /// Adapters of a node, and ports of them.
    pub ports_per_node_max: u32,
}

/// `collect.crawlers`: names, or names with those of their fabrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CrawlersConfig {
    /// Crawlers of any fabric.
    Any(BTreeSet<String>),
    /// Crawlers of these fabrics.
    Fabrics(BTreeMap<String, Vec<String>>),
}

impl CrawlersConfig {
    fn crawlers(&self) -> Crawlers {
        let none = Crawlers::default();
        match self {
            CrawlersConfig::Any(names) => names.iter().fold(none, |all, name| all.with(name.clone(), [])),
            CrawlersConfig::Fabrics(names) => names
                .iter()
                .fold(none, |all, (name, fabrics)| all.with(name.clone(), fabrics.iter().cloned())),
        }
    }
}

impl Default for CollectConfig {
    fn default() -> Self {
        let (limits, accept) = (Connections::default(), AcceptTimes::default());
        let (quotas, node) = (QuotaLimits::default(), NodeLimits::default());
        Self {
            enabled: true,
            listen: ([127, 0, 0, 1], 9463).into(),
            tls: None,
            crawlers: CrawlersConfig::Any(BTreeSet::new()),
            accept_past_seconds: accept.past.as_secs(),
            accept_future_seconds: accept.future.as_secs(),
            socket: COLLECT_SOCKET.into(),
            local_users: Vec::new(),
            token_file: None,
            writers: WRITERS,
            connections_max: limits.connections,
            connections_per_sender_max: limits.per_sender,
            rows_per_second_of_sender: quotas.rows_per_second_of_sender,
            events_per_second_of_sender: quotas.events_per_second_of_sender,
            rows_per_second_of_crawler: quotas.rows_per_second_of_crawler,
            events_per_second_of_crawler: quotas.events_per_second_of_crawler,
            jobs_per_node_max: node.jobs_max,
            jobs_per_hour_of_node: node.jobs_per_hour,
            gpus_per_node_max: node.gpus_max,
            ports_per_node_max: node.ports_max,
        }
    }
}

impl CollectConfig {
    /// Who may send, and how many at once. Reads the token's file and looks up users.
    ///
    /// # Errors
    /// A user is unknown, a number is out of range (64), or a file can't be used.
    pub fn access(&self, run_dir: Option<&Path>) -> Result<Senders, Failure> {
        let token = self.token_file.as_deref().map(|path| TokenFile::open("collect.token_file", path));
        Ok(Senders {
            tls: self.tls.clone(),
            crawlers: self.crawlers.crawlers(),
            accept: AcceptTimes {
                past: Duration::from_secs(self.accept_past_seconds),
                future: Duration::from_secs(self.accept_future_seconds),
            },
            users: LocalUsers::new("collect.local_users", self.local_users.iter().map(String::as_str))?,
            token: token.transpose()?.map(Arc::new),
            socket: self.socket_in(run_dir),
            limits: self.limits()?,
            quotas: self.quotas()?,
            ..Senders::default()
        })
    }

    fn check(&self) -> Result<(), Failure> {
        for (key, value, least, most) in [
            ("collect.accept_past_seconds", self.accept_past_seconds, 60, RETENTION_SECONDS_MAX),
            ("collect.accept_future_seconds", self.accept_future_seconds, 1, ACCEPT_FUTURE_SECONDS_MAX),
        ] {
            if !(least..=most).contains(&value) {
                return Err(Failure::usage(format!(
                    "{key} = {value}: must be from {least} to {most} seconds"
                )));
            }
        }
        self.limits()?;
        self.quotas()?;
        self.node_limits()?;
        self.writers()?;
        throughline_collector::check_listen(self.listen, "collect.listen", self.tls.as_ref())
    }

    /// Connections to the database that write at a time.
    ///
    /// # Errors
    /// Out of range (64).
    pub fn writers(&self) -> Result<usize, Failure> {
        if (1..=WRITERS_MAX).contains(&self.writers) {
            return Ok(self.writers);
        }
        Err(Failure::usage(format!("collect.writers = {}: must be from 1 to {WRITERS_MAX}", self.writers)))
    }

    /// How much of its own a node may report.
    ///
    /// # Errors
    /// One is 0 (64).
    pub fn node_limits(&self) -> Result<NodeLimits, Failure> {
        let limits = [
            ("jobs_per_node_max", self.jobs_per_node_max),
            ("jobs_per_hour_of_node", self.jobs_per_hour_of_node),
            ("gpus_per_node_max", self.gpus_per_node_max),
            ("ports_per_node_max", self.ports_per_node_max),
        ];
        if let Some((key, _)) = limits.iter().find(|(_, value)| *value == 0) {
            return Err(Failure::usage(format!("collect.{key} = 0: must be at least 1")));
        }
        Ok(NodeLimits {
            jobs_max: self.jobs_per_node_max,
            jobs_per_hour: self.jobs_per_hour_of_node,
            gpus_max: self.gpus_per_node_max,
            ports_max: self.ports_per_node_max,
        })
    }

    /// What one certificate may send.
    fn quotas(&self) -> Result<QuotaLimits, Failure> {
        let quotas = QuotaLimits {
            rows_per_second_of_sender: self.rows_per_second_of_sender,
            events_per_second_of_sender: self.events_per_second_of_sender,
            rows_per_second_of_crawler: self.rows_per_second_of_crawler,
            events_per_second_of_crawler: self.events_per_second_of_crawler,
            ..QuotaLimits::default()
        };
        quotas.check()?;
        Ok(quotas)
    }

    fn socket_in(&self, run_dir: Option<&Path>) -> Option<Socket> {
        if self.socket.as_os_str().is_empty() {
            return None;
        }
        let path = match run_dir {
            Some(folder) => folder.join(&self.socket),
            None if self.socket.is_absolute() => self.socket.clone(),
            None => return None,
        };
        Some(Socket { path, is_required: self.socket != Path::new(COLLECT_SOCKET) })
    }

    /// Connections in number.
    ///
    /// # Errors
    /// One is out of range (64).
    pub fn limits(&self) -> Result<Connections, Failure> {
        let within = |key: &str, value: usize, most: usize| {
            if (1..=most).contains(&value) {
                return Ok(value);
            }
            Err(Failure::usage(format!("collect.{key} = {value}: must be from 1 to {most}")))
        };
        Ok(Connections {
            connections: within("connections_max", self.connections_max, CONNECTIONS_CEILING)?,
            per_sender: within(
                "connections_per_sender_max",
                self.connections_per_sender_max,
                CONNECTIONS_CEILING,
            )?,
            ..Connections::default()
        })
    }
}

/// `[query]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueryConfig {
    /// Whether this server answers HTTP, `/metrics` included.
    pub enabled: bool,
    /// Where; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Certificate and key, for HTTPS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
    /// File with the token that has to be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A reverse proxy that knows its users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Users of this machine, and groups behind `@`, who may read without a token, besides root and the server's own.
    pub local_users: BTreeSet<String>,
    /// Names of this server, besides its addresses, its node's name and those of loopback.
    pub hosts: BTreeSet<String>,
    /// Samples read from the database for one remote-read.
    pub samples_max: u64,
    /// Time of one statement.
    pub seconds_max: u64,
    /// Remote-reads answered at once; each holds a connection to the database.
    pub parallel_max: usize,
    /// Connections of readers at most.
    pub connections_max: usize,
    /// Bytes of packed hours that stay in memory for the next remote-read; 0 for none.
    pub cache_bytes_max: usize,
    /// Prometheus servers that scrape the daemons and read here.
    pub prometheus_urls: Vec<String>,
    /// While one of them never answered: samples that are younger are left out of remote-reads.
    pub recent_seconds: u64,
    /// Prometheus' API of what `[export]` sends to: ranges are read there that begin before what the database holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promql_url: Option<String>,
    /// Certificates that its own is checked with; the system's otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promql_ca_file: Option<PathBuf>,
    /// File with the token that it wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promql_token_file: Option<PathBuf>,
    /// Further headers for it, such as a tenant.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub promql_headers: BTreeMap<String, String>,
    /// From where on links are shown as busy and as full on the pages of nodes.
    pub thresholds: ThresholdsConfig,
}

impl Default for QueryConfig {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            enabled: true,
            listen: ([127, 0, 0, 1], 9460).into(),
            tls: None,
            token_file: None,
            proxy: None,
            local_users: BTreeSet::new(),
            hosts: BTreeSet::new(),
            samples_max: limits.samples,
            seconds_max: limits.time.as_secs(),
            parallel_max: limits.parallel,
            connections_max: limits.connections,
            cache_bytes_max: limits.kept_bytes,
            prometheus_urls: vec!["http://127.0.0.1:9090".to_owned()],
            recent_seconds: 4 * 3600,
            promql_url: None,
            promql_ca_file: None,
            promql_token_file: None,
            promql_headers: BTreeMap::new(),
            thresholds: ThresholdsConfig::default(),
        }
    }
}

impl QueryConfig {
    /// Who may read.
    pub fn access(&self) -> Access {
        Access {
            tls: self.tls.clone(),
            token_file: self.token_file.clone(),
            proxy: self.proxy.clone(),
            hosts: self.hosts.clone(),
            local_users: self.local_users.clone(),
        }
    }

    /// What Prometheus has itself. Reads the system's certificates where an address needs them.
    ///
    /// # Errors
    /// An address can't be used (64), or there are no certificates (69).
    pub fn own_history(&self) -> Result<OwnHistory, Failure> {
        OwnHistory::new(&self.prometheus_urls, Duration::from_secs(self.recent_seconds))
    }

    /// Where long ranges are read; `None` for the database alone.
    ///
    /// # Errors
    /// A key stands alone, or a value can't be used (64).
    pub fn promql(&self) -> Result<Option<Promql>, Failure> {
        let Some(url) = self.promql_url.clone() else {
            if self.promql_ca_file.is_none()
                && self.promql_token_file.is_none()
                && self.promql_headers.is_empty()
            {
                return Ok(None);
            }
            let why = "it belongs to a server of PromQL, which query.promql_url names, and that is not set";
            return Err(Failure::usage(format!(
                "query.promql_ca_file, promql_token_file or promql_headers: {why}"
            )));
        };
        let promql = Promql {
            url,
            ca_file: self.promql_ca_file.clone(),
            token_file: self.promql_token_file.clone(),
            headers: self.promql_headers.clone(),
        };
        promql.check()?;
        Ok(Some(promql))
    }

    /// Bounds of what one request may cost.
    ///
    /// # Errors
    /// One is out of range (64).
    pub fn limits(&self) -> Result<Limits, Failure> {
        let within = |key: &str, value: u64, most: u64| {
            if (1..=most).contains(&value) {
                return Ok(value);
            }
            Err(Failure::usage(format!("query.{key} = {value}: must be from 1 to {most}")))
        };
        let parallel = within("parallel_max", self.parallel_max as u64, QUERIES_AT_ONCE_MAX)?;
        let connections = within("connections_max", self.connections_max as u64, CONNECTIONS_MAX)?;
        Ok(Limits {
            samples: within("samples_max", self.samples_max, SAMPLES_MAX)?,
            time: Duration::from_secs(within("seconds_max", self.seconds_max, QUERY_SECONDS_MAX)?),
            parallel: usize::try_from(parallel).unwrap_or(usize::MAX),
            connections: usize::try_from(connections).unwrap_or(usize::MAX),
            kept_bytes: self.cache_bytes_max,
        })
    }
}

impl ServerConfig {
    /// Refuses what cannot work, naming the key.
    ///
    /// # Errors
    /// A value is out of range or contradicts another (64).
    pub fn check(&self) -> Result<(), Failure> {
        let exports = !self.export.remote_write.is_empty();
        if !(self.collect.enabled || self.query.enabled || self.upkeep.enabled || exports) {
            return Err(Failure::usage(
                "collect.enabled, query.enabled and upkeep.enabled are all false: nothing to serve",
            ));
        }
        if self.collect.enabled {
            self.collect.check()?;
        }
        self.database.check()?;
        if self.query.enabled {
            self.query.access().check(self.query.listen, "query.listen")?;
        }
        self.query.limits()?;
        self.query.thresholds.thresholds()?;
        self.query.promql()?;
        OwnHistory::check(&self.query.prometheus_urls)?;
        self.detail.limits()?;
        self.report.check()?;
        self.export.check()?;
        self.upkeep_options().map(drop)
    }

    /// Reads the files that the configuration names, for `check-config`: certificates are valid and of each other, tokens
    /// and password files are private.
    ///
    /// # Errors
    /// A file can't be used; the message names the key.
    pub fn check_files(&self, run_dir: Option<&Path>) -> Result<(), Failure> {
        self.database.check_files()?;
        if let Some(promql) = self.query.promql()? {
            promql.long_range()?;
        }
        if self.collect.enabled {
            self.collect.access(run_dir)?;
            if let Some(tls) = &self.collect.tls {
                tls.check_certificates("collect.tls", Purpose::Server)?;
            }
        }
        self.report.receiver()?;
        for receiver in &self.export.remote_write {
            receiver.check_files()?;
        }
        if self.query.enabled {
            if let Some(tls) = &self.query.tls {
                tls.check_certificates("query.tls")?;
            }
            if let Some(path) = &self.query.token_file {
                Token::read("query.token_file", path)?;
            }
        }
        Ok(())
    }

    /// What the role upkeep shall do, without what needs files (`report.receiver()`).
    ///
    /// # Errors
    /// As [`ServerConfig::check`].
    pub fn upkeep_options(&self) -> Result<upkeep::Options, Failure> {
        let (interval, job_silence) = self.upkeep.times()?;
        let retention = self.retention.times()?;
        let (groups, detail) = (self.host_groups()?, self.detail.triggers()?);
        Ok(upkeep::Options { retention, interval, job_silence, groups, detail, webhook: None })
    }

    /// Groups of hosts.
    fn host_groups(&self) -> Result<Groups, Failure> {
        for (name, patterns) in &self.groups {
            let wrong = |why: &str| Failure::usage(format!("groups.{name}: {why}"));
            if name.is_empty() || name.len() > GROUP_BYTES_MAX {
                return Err(wrong(&format!("a name of a group has 1 to {GROUP_BYTES_MAX} bytes")));
            }
            if patterns.is_empty() {
                return Err(wrong("give patterns of host names, as [\"oss*\", \"mds*\"]"));
            }
            if patterns.iter().any(|pattern| pattern.is_empty() || pattern.len() > GROUP_BYTES_MAX) {
                return Err(wrong(&format!("a pattern of host names has 1 to {GROUP_BYTES_MAX} bytes")));
            }
        }
        Ok(Groups::new(self.groups.clone()))
    }
}

#[cfg(test)]
mod tests;
