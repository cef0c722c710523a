//! Where a read command gets its fabric: the live one through the local port, or a folder of saved files
//! (`--saved`). The one place that knows the difference; commands request what they need and are given it.

use super::FabricOptions;
use std::collections::BTreeMap;
use std::path::Path;
use throughline_crawler::adaptive_routing::{read_routing, reporting};
use throughline_crawler::discover::{Discovery, Limits};
use throughline_crawler::engine::{Engine, EngineError, Settings};
use throughline_crawler::lane_reading::{read_lane_maps, read_service_levels};
use throughline_crawler::multicast_tables;
use throughline_crawler::port::FabricPort;
use throughline_crawler::sa::{self, Choice, SaError};
use throughline_crawler::stop::Stop;
use throughline_crawler::subnet_manager::query_manager;
use throughline_crawler::sweep::{ClockPoint, Sweeper};
use throughline_crawler::transport::Class;
use throughline_daemon::Failure;
use throughline_infiniband::check::ManagerAnswer;
use throughline_infiniband::key::Key;
use throughline_infiniband::multicast::Groups;
use throughline_infiniband::multicast::MulticastTables;
use throughline_infiniband::names::{NameFile, NameMap};
use throughline_infiniband::offline::{self, OfflineError, Saved, SavedSweeps};
use throughline_infiniband::reading::{Coverage, PortReading, Selection, Sets};
use throughline_infiniband::route::LaneVerdict;
use throughline_infiniband::topology::SwitchRouting;
use throughline_infiniband::topology::Topology;
use throughline_sample::Guid;

/// Pairs of hosts whose paths are requested from the subnet administrator at most: one query each, 7,000 a second at best.
const LANE_PAIRS_MAX: usize = 20_000;

/// What a command needs besides nodes, ports and cables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryNeeds {
    /// Linear forwarding tables.
    pub tables: bool,
}

/// A fabric to read.
pub enum Source {
    /// Through the local port.
    Live(Box<LiveFabric>),
    /// From files.
    Saved(Box<Saved>),
}

/// A live fabric, for what only a live one can answer.
pub struct LiveFabric {
    /// The local port.
    pub port: FabricPort,
    /// Settings for engines, from the command line.
    pub settings: Settings,
    /// SM_Key for the subnet administrator; the default one is none.
    pub sm_key: Key,
    /// Who is queried for the topology.
    pub choice: Choice,
    /// What a discovery may take.
    pub limits: Limits,
    /// Names of nodes in place of their descriptions.
    pub names: NameMap,
}

/// Opens what the options name.
///
/// # Errors
/// No device (69); files that can't be read (64 where the folder is wrong, else 1).
pub fn open(options: &FabricOptions) -> anyhow::Result<Source> {
    let names = NameFile::open(options.node_name_map.as_deref())
        .map_err(|error| Failure::usage(error.to_string()))?;
    match &options.saved {
        Some(folder) => {
            let mut saved = read(folder)?;
            names.map().apply(&mut saved.topology.nodes);
            Ok(Source::Saved(Box::new(saved)))
        }
        None => Ok(Source::Live(Box::new(LiveFabric {
            port: super::fabric::open(options)?,
            settings: options.settings(Settings {
                m_key: super::fabric::key(options.m_key_file.as_deref())?,
                ..Settings::default()
            }),
            sm_key: super::fabric::key(options.sm_key_file.as_deref())?,
            choice: options.discovery.unwrap_or_default(),
            limits: options.limits(),
            names: names.map().clone(),
        }))),
    }
}

fn read(folder: &Path) -> anyhow::Result<Saved> {
    let saved = offline::read(folder).map_err(|error| match error {
        OfflineError::Io { .. } | OfflineError::NoTopology { .. } | OfflineError::TooMany { .. } => {
            anyhow::Error::from(Failure::usage(error.to_string()))
        }
        other => other.into(),
    })?;
    for (file, kind) in &saved.files {
        tracing::debug!(file, ?kind, "read");
    }
    for warning in &saved.warnings {
        tracing::warn!("{warning}");
    }
    Ok(saved)
}

impl Source {
    /// The topology, with what is needed of it; what could not be read is reported.
    ///
    /// # Errors
    /// The local node does not answer (69), the command was stopped, the files lack what is needed (69).
    pub fn discover(&self, need: DiscoveryNeeds, stop: &Stop) -> anyhow::Result<Discovery> {
        match self {
            Source::Live(live) => {
                let mut found = super::fabric::discover(
                    &live.port,
                    live.settings,
                    live.sm_key,
                    live.choice,
                    (need.tables, live.limits),
                    stop,
                )?;
                live.names.apply(&mut found.topology.nodes);
                Ok(found)
            }
            Source::Saved(saved) => {
                if need.tables && saved.switches_without_table > 0 {
                    let missing = saved.switches_without_table;
                    let switches = saved.switches();
                    let text = format!(
                        "routes need forwarding tables, and {missing} of {switches} switches have none in the \
                         files; save them with `dump_fts > FILE`"
                    );
                    if missing == switches {
                        return Err(Failure::unavailable(text).into());
                    }
                    tracing::warn!("{text}");
                }
                Ok(Discovery { topology: saved.topology.clone(), ..Discovery::default() })
            }
        }
    }

    /// How switches choose output ports, of those that report; saved files do not.
    ///
    /// # Errors
    /// No permission (77), or the command was stopped.
    pub fn routing(&self, topology: &Topology, stop: &Stop) -> anyhow::Result<BTreeMap<Guid, SwitchRouting>> {
        let Source::Live(live) = self else { return Ok(BTreeMap::new()) };
        let mut engine = super::fabric::engine(&live.port, Class::Management, live.settings)?;
        Ok(read_routing(&mut engine, topology, reporting(topology), stop.flag())?)
    }

    /// What the subnet manager answers; `None` for saved files, and where there is none to query.
    ///
    /// # Errors
    /// No permission (77), or the command was stopped.
    pub fn manager(&self, topology: &Topology, stop: &Stop) -> anyhow::Result<Option<ManagerAnswer>> {
        let Source::Live(live) = self else { return Ok(None) };
        let mut engine = super::fabric::engine(&live.port, Class::Management, live.settings)?;
        Ok(query_manager(&mut engine, topology, stop.flag())?)
    }

    /// Whether virtual lanes break the cycles of links: by the service level of each pair of hosts, from the subnet
    /// administrator, and the mappings of switches.
    ///
    /// # Errors
    /// No permission (77), or the command was stopped.
    pub fn lanes(&self, topology: &Topology, stop: &Stop) -> anyhow::Result<LaneVerdict> {
        let Source::Live(live) = self else {
            return Ok(LaneVerdict::Unknown("saved files hold no service levels".to_owned()));
        };
        let Some(pairs) = topology.lane_pairs(LANE_PAIRS_MAX) else {
            let reason = format!("more than {LANE_PAIRS_MAX} pairs of hosts, too many to ask for");
            return Ok(LaneVerdict::Unknown(reason));
        };
        let mut client = super::fabric::administrator(&live.port, live.settings.budget, live.sm_key)?;
        let levels = match read_service_levels(&mut client, &pairs, stop.flag()) {
            Ok(levels) => levels,
            Err(SaError::Stopped) => return Err(SaError::Stopped.into()),
            Err(error) => return Ok(LaneVerdict::Unknown(error.to_string())),
        };
        let mut engine = super::fabric::engine(&live.port, Class::Management, live.settings)?;
        let maps = read_lane_maps(&mut engine, topology, &pairs, stop.flag())?;
        Ok(pairs.judge(&levels, &maps))
    }

    /// Multicast forwarding tables; what could not be read is reported.
    ///
    /// # Errors
    /// No permission (77), the command was stopped, the files have none (69).
    pub fn multicast(&self, topology: &Topology, stop: &Stop) -> anyhow::Result<MulticastTables> {
        let live = match self {
            Source::Live(live) => live,
            Source::Saved(saved) => return saved_multicast(saved, topology).map_err(Into::into),
        };
        let mut engine = super::fabric::engine(&live.port, Class::Management, live.settings)?;
        let (tables, failures) = multicast_tables::read(&mut engine, topology, stop.flag())?;
        super::fabric::report_failures(&failures);
        Ok(tables)
    }

    /// Multicast groups from the subnet administrator or the files; `None`, and the reason reported, where it does not
    /// answer.
    ///
    /// # Errors
    /// No permission (77), or the command was stopped.
    pub fn groups(
        &self,
        topology: &Topology,
        tables: &MulticastTables,
        stop: &Stop,
    ) -> anyhow::Result<Option<Groups>> {
        let live = match self {
            Source::Live(live) => live,
            Source::Saved(saved) => return Ok(saved.groups.clone()),
        };
        let mut client = super::fabric::administrator(&live.port, live.settings.budget, live.sm_key)?;
        let key = client.member_key();
        match sa::all_groups(&mut client, key, &tables.mlids(), &topology.end_guids(), stop.flag()) {
            Ok(groups) => {
                if groups.is_cut {
                    tracing::warn!(
                        "groups that share a multicast LID are not all reported by this administrator"
                    );
                }
                Ok(Some(groups))
            }
            Err(SaError::Stopped) => Err(SaError::Stopped.into()),
            Err(error) => {
                tracing::warn!(%error, "groups are not known; their trees are");
                Ok(None)
            }
        }
    }

    /// The counters of a topology's ports, to be read again and again.
    ///
    /// # Errors
    /// No permission (77); the files hold no counters (69).
    pub fn counters(&self, topology: &Topology, selection: Selection) -> anyhow::Result<Counting> {
        match self {
            Source::Live(live) => {
                let mut engine = super::fabric::engine(&live.port, Class::Performance, live.settings)?;
                let sweeper = Sweeper::new(&mut engine, topology, 0, selection, None);
                Ok(Counting(From::Live(Box::new((engine, sweeper))), Sets::USUAL))
            }
            Source::Saved(saved) if saved.snapshots.is_empty() => {
                let text = "the files hold no counters; save them with `ibqueryerrors --counters --data > FILE`, \
                            or `perfquery -x -l LID 1-36 > FILE` for a switch";
                Err(Failure::unavailable(text).into())
            }
            Source::Saved(saved) => {
                let sweeps = SavedSweeps::new(saved.snapshots.clone(), topology, selection);
                Ok(Counting(From::Saved(sweeps), Sets::USUAL))
            }
        }
    }
}

/// Multicast tables that were saved.
fn saved_multicast(saved: &Saved, topology: &Topology) -> Result<MulticastTables, Failure> {
    if saved.multicast.is_empty() {
        let text = "the files hold no multicast forwarding tables; save them with `dump_fts -M > FILE`";
        return Err(Failure::unavailable(text));
    }
    let mut tables = MulticastTables::new(topology);
    for (guid, entries) in &saved.multicast {
        let Some(switch) = topology.node_by_guid(*guid) else { continue };
        for (mlid, bits) in entries {
            let ports = (0..=u8::MAX).filter(|port| bits[usize::from(port / 64)] >> (port % 64) & 1 == 1);
            ports.for_each(|port| tables.insert(switch, *mlid, port));
        }
    }
    Ok(tables)
}

/// Counters of a fabric, sweep after sweep: live ones, or those that were saved, oldest first.
pub struct Counting(From, Sets);

enum From {
    Live(Box<(Engine, Sweeper)>),
    Saved(SavedSweeps),
}

impl Counting {
    /// Chooses which counters are read from now on; saved ones do not change.
    pub fn read(&mut self, sets: Sets) {
        self.1 = sets;
    }

    /// Requests of each node once how long its tick of waiting is, so that waiting is reported as a share of time.
    pub fn want_ticks(&mut self) {
        if let From::Live(live) = &mut self.0 {
            live.1.want_ticks();
        }
    }

    /// Reads all ports once more, or goes to the next saved reading; after the last one it stays there.
    ///
    /// # Errors
    /// [`EngineError`]; the readings are incomplete then.
    pub fn sweep(&mut self, stop: &Stop) -> Result<Coverage, EngineError> {
        match &mut self.0 {
            From::Live(live) => {
                let (engine, sweeper) = live.as_mut();
                let sets = self.1;
                sweeper.sweep_due(engine, ClockPoint::now(), stop.flag(), |_, _| sets)
            }
            From::Saved(saved) => Ok(saved.advance().unwrap_or_default()),
        }
    }

    /// The readings of the last sweep, ordered by node GUID and port.
    pub fn readings(&self) -> &[PortReading] {
        match &self.0 {
            From::Live(live) => live.1.readings(),
            From::Saved(saved) => saved.readings(),
        }
    }

    /// Ports that a sweep reads.
    pub fn len(&self) -> usize {
        self.readings().len()
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.readings().is_empty()
    }

    /// How many more sweeps there are; `None` where there is no end.
    pub fn left(&self) -> Option<usize> {
        match &self.0 {
            From::Live(_) => None,
            From::Saved(saved) => Some(saved.left()),
        }
    }
}
