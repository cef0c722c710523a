//! MPI ranks: starts the receiver of crate `mpit-bridge` and translates its status.

use super::{Health, Source, Start, Status, roots};
use crate::config::{Mpi, Trace};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use throughline_daemon::{ExitStatus, Failure, Labels, boot_id, paths};
use throughline_host::cgroup::Scheduler;
use throughline_host::identity::{ClaimAgreement, JobIdentity, Roots, identify};
use throughline_host::slurm::cluster_of_node;
use throughline_mpit_bridge::{
    BindError, Config, Kernel, Limits, Look, Receiver, ScheduledJob, Status as ReceiverStatus, TraceLimits,
    Tracing, Verdict, Welcome,
};
use throughline_sample::catalogue::{
    CONNECTIONS_REJECTED, CONTESTED_CLAIMS, Metric, OVER_QUOTA_USERS, QUOTA_LIMITED, RECLAIMED_RANKS,
    RECORDS_REJECTED, RECOVERED_ENDS, STATE_FAILURES, UNKNOWN_RANK_GPUS, UNKNOWN_RANK_PORTS, UNOBSERVED_ENDS,
    WAITING_BYTES,
};
use tokio::runtime::Handle;

/// Name of the source in metrics.
pub const NAME: &str = "mpi";

/// Starts it. Within the runtime.
pub fn start(start: Start) -> anyhow::Result<Box<dyn Source>> {
    make_run_dir(&start.places.run_dir)?;
    let settings = &start.config.mpi;
    let config = Config {
        socket: start.places.mpi_socket.clone(),
        mode: settings.socket_mode.0,
        node: start.places.node.clone(),
        welcome: welcome(settings),
        limits: limits(settings),
        proc: start.config.proc.root.clone(),
        sys: start.config.sysfs.root.clone(),
        kernel: kernel(roots(start.config), settings.slurm_conf_places()),
        subuid: "/etc/subuid".into(),
        state: start.places.rank_state.clone(),
        boot_id: boot_id(),
        job_edge: start.job_edge,
    };
    let utc = super::monotonic_to_utc(start.clock);
    let receiver = Receiver::start(config, Arc::new(utc), start.records).map_err(failure)?;
    mark_wire(&start.places.mpi_socket, settings.wire);
    Ok(Box::new(Ranks { receiver, runtime: Handle::current() }))
}

/// What control groups say about a rank's job, and slurm.conf about the node's cluster.
fn kernel(roots: Roots, conf: Vec<PathBuf>) -> Kernel {
    let of_rank = move |pid, claim: Option<&ScheduledJob>| {
        // A process that is gone, or in another PID namespace, is unknown here.
        let Ok(known) = identify(&roots, pid) else { return Verdict::Unknown };
        if known.scheduler == Some(Scheduler::Slurm) {
            return in_slurm(known, claim);
        }
        let Some((scheduler, id)) = known.scheduler.zip(known.job_id.clone()) else {
            return Verdict::Unknown;
        };
        // A node of a cluster can itself be a pod: that says nothing about the job on it.
        if scheduler == Scheduler::Kubernetes {
            return Verdict::Unknown;
        }
        let Some(claim) = claim else {
            let scheduler = scheduler.name().to_owned();
            let job =
                ScheduledJob { scheduler, id, step: known.step, components: 1, ..ScheduledJob::default() };
            return Verdict::In(job);
        };
        let agrees = match Scheduler::from_name(&claim.scheduler) {
            // An element of an array may be named by the array alone.
            Some(Scheduler::Lsf) if scheduler == Scheduler::Lsf => number(&id) == number(&claim.id),
            // A nested instance numbers its jobs anew, and no control group is made for them.
            Some(Scheduler::Flux) if scheduler == Scheduler::Flux => {
                return if id == claim.id { Verdict::Confirms } else { Verdict::Unknown };
            }
            Some(claimed) => known.agrees_with(claimed, &claim.id, None) == ClaimAgreement::Agrees,
            None => return Verdict::Unknown,
        };
        if agrees { Verdict::Confirms } else { Verdict::Contradicts }
    };
    Kernel::new(of_rank).with_cluster(move || cluster_of_node(conf.iter().map(PathBuf::as_path)))
}

/// A process that Slurm has put into a job. The number that its variables claim is not taken: where the control group has a SLUID
/// and no slurmstepd can be read, the run is known and its number is not.
fn in_slurm(known: JobIdentity, claim: Option<&ScheduledJob>) -> Verdict {
    match claim.map(|claim| Scheduler::from_name(&claim.scheduler)) {
        None | Some(Some(Scheduler::Slurm)) => {}
        Some(Some(_)) => return Verdict::Contradicts,
        Some(None) => return Verdict::Unknown,
    }
    // A heterogeneous job is one, and each component's control group has a number and a SLUID of its own.
    let same_number = claim.zip(known.job_id.as_ref()).map(|(claim, id)| claim.has_component(id));
    let claimed_sluid = claim.and_then(|claim| claim.sluid.as_ref());
    let same_run = claimed_sluid.zip(known.sluid.as_ref()).map(|(claimed, known)| claimed == known);
    if same_number == Some(false) || same_run == Some(false) {
        return Verdict::Contradicts;
    }
    if claim.is_some_and(|claim| claim.components > 1) {
        return if same_number == Some(true) { Verdict::Confirms } else { Verdict::Unknown };
    }
    // Worlds of one process in a step are distinguished by their tasks, which the control group has in versions of its own.
    let claimed_step = claim.and_then(|claim| claim.step.clone());
    let step = match known.step {
        Some(step) => claimed_step.filter(|claimed| claimed.split('.').next() == Some(&step)).or(Some(step)),
        None => claimed_step,
    };
    Verdict::In(ScheduledJob {
        scheduler: Scheduler::Slurm.name().to_owned(),
        id: known.job_id.unwrap_or_default(),
        sluid: known.sluid,
        cluster: claim.and_then(|claim| claim.cluster.clone()),
        step,
        components: 1,
    })
}

/// An LSF job without the number within its array.
fn number(id: &str) -> &str {
    id.split('[').next().unwrap_or(id)
}

/// Makes the run-time folder where it is missing, and lets every user in whatever the umask: ranks of all users
/// look for the socket there. What a site has made for itself keeps its permissions.
fn make_run_dir(folder: &Path) -> Result<(), Failure> {
    let is_new = !folder.exists();
    paths::create_dir(folder)?;
    if is_new {
        let open = std::fs::set_permissions(folder, Permissions::from_mode(0o755));
        open.map_err(|error| {
            Failure::from_io(format!("mode of {}", folder.display()), &error, "see run_dir")
        })?;
    }
    Ok(())
}

/// Open MPI's monitoring has to be switched on before MPI starts, so before a rank can be notified: a file beside the socket
/// says it to programs that are being loaded (`shim/wire.c`). It outlives an agent that is killed, and costs those
/// programs 0.1 microseconds a message until the next agent starts.
fn mark_wire(socket: &Path, wanted: bool) {
    let mut name = socket.as_os_str().to_owned();
    name.push(".wire");
    let mark = Path::new(&name);
    let done = if wanted { std::fs::write(mark, "") } else { std::fs::remove_file(mark) };
    if let Err(error) = done
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path = %mark.display(), %error, "can't say whether the wire matrix is wanted");
    }
}

fn welcome(settings: &Mpi) -> Welcome {
    // Intervals are at most an hour: they fit.
    let milliseconds = |span: Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
    Welcome {
        bin_milliseconds: Some(milliseconds(settings.bin_seconds.duration())),
        push_milliseconds: Some(milliseconds(settings.push_interval_seconds.duration())),
        variables: settings.pvars.as_ref().map(|names| names.iter().map(ToString::to_string).collect()),
        peer_bytes: Some(settings.peer_bytes_min),
        wire: settings.wire.then_some(true),
        trace: Some(match settings.trace {
            Trace::Never => Tracing::Never,
            Trace::OnRequest => Tracing::Requested,
            Trace::Always => Tracing::Always,
        }),
        trace_records_per_second: Some(settings.trace_records_per_second.into()),
        trace_records_of_job: Some(settings.trace_records_of_job),
    }
}

fn limits(settings: &Mpi) -> Limits {
    Limits {
        connections: settings.connections_max.max(1) as usize,
        quota: settings.quota.limits(),
        window: settings.quota.window(),
        traffic_cells_per_second: settings.traffic_cells_per_second,
        // Folding has whole seconds, or what is shorter than one.
        traffic_seconds: u32::try_from(settings.fold_seconds.duration().as_secs()).unwrap_or(u32::MAX),
        repeat_seconds: settings.repeat_seconds,
        trace: TraceLimits {
            records_per_second: settings.trace_records_per_second,
            records_of_job: settings.trace_records_of_job,
        },
        ..Limits::default()
    }
}

/// A socket that can't be had is a mistake in how the agent was started, and ends it; see `Sources::start`.
fn failure(error: BindError) -> Failure {
    let status = match &error {
        BindError::TooLong(_) => ExitStatus::Usage,
        BindError::System { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            ExitStatus::Permission
        }
        _ => ExitStatus::Unavailable,
    };
    Failure::new(status, format!("{error} (configuration key mpi.socket)"))
}

struct Ranks {
    receiver: Receiver,
    runtime: Handle,
}

impl Source for Ranks {
    fn status(&self) -> Status {
        translate(&self.receiver.status())
    }

    fn ranks(&self) -> Vec<u32> {
        self.receiver.processes()
    }

    fn place(&self, look: &Look) {
        self.receiver.place(look);
    }

    fn stop(self: Box<Self>) {
        self.runtime.block_on(self.receiver.stop());
    }
}

fn translate(status: &ReceiverStatus) -> Status {
    Status {
        health: Health::Up,
        state: "listening".to_owned(),
        reason: over_quota(status).or_else(|| status.bypassed.first().cloned()).or_else(|| {
            (status.connected == 0)
                .then(|| "no rank is connected: start MPI programs under throughline-exec".to_owned())
        }),
        conditions: over_quota(status).into_iter().chain(status.bypassed.iter().cloned()).collect(),
        dropped: status.dropped_records + status.dropped_trace_records,
        failed: status.lost_frames
            + status.unknown_frames
            + status.unknown_operations
            + status.closed_connections(),
        malformed: Some(status.malformed_messages()),
        connected: Some(status.connected),
        jobs: Some(status.running_jobs),
        counts: counts(status),
        ..Status::default()
    }
}

/// Who is over quota, for people.
fn over_quota(status: &ReceiverStatus) -> Option<String> {
    let named = status.over_quota.iter().map(|over| {
        let who = if over.user.is_empty() { "user" } else { over.user.as_str() };
        format!("{who} ({}): {}", over.uid, over.quotas.join(", "))
    });
    let named = named.collect::<Vec<_>>().join("; ");
    let more = status.over_quota_users.saturating_sub(status.over_quota.len() as u64);
    let more = if more > 0 { format!("; and {more} more users") } else { String::new() };
    (!named.is_empty()).then(|| format!("over quota, thinned: {named}{more}"))
}

/// Counts with a place of their own among the metrics.
fn counts(status: &ReceiverStatus) -> Vec<(Labels, &'static Metric, u64)> {
    let own = [
        (&RECLAIMED_RANKS, status.reclaimed_ranks),
        (&UNOBSERVED_ENDS, status.unseen_ends),
        (&RECOVERED_ENDS, status.recovered_ends),
        (&STATE_FAILURES, status.failed_saves),
        (&OVER_QUOTA_USERS, status.over_quota_users),
        (&WAITING_BYTES, status.waiting_bytes),
        (&CONTESTED_CLAIMS, status.contested_claims),
    ];
    let own = own.map(|(metric, count)| (Labels::from(NAME), metric, count));
    let labelled = |label: &'static str, metric, count: u64| ((NAME, label).into(), metric, count);
    let closed = status.closed.iter().filter(|(_, count)| *count > 0);
    let closed = closed.map(|(why, count)| labelled(why.name(), &CONNECTIONS_REJECTED, *count));
    let rejected = status.rejected.iter().filter(|(_, count)| *count > 0);
    let rejected = rejected.map(|(why, count)| labelled(why.reason(), &RECORDS_REJECTED, *count));
    let quotas = status.quotas.iter().filter(|(_, count)| *count > 0);
    let quotas = quotas.map(|(quota, count)| labelled(quota.name(), &QUOTA_LIMITED, *count));
    let gpus = status.unknown_gpus.iter().map(|(why, count)| labelled(why, &UNKNOWN_RANK_GPUS, *count));
    let ports = status.unknown_ports.iter().map(|(why, count)| labelled(why, &UNKNOWN_RANK_PORTS, *count));
    own.into_iter().chain(closed).chain(rejected).chain(quotas).chain(gpus).chain(ports).collect()
}

#[cfg(test)]
mod tests;
