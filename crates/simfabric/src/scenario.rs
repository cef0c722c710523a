//! What fabric is simulated and how it behaves at first: built in code or read from TOML.

use crate::model::End;
use crate::model::Group;
use crate::world::World;
use crate::{commands, manager, net, shapes};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use throughline_infiniband::topology::FatTree;

/// The subnet prefix of a fabric that nobody gave another one (IBTA volume 1, 4.1.1).
const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;

/// A scenario can't be played: what is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// A file can't be read.
    #[error("{path}: {cause}")]
    File {
        /// The file.
        path: String,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// The TOML is not a scenario.
    #[error("{0}")]
    Toml(String),
    /// The net can't be understood.
    #[error("the net: {0}")]
    Net(String),
    /// A command of the set-up.
    #[error("set-up `{command}`: {reason}")]
    Command {
        /// The command.
        command: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A fabric and its behaviour.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The net in `ibnetdiscover`'s format.
    pub net: String,
    /// Subnet prefix.
    pub subnet_prefix: u64,
    /// LID mask control: each adapter port has 2^lmc LIDs.
    pub lmc: u8,
    /// Of everything random.
    pub seed: u64,
    /// The node with the subnet manager; the first host where `None`, nowhere where empty.
    pub manager: Option<String>,
    /// Commands played before the first client; see [`HELP`](crate::HELP).
    pub setup: Vec<String>,
}

impl Scenario {
    /// A net in `ibnetdiscover`'s format that behaves ideally.
    #[must_use]
    pub fn new(net: impl Into<String>) -> Scenario {
        Scenario {
            net: net.into(),
            subnet_prefix: DEFAULT_PREFIX,
            lmc: 0,
            seed: 1,
            manager: None,
            setup: Vec::new(),
        }
    }

    /// With a further command in the set-up.
    #[must_use]
    pub fn with(mut self, command: impl Into<String>) -> Scenario {
        self.setup.push(command.into());
        self
    }

    /// Reads a scenario file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn read(path: &Path) -> Result<Scenario, ScenarioError> {
        let file = |path: &Path| {
            let failed = |cause| ScenarioError::File { path: path.display().to_string(), cause };
            std::fs::read_to_string(path).map_err(failed)
        };
        let fail = |error: toml::de::Error| ScenarioError::Toml(format!("{}: {error}", path.display()));
        let notified: File = toml::from_str(&file(path)?).map_err(fail)?;
        let net = match (&notified.net, &notified.fat_tree, &notified.torus, notified.back_to_back) {
            (Some(net), None, None, false) => {
                file(&path.parent().unwrap_or_else(|| Path::new(".")).join(net))?
            }
            (None, Some(hosts), None, false) => fat_tree(*hosts)?,
            (None, None, Some(torus), false) => {
                shapes::torus(&torus.sizes, torus.hosts, &torus.link).map_err(ScenarioError::Net)?
            }
            (None, None, None, true) => shapes::back_to_back("4xEDR"),
            _ => {
                let what = "expected one of `net`, `fat_tree`, `torus` and `back_to_back`";
                return Err(ScenarioError::Toml(format!("{}: {what}", path.display())));
            }
        };
        Ok(Scenario {
            net,
            subnet_prefix: notified.subnet_prefix.map_or(DEFAULT_PREFIX, |prefix| prefix.0),
            lmc: notified.lmc.min(7),
            seed: notified.seed,
            manager: notified.manager.map(|name| if name == "none" { String::new() } else { name }),
            setup: notified.setup,
        })
    }

    /// The world as it is when the first client comes.
    pub(crate) fn build(&self) -> Result<World, ScenarioError> {
        let mut fabric = net::read(&self.net).map_err(|error| ScenarioError::Net(error.to_string()))?;
        if fabric.nodes.is_empty() {
            return Err(ScenarioError::Net("it has no node".to_owned()));
        }
        fabric.prefix = self.subnet_prefix;
        fabric.lmc = self.lmc;
        fabric.groups = vec![Group::broadcast()];
        fabric.manager = match self.manager.as_deref() {
            Some("") => None,
            Some(name) => {
                let node = fabric.find(name);
                let node = node.ok_or_else(|| ScenarioError::Net(format!("there is no node `{name}`")))?;
                Some(End { node, port: fabric.nodes[node].end_ports().start as u8 })
            }
            None => default_end(&fabric),
        };
        manager::configure(&mut fabric);
        let mut world = World::new(fabric, self.seed);
        world.notices.update(&world.fabric, false);
        for command in &self.setup {
            commands::run(&mut world, command, 0)
                .map_err(|reason| ScenarioError::Command { command: command.clone(), reason })?;
        }
        Ok(world)
    }
}

/// The first linked port of the first host, else the first node.
pub(crate) fn default_end(fabric: &crate::model::Fabric) -> Option<End> {
    let hosts = fabric.nodes.iter().enumerate().filter(|(_, node)| !node.is_switch());
    let mut ends =
        hosts.flat_map(|(node, ports)| ports.end_ports().map(move |port| End { node, port: port as u8 }));
    let linked = ends.find(|end| fabric.across(*end).is_some());
    linked.or_else(|| (!fabric.nodes.is_empty()).then_some(End { node: 0, port: 0 }))
}

/// The net of a fat tree of one of the sizes that benches use.
///
/// # Errors
/// Another size.
pub fn fat_tree(hosts: usize) -> Result<String, ScenarioError> {
    let known = [FatTree::HOSTS_146, FatTree::HOSTS_1428, FatTree::HOSTS_8008];
    let tree = known.into_iter().find(|tree| tree.hosts == hosts);
    let tree = tree.ok_or_else(|| {
        ScenarioError::Net(format!("a fat tree of {hosts} hosts is not known: expected 146, 1428 or 8008"))
    })?;
    tree.to_net().map_err(|error| ScenarioError::Net(error.to_string()))
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    net: Option<PathBuf>,
    fat_tree: Option<usize>,
    torus: Option<Torus>,
    #[serde(default)]
    back_to_back: bool,
    subnet_prefix: Option<Prefix>,
    #[serde(default)]
    lmc: u8,
    #[serde(default = "one")]
    seed: u64,
    manager: Option<String>,
    #[serde(default)]
    setup: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Torus {
    sizes: Vec<usize>,
    #[serde(default = "one_host")]
    hosts: usize,
    #[serde(default = "edr")]
    link: String,
}

/// 64 bits do not fit in TOML's numbers, so it is text.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Prefix(u64);

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Prefix, String> {
        crate::parser::number(&text, "subnet_prefix").map(Prefix)
    }
}

fn one() -> u64 {
    1
}

fn one_host() -> usize {
    1
}

fn edr() -> String {
    "4xEDR".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(text: &str) -> Result<Scenario, ScenarioError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("small.net"), shapes::back_to_back("4xEDR")).unwrap();
        let path = folder.path().join("scenario.toml");
        std::fs::write(&path, text).unwrap();
        Scenario::read(&path)
    }

    #[test]
    fn scenarios_are_read() {
        let text =
            "net = 'small.net'\nsubnet_prefix = '0xfe80000000000001'\nsetup = ['latency 100us', 'loss 0.5']";
        let scenario = write(text).unwrap();
        let world = scenario.build().unwrap();
        assert_eq!((world.faults.round_trip, world.faults.loss), (100_000, 0.5));
        assert_eq!(world.fabric.prefix, 0xfe80_0000_0000_0001);
        assert_eq!(world.fabric.nodes.len(), 2);
        let torus = write("torus = { sizes = [3, 3], hosts = 2 }\nmanager = 'none'").unwrap();
        assert_eq!(torus.build().unwrap().fabric.manager, None);
    }

    #[test]
    fn mistakes_are_reported() {
        for (text, words) in [
            ("", "expected one of"),
            ("fat_tree = 7", "146, 1428 or 8008"),
            ("colour = 1", "colour"),
            ("net = 'none.net'", "none.net"),
        ] {
            let error = write(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let error = Scenario::new(shapes::back_to_back("4xEDR")).with("latency 5").build().err().unwrap();
        assert!(error.to_string().contains("`latency 5`"), "{error}");
        let error = Scenario::new("Ca 1").build().err().unwrap();
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}
