//! The daemon's configuration: one type, each key with its default, checked while it is read.
//!
//! `deploy/config/fabric.toml` shows every key with its default; a test compares the two.

use super::sweep_config::Sweep;
use crate::discover::{self, Limits};
use crate::engine::{self, Budget, Settings};
use crate::events::WatchSettings;
use crate::port::TransportKind;
use crate::sa::Choice;
use crate::scrape::CounterChoice;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;
use throughline_daemon::Seconds;
use throughline_delivery::{Endpoint, LEASE_LONGEST, LEASE_SHORTEST, SpoolSection, TlsFiles};
use throughline_detail::RecorderSection;
use throughline_infiniband::key::{Key, KeyFileError};
use throughline_infiniband::mad::MAX_HOPS;

/// Port of the crawler's HTTP side.
const HTTP_PORT: u16 = 9462;
/// A counter's rise waits so long for a discovery to explain it, at least and at most: a busy machine, and a site that
/// looks at its fabric once an hour.
const SHORTEST_EXPLANATION: Duration = Duration::from_secs(5);
/// The same, at most.
const LONGEST_EXPLANATION: Duration = Duration::from_secs(60);

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// State folder; see `paths::state_dir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<PathBuf>,
    /// Which fabric it is.
    pub fabric: Fabric,
    /// The local port.
    pub device: Device,
    /// How MADs are sent.
    pub mad: Mad,
    /// Walks of the subnet.
    pub discovery: Discovery,
    /// What counts as an event.
    pub events: Events,
    /// Readings of counters.
    pub sweep: Sweep,
    /// Which of several crawlers of the fabric sweeps.
    pub standby: Standby,
    /// `/metrics`.
    pub http: Http,
    /// From the spool to the collector.
    pub delivery: Delivery,
    /// What waits for the collector.
    pub spool: SpoolSection,
    /// What stays here of sweeps.
    pub recorder: RecorderSection,
}

/// `[fabric]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fabric {
    /// What the fabric is called when it is first seen; by its lowest switch GUID when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<FabricName>,
    /// How long sweeps have to agree where it isn't clear which fabric they see.
    pub agreement_seconds: Seconds,
}

impl Default for Fabric {
    fn default() -> Self {
        Fabric { name: None, agreement_seconds: Seconds::from_millis(60_000) }
    }
}

/// A text that can be the name of a fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FabricName(pub String);

impl<'de> Deserialize<'de> for FabricName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FabricName, D::Error> {
        let name = String::deserialize(deserializer)?;
        match throughline_sample::fabric_name_fault(&name) {
            Some(fault) => Err(de::Error::custom(fault)),
            None => Ok(FabricName(name)),
        }
    }
}

/// `[device]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Device {
    /// Device, for instance mlx5_0; the first with an active port when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Port of the device; 0 is its first active one.
    pub port: u8,
    /// How MADs get to the fabric.
    pub transport: TransportKind,
}

/// `[mad]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mad {
    /// Requests outstanding at once.
    pub window: Window,
    /// Requests outstanding at one node.
    pub per_node: PerNode,
    /// How long an answer may take; repetitions begin sooner.
    pub timeout_seconds: Seconds,
    /// Repetitions.
    pub retries: Retries,
    /// MADs that the process sends in any second, at most; 0: no limit.
    pub mads_per_second_max: u32,
    /// Service level of performance MADs.
    pub service_level: ServiceLevel,
    /// File with the M_Key; none when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub m_key_file: Option<PathBuf>,
    /// The key from that file: read once, never written.
    #[serde(skip)]
    pub m_key: Key,
    /// File with the SM_Key; none when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_key_file: Option<PathBuf>,
    /// The key from that file: read once, never written.
    #[serde(skip)]
    pub sm_key: Key,
}

impl Default for Mad {
    fn default() -> Self {
        Mad {
            window: Window(engine::DEFAULT_WINDOW as u8),
            per_node: PerNode(engine::DEFAULT_PER_NODE),
            timeout_seconds: engine::DEFAULT_TIMEOUT.into(),
            retries: Retries(engine::DEFAULT_RETRIES),
            mads_per_second_max: 0,
            service_level: ServiceLevel(0),
            m_key_file: None,
            m_key: Key::default(),
            sm_key_file: None,
            sm_key: Key::default(),
        }
    }
}

impl Mad {
    /// Settings of an engine.
    pub fn settings(&self) -> Settings {
        Settings {
            window: usize::from(self.window.0),
            per_node: self.per_node.0,
            timeout: self.timeout_seconds.duration(),
            retries: self.retries.0,
            budget: Budget::of_process(self.mads_per_second_max),
            m_key: self.m_key,
            ..Settings::default()
        }
    }
}

/// `[discovery]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Discovery {
    /// From one whole walk of the subnet to the next.
    pub interval_seconds: Seconds,
    /// Who is queried: the nodes, the subnet administrator, or the nodes first.
    pub source: Choice,
    /// From one look at what can have changed to the next; a large subnet is looked at less often.
    pub light_interval_seconds: Seconds,
    /// Names of nodes, as infiniband-diags read them; the usual place when absent, where it may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name_map: Option<PathBuf>,
    /// Whether the subnet manager is requested to report traps.
    pub traps: bool,
    /// Nodes of one discovery.
    pub nodes_max: NonZeroU32,
    /// Ports of all its nodes.
    pub ports_max: NonZeroU32,
    /// Links of a directed route.
    pub hops_max: Hops,
    /// Its requests.
    pub mads_max: NonZeroU32,
    /// Memory of its topology.
    pub memory_bytes_max: NonZeroU64,
    /// Its time.
    pub seconds_max: Seconds,
}

impl Discovery {
    /// Within which time a link that stays down is found: two light discoveries, and within reason.
    pub fn explains_within(&self) -> Duration {
        let two = self.light_interval_seconds.duration().saturating_mul(2);
        two.clamp(SHORTEST_EXPLANATION, LONGEST_EXPLANATION)
    }

    /// What one discovery may take.
    pub fn limits(&self) -> Limits {
        Limits {
            nodes: self.nodes_max.get() as usize,
            ports: self.ports_max.get() as usize,
            hops: usize::from(self.hops_max.0),
            mads: u64::from(self.mads_max.get()),
            bytes: usize::try_from(self.memory_bytes_max.get()).unwrap_or(usize::MAX),
            time: self.seconds_max.duration(),
        }
    }
}

impl Default for Discovery {
    fn default() -> Self {
        Discovery {
            interval_seconds: Seconds::from_millis(60_000),
            light_interval_seconds: Seconds::from_millis(1000),
            node_name_map: None,
            source: Choice::default(),
            traps: true,
            nodes_max: number(discover::DEFAULT_MAX_NODES),
            ports_max: number(discover::DEFAULT_MAX_PORTS),
            hops_max: Hops(MAX_HOPS as u8),
            mads_max: number(discover::DEFAULT_MAX_MADS as usize),
            memory_bytes_max: NonZeroU64::new(discover::DEFAULT_MEMORY_BYTES_MAX as u64)
                .unwrap_or(NonZeroU64::MIN),
            seconds_max: discover::DEFAULT_MAX_TIME.into(),
        }
    }
}

/// A default, which is not 0 and has 32 bits.
fn number(default: usize) -> NonZeroU32 {
    u32::try_from(default).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX)
}

/// `[events]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Events {
    /// Changes of a link within the window that make it a flapping one.
    pub flap_changes: FlapChanges,
    /// The window.
    pub flap_window_seconds: Seconds,
    /// How long a port may stay in Initialize or Armed before that is an event.
    pub stuck_seconds: Seconds,
}

impl Default for Events {
    fn default() -> Self {
        let defaults = WatchSettings::default();
        Events {
            flap_changes: FlapChanges(defaults.flap_changes as u8),
            flap_window_seconds: defaults.flap_window.into(),
            stuck_seconds: defaults.stuck_after.into(),
        }
    }
}

impl Events {
    /// What counts as what.
    pub fn settings(&self) -> WatchSettings {
        WatchSettings {
            flap_changes: usize::from(self.flap_changes.0),
            flap_window: self.flap_window_seconds.duration(),
            stuck_after: self.stuck_seconds.duration(),
        }
    }
}

/// `[standby]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Standby {
    /// How long the crawler that sweeps may be silent before another one of its fabric takes over.
    pub lease_seconds: LeaseSeconds,
}

impl Default for Standby {
    fn default() -> Self {
        Standby { lease_seconds: LeaseSeconds(Seconds::from_millis(10_000)) }
    }
}

/// A lease that the collector takes as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct LeaseSeconds(Seconds);

impl LeaseSeconds {
    /// As a duration.
    pub fn duration(self) -> Duration {
        self.0.duration()
    }
}

impl<'de> Deserialize<'de> for LeaseSeconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = Seconds::deserialize(deserializer)?;
        if (LEASE_SHORTEST..=LEASE_LONGEST).contains(&seconds.duration()) {
            return Ok(LeaseSeconds(seconds));
        }
        let (least, most) = (LEASE_SHORTEST.as_secs(), LEASE_LONGEST.as_secs());
        Err(de::Error::custom(format!("a lease is out of range: expected {least} to {most} seconds")))
    }
}

/// `[http]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address of `/metrics` and `/healthz`.
    pub listen: SocketAddr,
    /// Counters on the page, unless a scrape names others.
    pub counters: Counters,
}

impl Default for Http {
    fn default() -> Self {
        Http { listen: (Ipv4Addr::LOCALHOST, HTTP_PORT).into(), counters: Counters::default() }
    }
}

/// A choice of counters as it was written.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct Counters {
    text: String,
    #[serde(skip)]
    choice: CounterChoice,
}

impl Counters {
    fn parse(text: String) -> Result<Counters, String> {
        let choice = CounterChoice::parse(&text)?;
        Ok(Counters { text, choice })
    }

    /// What it means.
    pub fn choice(&self) -> &CounterChoice {
        &self.choice
    }
}

impl Default for Counters {
    fn default() -> Self {
        Counters { text: "all".to_owned(), choice: CounterChoice::all() }
    }
}

impl PartialEq for Counters {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Counters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Counters::parse(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// `[delivery]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Delivery {
    /// Where `throughline serve` takes batches.
    pub collector: Endpoint,
    /// Certificates for an https:// collector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// File with the token of a collector on this machine that does not know this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
}

/// A whole number within bounds, checked while it is read.
macro_rules! bounded {
    ($name:ident, $least:expr, $most:expr, $what:literal) => {
        #[doc = $what]
        #[derive(Clone, Copy, Debug, PartialEq, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub u8);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let number = i64::deserialize(deserializer)?;
                let value = u8::try_from(number).ok().filter(|value| ($least..=$most).contains(value));
                value.map($name).ok_or_else(|| {
                    de::Error::custom(format!("{number} is out of range: expected {} to {}", $least, $most))
                })
            }
        }
    };
}

bounded!(Window, 1, engine::MAX_WINDOW as u8, "Requests outstanding at once.");
bounded!(PerNode, 1, 8, "Requests outstanding at one node: more only fill its queue.");
bounded!(Retries, 0, engine::MAX_RETRIES, "Repetitions of a request without an answer.");
bounded!(Hops, 1, MAX_HOPS as u8, "Links of a directed route.");
bounded!(FlapChanges, 2, 64, "Changes of a link that make it a flapping one.");
bounded!(ServiceLevel, 0, 15, "A service level.");

impl Config {
    /// Reads the files of keys that it names.
    ///
    /// # Errors
    /// One can't be read, is open to others, or holds something else.
    pub fn read_keys(&mut self) -> Result<(), KeyFileError> {
        let read = |file: &Option<PathBuf>| -> Result<Key, KeyFileError> {
            Ok(file.as_deref().map(Key::from_file).transpose()?.unwrap_or_default())
        };
        self.mad.m_key = read(&self.mad.m_key_file)?;
        self.mad.sm_key = read(&self.mad.sm_key_file)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use throughline_daemon::config::parse;

    const EXAMPLE: &str = include_str!("../../../../deploy/config/fabric.toml");

    fn read(text: &str) -> Result<Config, String> {
        parse(text, Path::new("fabric.toml"), std::iter::empty()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_example_shows_every_key_with_its_default() {
        assert_eq!(read(EXAMPLE).unwrap(), Config::default());
        let is_key = |line: &&str| line.starts_with('#') && !line.starts_with("# ") && line.contains(" = ");
        let given: String = EXAMPLE
            .lines()
            .map(|line| if is_key(&line) { &line[1..] } else { line })
            .filter(|line| {
                let of_machine = [
                    "state_dir",
                    "name =",
                    "ca =",
                    "m_key_file",
                    "sm_key_file",
                    "node_name_map",
                    "tls =",
                    "token_file =",
                ];
                !of_machine.iter().any(|key| line.starts_with(key))
            })
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(read(&given).unwrap(), Config::default());
        let printed = throughline_daemon::config::print(&Config::default()).unwrap();
        for line in printed.lines().filter(|line| line.contains(" = ")) {
            let key = line.split(" = ").next().unwrap();
            assert!(EXAMPLE.contains(&format!("#{key} = ")), "{key} is not in deploy/config/fabric.toml");
        }
    }

    #[test]
    fn mistakes_name_line_and_key() {
        for (text, words) in [
            ("[sweep]\ninterval = 1\n", ["line 2", "interval"]),
            ("[device]\ntransport = 'ib'\n", ["line 2", "`umad`"]),
            ("[mad]\nwindow = 129\n", ["line 2", "1 to 128"]),
            ("[sweep]\n\ninterval_seconds = 0\n", ["line 3", "out of range"]),
            ("[standby]\nlease_seconds = 1\n", ["line 2", "2 to 600"]),
            ("[fabric]\nname = 'a b'\n", ["line 2", "letters"]),
            ("[delivery]\ncollector = 'http://far:1'\n", ["line 2", "far"]),
        ] {
            let error = read(text).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
