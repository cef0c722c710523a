//! `[sweep]` of the daemon's configuration: what is read, how often and from what nodes, and what becomes a row.

use crate::sweep::plan::{Intervals, Plan};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::time::Duration;
use throughline_daemon::Seconds;
use throughline_infiniband::mad::NodeKind;
use throughline_infiniband::reading::{Selection, Sets, thin};
use throughline_infiniband::topology::Node;
use throughline_sample::Guid;
use throughline_sample::wire::RowRules;
use wildmatch::WildMatch;

/// Classes besides the rest of the nodes: more than there are generations of switches in a subnet.
const CLASSES_MAX: usize = 32;

/// `[sweep]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sweep {
    /// From one fast round to the next.
    pub interval_seconds: Seconds,
    /// Sets that the fast round reads.
    pub fast: Sets,
    /// From one slow round to the next; nodes are spread over the fast rounds between.
    pub slow_interval_seconds: Seconds,
    /// Sets that the slow round reads.
    pub slow: Sets,
    /// Whether switch ports without a link are read as well.
    pub all_ports: bool,
    /// Whether ports of hosts are read: an agent on the host reads them in sysfs, too.
    pub host_ports: bool,
    /// Hosts whose ports are left out, by name with `*` and `?`.
    pub exclude_hosts: Vec<String>,
    /// Whether unchanged readings become no rows.
    pub omit_unchanged: bool,
    /// Data since the last row that count as unchanged.
    pub quiet_bytes: u64,
    /// Bytes of one tick of PortXmitWait on devices that do not report; 0: unknown.
    pub assumed_tick_bytes: u32,
    /// Speed of every link, where something limits all of them below their width and speed; 0: as these say.
    pub assumed_bytes_per_second: u64,
    /// Nodes with intervals or sets of their own; the first that fits counts.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "classes")]
    pub class: Vec<Class>,
}

/// `[[sweep.class]]`: what is not given is as in `[sweep]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Class {
    /// Names, with `*` and `?`.
    pub names: Vec<String>,
    /// Device IDs, as `discover --json` prints them.
    pub device_ids: Vec<u16>,
    /// Node GUIDs.
    pub guids: Vec<Guid>,
    /// From one fast round to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<Seconds>,
    /// Sets of the fast round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast: Option<Sets>,
    /// From one slow round to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_interval_seconds: Option<Seconds>,
    /// Sets of the slow round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<Sets>,
}

fn classes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Class>, D::Error> {
    let classes = Vec::<Class>::deserialize(deserializer)?;
    if classes.len() > CLASSES_MAX {
        return Err(de::Error::custom(format!("{} classes: at most {CLASSES_MAX}", classes.len())));
    }
    let names_none =
        |class: &Class| class.names.is_empty() && class.device_ids.is_empty() && class.guids.is_empty();
    if classes.iter().any(names_none) {
        return Err(de::Error::custom("a class fits no node: expected names, device_ids or guids"));
    }
    Ok(classes)
}

impl Default for Sweep {
    fn default() -> Self {
        Sweep {
            interval_seconds: Seconds::from_millis(5000),
            fast: Sets::USUAL,
            slow_interval_seconds: Seconds::from_millis(60_000),
            slow: Sets::DETAILS | Sets::FEC,
            all_ports: false,
            host_ports: true,
            exclude_hosts: Vec::new(),
            omit_unchanged: true,
            quiet_bytes: thin::DEFAULT_QUIET_BYTES,
            assumed_tick_bytes: 0,
            assumed_bytes_per_second: 0,
            class: Vec::new(),
        }
    }
}

impl Sweep {
    /// The plan: class 0 is that of `[sweep]` itself.
    pub fn plan(&self) -> Plan {
        let of =
            |seconds: Option<Seconds>, usual: Seconds| -> Duration { seconds.unwrap_or(usual).duration() };
        let classes = self.class.iter().map(|class| Intervals {
            fast: class.fast.unwrap_or(self.fast),
            fast_interval: of(class.interval_seconds, self.interval_seconds),
            slow: class.slow.unwrap_or(self.slow),
            slow_interval: of(class.slow_interval_seconds, self.slow_interval_seconds),
        });
        let usual = Intervals {
            fast: self.fast,
            fast_interval: self.interval_seconds.duration(),
            slow: self.slow,
            slow_interval: self.slow_interval_seconds.duration(),
        };
        Plan::new(&std::iter::once(usual).chain(classes).collect::<Vec<_>>())
    }

    /// By which rules readings become rows: those of the class that is read least often.
    pub fn row_rules(&self) -> RowRules {
        let fast =
            self.class.iter().map(|class| (class.interval_seconds, class.fast, class.slow_interval_seconds));
        let interval =
            std::iter::once((None, None, None)).chain(fast).map(|(fast_interval, fast, slow_interval)| {
                let has_data = fast.unwrap_or(self.fast).any_of(Sets::DATA);
                let usual = if has_data { self.interval_seconds } else { self.slow_interval_seconds };
                let own = if has_data { fast_interval } else { slow_interval };
                own.unwrap_or(usual).duration()
            });
        let interval = interval.max().unwrap_or_default();
        match self.omit_unchanged {
            true => RowRules::thinned(thin::HEARTBEAT, interval, self.quiet_bytes),
            false => RowRules::unthinned(interval),
        }
    }

    /// What of a topology is swept, and what is taken for known of it.
    pub fn selection(&self) -> Selection {
        let assumed = (self.assumed_tick_bytes != 0).then_some(self.assumed_tick_bytes.into());
        Selection { unlinked: self.all_ports, assumed_tick_bytes: assumed }
    }

    /// The speed of every link, where one is assumed.
    pub fn assumed_speed(&self) -> Option<u64> {
        (self.assumed_bytes_per_second != 0).then_some(self.assumed_bytes_per_second)
    }

    /// The class of a node; `None` leaves it out.
    pub fn class_of(&self, node: &Node) -> Option<u8> {
        let is_host = node.kind == NodeKind::Ca;
        let fits =
            |names: &[String]| names.iter().any(|name| WildMatch::new(name).matches(&node.description));
        if is_host && (!self.host_ports || fits(&self.exclude_hosts)) {
            return None;
        }
        let own = self.class.iter().position(|class| {
            fits(&class.names)
                || class.device_ids.contains(&node.device_id)
                || class.guids.contains(&node.guid)
        });
        Some(own.map_or(0, |place| place as u8 + 1))
    }

    /// What a class is called in the log: its names, as far as it has some.
    pub fn class_name(&self, class: usize) -> String {
        match class.checked_sub(1).and_then(|place| self.class.get(place)) {
            None => "all".to_owned(),
            Some(own) if !own.names.is_empty() => own.names.join(" "),
            Some(own) => {
                let ids = own.device_ids.iter().map(u16::to_string);
                ids.chain(own.guids.iter().map(Guid::to_string)).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_infiniband::mad::DirectedPath;

    fn node(kind: NodeKind, name: &str, device_id: u16) -> Node {
        Node {
            guid: Guid(u64::from(device_id)),
            kind,
            description: name.to_owned(),
            system_guid: Guid(1),
            vendor_id: 0,
            device_id,
            port_count: 1,
            ports: Vec::new(),
            switch: None,
            forwarding: Vec::new(),
            path: DirectedPath::local(),
        }
    }

    fn read(text: &str) -> Result<Sweep, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_class_that_fits_counts() {
        let sweep = read(
            "interval_seconds = 1.0\nexclude_hosts = ['login*']\n\
             [[class]]\nnames = ['spine-?']\ninterval_seconds = 0.25\nfast = ['data']\n\
             [[class]]\ndevice_ids = [54000]\nslow = []\n",
        )
        .unwrap();
        let class = |kind, name, device| sweep.class_of(&node(kind, name, device));
        assert_eq!(class(NodeKind::Switch, "spine-1", 54000), Some(1));
        assert_eq!(class(NodeKind::Switch, "spine-10", 54000), Some(2));
        assert_eq!(class(NodeKind::Switch, "leaf", 1), Some(0));
        assert_eq!(class(NodeKind::Ca, "login1 mlx5_0", 1), None);
        assert_eq!(class(NodeKind::Ca, "node1 mlx5_0", 1), Some(0));
        let plan = sweep.plan();
        assert_eq!(plan.tick, Duration::from_millis(250));
        assert_eq!((plan.classes[1].fast_every, plan.classes[0].fast_every), (1, 4));
        assert_eq!((plan.classes[1].fast, plan.classes[2].slow), (Sets::DATA, Sets::NONE));
        assert_eq!((sweep.class_name(1), sweep.class_name(2)), ("spine-?".to_owned(), "54000".to_owned()));
    }

    #[test]
    fn hosts_can_be_left_out() {
        let sweep = read("host_ports = false").unwrap();
        assert_eq!(sweep.class_of(&node(NodeKind::Ca, "node1", 1)), None);
        assert_eq!(sweep.class_of(&node(NodeKind::Router, "r", 1)), Some(0));
        assert_eq!(sweep.class_of(&node(NodeKind::Switch, "s", 1)), Some(0));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("fast = ['date']", "no set of counters"),
            ("[[class]]\ninterval_seconds = 1.0", "fits no node"),
            ("[[class]]\nname = 'x'", "unknown field"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
