//! The agent's configuration: one type, each key with its default, checked while it is read.
//!
//! `deploy/config/agent.toml` shows every key with its default; a test compares the two. Nothing is opened or
//! created here.

use crate::fold::Intervals;
use crate::mpi_quota::Quota;
use crate::values::{Name, SocketMode, VariableName};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use throughline_daemon::certificates::Purpose;
use throughline_daemon::{Failure, Seconds, paths};
use throughline_delivery::{Endpoint, SpoolSection, TlsFiles};
use throughline_detail::RecorderSection;
use throughline_gpu::Vendor;
use throughline_host::slurm::CONF_PLACES;
use throughline_sample::Guid;

mod gpu_metrics;

/// Port of the agent's HTTP side.
const HTTP_PORT: u16 = 9461;

/// Name of the socket that ranks connect to, in the run folder.
const MPI_SOCKET_NAME: &str = "mpi.sock";

/// Name of the socket for commands, in the run folder.
const CONTROL_SOCKET_NAME: &str = "agent.sock";

/// Name of the folder of leases, in the run folder.
const GPU_LEASES_NAME: &str = "gpu-leases";

/// Most samples of a GPU in a second: what CUPTI's metrics of links were meant for.
const SAMPLES_PER_SECOND_MAX: u32 = 1000;

/// Name of the file by which the next agent knows of ranks.
const RANK_STATE_NAME: &str = "mpi-ranks";

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Name of this node in all records; the host name when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Name>,
    /// State folder; see `paths::state_dir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<PathBuf>,
    /// Run-time folder; see `paths::run_dir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_dir: Option<PathBuf>,
    /// Node GUIDs of this node's adapters where sysfs does not show them.
    pub hca_guids: Vec<Guid>,
    /// `/metrics`.
    pub http: Http,
    /// From the spool to the collector.
    pub delivery: Delivery,
    /// What waits for the collector.
    pub spool: SpoolSection,
    /// What stays on this node in full resolution.
    pub recorder: RecorderSection,
    /// GPU links.
    pub nvml: Nvml,
    /// GPU links by DCGM.
    pub dcgm: Dcgm,
    /// Links of AMD's GPUs.
    pub amd_smi: AmdSmi,
    /// Links of Intel's GPUs.
    pub level_zero: LevelZero,
    /// The GPUs' performance monitors.
    pub cupti: Cupti,
    /// The host's own InfiniBand ports.
    pub sysfs: Sysfs,
    /// MPI ranks.
    pub mpi: Mpi,
    /// Where processes are looked up.
    pub proc: Proc,
    /// Commands to a running agent.
    pub control: Control,
}

/// `[http]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address of `/metrics` and `/healthz`.
    pub listen: SocketAddr,
    /// Whether `/metrics` shows the user and the command line of the jobs here: every local user may read it.
    pub job_owners: bool,
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, HTTP_PORT).into(), job_owners: false }
    }
}

/// `[delivery]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// How long records gather before they go to the spool as one batch.
    pub batch_interval_seconds: Seconds,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            collector: Endpoint::default(),
            tls: None,
            token_file: None,
            batch_interval_seconds: Seconds::from_millis(1000),
        }
    }
}

/// `[nvml]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nvml {
    /// Whether GPUs are read.
    pub enabled: bool,
    /// The library, by name or path.
    pub library: PathBuf,
    /// From one reading to the next.
    pub interval_seconds: Seconds,
    /// From one look at which GPUs and links there are to the next.
    pub survey_interval_seconds: Seconds,
    /// Whether a 32-bit PCIe counter is read often enough to unfold it (some 20 times a second on Gen5).
    pub unfold_pcie: bool,
    /// Whether PCIe is read by GPM where its counter is too narrow and not unfolded (Hopper and later).
    pub gpm: bool,
}

impl Default for Nvml {
    fn default() -> Self {
        Self {
            enabled: true,
            library: PathBuf::from("libnvidia-ml.so.1"),
            interval_seconds: Seconds::from_millis(1000),
            survey_interval_seconds: Seconds::from_millis(60_000),
            unfold_pcie: false,
            gpm: true,
        }
    }
}

/// A section for GPUs by another library than NVML.
macro_rules! gpu_library {
    ($name:ident, $section:literal, $vendor:ident) => {
        #[doc = $section]
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            /// Whether it is read.
            pub enabled: bool,
            /// The library, by name or path.
            pub library: PathBuf,
            /// From one reading to the next.
            pub interval_seconds: Seconds,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    enabled: false,
                    library: PathBuf::from(Vendor::$vendor.library()),
                    interval_seconds: Seconds::from_millis(1000),
                }
            }
        }
    };
}

gpu_library!(Dcgm, "`[dcgm]`", Dcgm);
gpu_library!(AmdSmi, "`[amd_smi]`", AmdSmi);
gpu_library!(LevelZero, "`[level_zero]`", LevelZero);

/// `[cupti]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cupti {
    /// Whether the GPUs' performance monitors are taken.
    pub enabled: bool,
    /// The library, by name or path.
    pub library: PathBuf,
    /// CUDA's driver library, by name or path.
    pub cuda: PathBuf,
    /// From one record to the next.
    pub interval_seconds: Seconds,
    /// Samples that each GPU takes.
    pub samples_per_second: u32,
    /// The user that the sampler runs as; the agent's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Folder of leases; `gpu-leases` in the run folder when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leases: Option<PathBuf>,
    /// An older lease was abandoned.
    pub lease_seconds_max: Seconds,
    /// Metrics beside bytes over NVLink and PCIe, as CUPTI names them; reported at `interval_seconds`.
    pub metrics: Vec<String>,
    /// More of them, each group at an interval of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<gpu_metrics::CuptiGroup>,
}

impl Default for Cupti {
    fn default() -> Self {
        Self {
            enabled: false,
            library: PathBuf::from("libcupti.so"),
            cuda: PathBuf::from("libcuda.so.1"),
            interval_seconds: Seconds::from_millis(1000),
            samples_per_second: 100,
            user: None,
            leases: None,
            lease_seconds_max: Seconds::from_millis(86_400_000),
            metrics: Vec::new(),
            group: Vec::new(),
        }
    }
}

/// `[control]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Control {
    /// The socket; `agent.sock` in the run folder when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Permissions of the socket; the agent's own user alone when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_mode: Option<SocketMode>,
}

/// `[sysfs]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sysfs {
    /// Whether the host's InfiniBand ports are read.
    pub enabled: bool,
    /// Where sysfs is mounted.
    pub root: PathBuf,
    /// From one reading to the next.
    pub interval_seconds: Seconds,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self { enabled: true, root: PathBuf::from("/sys"), interval_seconds: Seconds::from_millis(1000) }
    }
}

/// `[mpi]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mpi {
    /// Whether ranks may connect.
    pub enabled: bool,
    /// The socket; `mpi.sock` in the run folder when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Permissions of the socket: every user of the node runs ranks.
    pub socket_mode: SocketMode,
    /// Most ranks connected at once.
    pub connections_max: u32,
    /// MPI_T performance variables that ranks read; the shim's own choice when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvars: Option<Vec<VariableName>>,
    /// Length of a time bin of operations.
    pub bin_seconds: Seconds,
    /// How often a rank sends its bins.
    pub push_interval_seconds: Seconds,
    /// How often operations and traffic have rows, summed over a job's ranks on the node.
    pub fold_seconds: Seconds,
    /// How often each rank has a row of its own, in its first ten minutes and while somebody looks at its job; it has others soon after
    /// its start, and an exact one when it ends.
    pub rank_seconds: Seconds,
    /// How often a rank that has run for longer has one.
    pub rank_later_seconds: Seconds,
    /// How often rows have all that is known of each rank and of traffic, whether it changed or not.
    pub repeat_seconds: u32,
    /// Peers with fewer bytes are sent only when the rank ends.
    pub peer_bytes_min: u64,
    /// Peers in rows of traffic by operation, of all jobs in a second; more come at longer intervals.
    pub traffic_cells_per_second: u32,
    /// Whether ranks also report which messages really went: those of Open MPI 4.1 and 5.0.
    pub wire: bool,
    /// Who may trace.
    pub trace: Trace,
    /// Most trace records taken in a second, of all ranks of the node together.
    pub trace_records_per_second: u32,
    /// Most trace records of a job.
    pub trace_records_of_job: u64,
    /// Most readings of GPU links and host ports a second because jobs begin or end; 0 makes none.
    pub edge_samples_per_second: u32,
    /// Slurm's configuration, which names the node's cluster; where packages and slurmd have it when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm_conf: Option<PathBuf>,
    /// Of users and jobs.
    pub quota: Quota,
}

/// Who may trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trace {
    /// Nobody, not even on request.
    Never,
    /// Programs whose environment requests it.
    OnRequest,
    /// Every program.
    Always,
}

impl Default for Mpi {
    fn default() -> Self {
        Self {
            enabled: true,
            socket: None,
            socket_mode: SocketMode::default(),
            connections_max: 4096,
            pvars: None,
            bin_seconds: Seconds::from_millis(100),
            push_interval_seconds: Seconds::from_millis(1000),
            fold_seconds: Seconds::from_millis(10_000),
            rank_seconds: Seconds::from_millis(60_000),
            rank_later_seconds: Seconds::from_millis(300_000),
            repeat_seconds: 86_400,
            peer_bytes_min: 0,
            traffic_cells_per_second: 200,
            wire: false,
            trace: Trace::OnRequest,
            trace_records_per_second: 50_000,
            trace_records_of_job: 20_000_000,
            edge_samples_per_second: 4,
            slurm_conf: None,
            quota: Quota::default(),
        }
    }
}

impl Mpi {
    /// Files that may name the node's Slurm cluster, the first that does counts.
    #[must_use]
    pub fn slurm_conf_places(&self) -> Vec<PathBuf> {
        match &self.slurm_conf {
            Some(file) => vec![file.clone()],
            None => CONF_PLACES.iter().map(PathBuf::from).collect(),
        }
    }

    /// At which intervals rows are made of what ranks report.
    #[must_use]
    pub fn intervals(&self) -> Intervals {
        // Intervals are at most an hour: they fit.
        let nanoseconds = |of: Seconds| i64::try_from(of.duration().as_nanos()).unwrap_or(i64::MAX);
        Intervals {
            fold: nanoseconds(self.fold_seconds),
            rank: nanoseconds(self.rank_seconds),
            later: nanoseconds(self.rank_later_seconds),
            repeat: i64::from(self.repeat_seconds) * 1_000_000_000,
        }
    }
}

/// `[proc]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Proc {
    /// Where proc is mounted.
    pub root: PathBuf,
}

impl Default for Proc {
    fn default() -> Self {
        Self { root: PathBuf::from("/proc") }
    }
}

/// The folders and names that hold, with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Name of this node.
    pub node: String,
    /// State folder.
    pub state_dir: PathBuf,
    /// Run-time folder.
    pub run_dir: PathBuf,
    /// Socket for ranks.
    pub mpi_socket: PathBuf,
    /// Socket for commands.
    pub control_socket: PathBuf,
    /// Folder of leases of GPUs.
    pub gpu_leases: PathBuf,
    /// Where what is known of ranks waits for the next agent; `None` to leave it alone.
    pub rank_state: Option<PathBuf>,
}

impl Config {
    /// Checks what the configuration names on this machine, for `check-config`: the user of a sampler is there; files of
    /// certificates and tokens are valid, of each other, and of this node.
    ///
    /// # Errors
    /// It is not there or can't be used; the message names the key.
    pub fn check_files(&self, places: &Places) -> Result<(), Failure> {
        if let Some(name) = &self.cupti.user {
            crate::users::cupti_user(name)?;
        }
        let delivery = &self.delivery;
        delivery.collector.sink(&places.run_dir, delivery.tls.as_ref(), delivery.token_file.as_deref())?;
        let Some(tls) = &delivery.tls else { return Ok(()) };
        let names = tls.check_certificates("delivery.tls", Purpose::Client)?;
        if names.contains(&places.node) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "delivery.tls.certificate = \"{}\": it is a certificate of {}, and this node is called {}: the collector would \
             refuse its batches; set [node] name, or give the node a certificate with its name",
            tls.certificate.display(),
            names.join(", "),
            places.node
        )))
    }

    /// Fills in what depends on the machine, also in the configuration itself, so that `check-config` prints
    /// what really holds. `state_dir` is the option of the command line.
    ///
    /// # Errors
    /// No state folder can be determined, the host has no usable name, or the socket's path is too long (64).
    pub fn resolve(&mut self, state_dir: Option<&Path>) -> Result<Places, Failure> {
        let node = match &self.node {
            Some(name) => name.to_string(),
            None => host_name()?,
        };
        let explicit = state_dir.or(self.state_dir.as_deref()).map(Path::to_owned);
        let state_dir = paths::state_dir(explicit.as_deref())?;
        let run_dir = match &self.run_dir {
            Some(dir) => std::path::absolute(dir).unwrap_or_else(|_| dir.clone()),
            None => paths::run_dir(&state_dir, explicit.is_some()),
        };
        let mpi_socket = self.mpi.socket.clone().unwrap_or_else(|| run_dir.join(MPI_SOCKET_NAME));
        if self.mpi.enabled {
            paths::check_socket_path(&mpi_socket)?;
        }
        if self.nvml.library.as_os_str().is_empty() {
            let remedy = "leave it out for libnvidia-ml.so.1, or set nvml.enabled = false";
            return Err(Failure::usage(format!("configuration: nvml.library is empty; {remedy}")));
        }
        let samples = self.cupti.samples_per_second;
        if !(1..=SAMPLES_PER_SECOND_MAX).contains(&samples) {
            let range = format!("1 to {SAMPLES_PER_SECOND_MAX}");
            return Err(Failure::usage(format!(
                "configuration: cupti.samples_per_second is {samples}, not {range}"
            )));
        }
        self.cupti.metric_groups()?;
        let control_socket = self.control.socket.clone().unwrap_or_else(|| run_dir.join(CONTROL_SOCKET_NAME));
        paths::check_socket_path(&control_socket)?;
        let gpu_leases = self.cupti.leases.clone().unwrap_or_else(|| run_dir.join(GPU_LEASES_NAME));
        self.control.socket = Some(control_socket.clone());
        self.cupti.leases = Some(gpu_leases.clone());
        self.node = Name::new(&node).ok();
        self.state_dir = Some(state_dir.clone());
        self.run_dir = Some(run_dir.clone());
        self.mpi.socket = Some(mpi_socket.clone());
        // Without a disk the run-time folder holds it: that lasts longer than an agent, too.
        let folder = if self.spool.memory_only { &run_dir } else { &state_dir };
        let rank_state = Some(folder.join(RANK_STATE_NAME));
        Ok(Places { node, state_dir, run_dir, mpi_socket, control_socket, gpu_leases, rank_state })
    }
}

/// The host's name as the kernel knows it.
fn host_name() -> Result<String, Failure> {
    let reported = nix::sys::utsname::uname().map(|names| names.nodename().to_string_lossy().into_owned());
    let name = reported.map_err(|errno| errno.to_string()).and_then(|name| Name::new(&name));
    let name =
        name.map_err(|error| Failure::usage(format!("host name: {error}; set node in the configuration")))?;
    Ok(name.to_string())
}

#[cfg(test)]
mod tests;
