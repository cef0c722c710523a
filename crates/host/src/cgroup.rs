//! What the path of a control group says about the job of its processes. Pure.
//!
//! Only a privileged program can make these groups and put a process there, so this is what the kernel vouches
//! for; below `user@UID.service` that user can too, so there nothing is believed of that user's own processes.
//! Each rule names the scheduler whose layout it is; the layouts are facts of those programs.

use throughline_sample::job_key::{is_sluid, is_step_number};

/// The group of all jobs of a slurmd under version 2, behind the node's name where a host has several.
const SLURM_SCOPE: &str = "slurmstepd.scope";

/// What a path says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The scheduler's job, if one put the process there.
    pub job: Option<ScheduledJob>,
    /// Identifier of the innermost container, for instance 64 hexadecimal digits.
    pub container: Option<String>,
    /// The systemd session scope, for instance `5` of `session-5.scope`.
    pub login_session: Option<String>,
}

/// A job as its scheduler names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledJob {
    /// Which scheduler.
    pub scheduler: Scheduler,
    /// The scheduler's own job id; of Slurm since 26.05 the SLUID of the run.
    pub id: String,
    /// The step within the job, where the scheduler counts steps.
    pub step: Option<String>,
}

/// Schedulers whose groups are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Slurm.
    Slurm,
    /// PBS Professional, OpenPBS and Torque.
    Pbs,
    /// IBM Spectrum LSF.
    Lsf,
    /// Flux.
    Flux,
    /// Kubernetes: the id is the pod's.
    Kubernetes,
}

impl Scheduler {
    /// The scheduler of this name in a job key, `None` for another word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Slurm, Self::Pbs, Self::Lsf, Self::Flux, Self::Kubernetes]
            .into_iter()
            .find(|s| s.name() == name)
    }

    /// The name in a job key.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::Slurm => "slurm",
            Scheduler::Pbs => "pbs",
            Scheduler::Lsf => "lsf",
            Scheduler::Flux => "flux",
            Scheduler::Kubernetes => "kubernetes",
        }
    }
}

/// Reads `/proc/PID/cgroup`: one line a hierarchy, `number:controllers:path`. With several hierarchies (v1, or
/// both versions at once) the first that names a job is taken: a scheduler uses some of them only. `uid` is the
/// process's user.
#[must_use]
pub fn placement(cgroup_file: &str, uid: u32) -> Placement {
    let mut found = Placement::default();
    for path in paths(cgroup_file) {
        let mut one = of_path(path);
        if delegated_to(path, uid) {
            one.job = None;
        }
        // A scheduler counts more than the Kubernetes that its node may itself be a pod of.
        let better = one.job.as_ref().is_some_and(|job| job.scheduler != Scheduler::Kubernetes);
        let worse = found.job.as_ref().is_none_or(|job| job.scheduler == Scheduler::Kubernetes);
        if found.job.is_none() || (better && worse) {
            found.job = one.job.or(found.job);
        }
        found.container = found.container.or(one.container);
        found.login_session = found.login_session.or(one.login_session);
    }
    found
}

/// The paths in the text of `/proc/PID/cgroup`.
pub fn paths(cgroup_file: &str) -> impl Iterator<Item = &str> {
    cgroup_file.lines().filter_map(|line| line.splitn(3, ':').nth(2)).filter(|path| *path != "/")
}

/// Whether a user can make groups, and so any name, in this path.
fn delegated_to(path: &str, uid: u32) -> bool {
    let manager = |part: &str| part.strip_prefix("user@")?.strip_suffix(".service")?.parse::<u32>().ok();
    path.split('/').any(|part| manager(part) == Some(uid))
}

/// The job that one path names, of any scheduler.
fn of_path(path: &str) -> Placement {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let scheduled = slurm(&parts).or_else(|| pbs(&parts)).or_else(|| lsf(&parts)).or_else(|| flux(&parts));
    Placement {
        job: scheduled.or_else(|| kubernetes(&parts)),
        container: parts.iter().rev().find_map(|part| container(part)),
        login_session: parts
            .iter()
            .find_map(|part| part.strip_prefix("session-")?.strip_suffix(".scope"))
            .map(str::to_owned),
    }
}

fn job(scheduler: Scheduler, id: &str, step: Option<&str>) -> Option<ScheduledJob> {
    let good = |text: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-[]".contains(&byte);
        !text.is_empty() && text.len() <= 128 && text.bytes().all(known)
    };
    let step = step.filter(|step| good(step)).map(str::to_owned);
    good(id).then(|| ScheduledJob { scheduler, id: id.to_owned(), step })
}

/// v1 `/slurm[_NODE]/uid_U/job_J/step_S/task_T`, v2 `/system.slice/[NODE_]slurmstepd.scope/job_J/step_S/user/task_T`, since 26.05
/// with the run's SLUID for `job_J`. Steps with names are none of a run's own.
fn slurm(parts: &[&str]) -> Option<ScheduledJob> {
    let root = parts.iter().position(|part| part.starts_with("slurm") || part.ends_with(SLURM_SCOPE))?;
    let below = &parts[root + 1..];
    let is_run = parts[root].ends_with(SLURM_SCOPE) && below.first().is_some_and(|part| is_sluid(part));
    let number = || below.iter().position(|part| is_number(part.strip_prefix("job_")));
    let at = if is_run { 0 } else { number()? };
    let step = below.get(at + 1).and_then(|part| part.strip_prefix("step_"));
    let id = below[at].strip_prefix("job_").unwrap_or(below[at]);
    job(Scheduler::Slurm, id, step.filter(|step| is_step_number(step)))
}

/// The group of the run with that SLUID in a path, as a path below the root; `None` where the path is of another one, or leads out
/// of the control group namespace.
pub(crate) fn group_of_run<'a>(path: &'a str, sluid: &str) -> Option<&'a str> {
    let path = path.strip_prefix('/')?;
    let is_outside = path.split('/').any(|part| part == "..");
    let (scope, _) = path.split_once(&format!("{SLURM_SCOPE}/{sluid}/"))?;
    let end = scope.len() + SLURM_SCOPE.len() + 1 + sluid.len();
    path.get(..end).filter(|_| !is_outside)
}

/// PBS: `/pbs_jobs.service/jobid/J.SERVER` (also under the older `pbspro.service`), and as slices of systemd
/// `/pbspro.slice/pbspro-J.SERVER.slice`; Torque: `/torque/J.SERVER`. The server's name is no part of what
/// users type, but of what makes the id unique.
fn pbs(parts: &[&str]) -> Option<ScheduledJob> {
    let id = parts.windows(2).find_map(|pair| match *pair {
        ["jobid", id] if parts.iter().any(|part| part.starts_with("pbs")) => Some(id.to_owned()),
        ["torque", id] => Some(id.to_owned()),
        [slice, id] if slice.starts_with("pbs") && slice.ends_with(".slice") => {
            let id =
                id.strip_suffix(".slice")?.strip_prefix(slice.strip_suffix("slice")?.strip_suffix('.')?)?;
            Some(unescape(id.strip_prefix('-')?))
        }
        _ => None,
    })?;
    let starts_with_number = id.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    job(Scheduler::Pbs, &id, None).filter(|_| starts_with_number)
}

/// `/lsf/CLUSTER/job.J.PID.TIME`, an array element as `job.J[I].…`.
fn lsf(parts: &[&str]) -> Option<ScheduledJob> {
    let root = parts.iter().position(|part| *part == "lsf")?;
    let rest = parts[root + 1..].iter().find_map(|part| part.strip_prefix("job."))?;
    let id = rest.split('.').next()?;
    let number = id.split('[').next();
    job(Scheduler::Lsf, id, None).filter(|_| is_number(number))
}

/// A unit of the user flux: `imp-shell-RANK-JOB.service` or `shell-RANK-JOB.service`, JOB in base 58 with `f`.
fn flux(parts: &[&str]) -> Option<ScheduledJob> {
    let id = parts.iter().find_map(|part| {
        let rest = part.strip_suffix(".service")?;
        let rest = rest.strip_prefix("imp-").unwrap_or(rest).strip_prefix("shell-")?;
        let (rank, id) = rest.split_once('-')?;
        // The letter before the number is an f, or in UTF-8 locales a florin sign.
        let id = unescape(id).replace('\u{192}', "f");
        (is_number(Some(rank)) && id.starts_with('f')).then_some(id)
    })?;
    job(Scheduler::Flux, &id, None)
}

/// `/kubepods…/pod<UID>/…` or `kubepods-…-pod<UID>.slice`, with `_` for `-` in the latter.
fn kubernetes(parts: &[&str]) -> Option<ScheduledJob> {
    parts.iter().find(|part| part.starts_with("kubepods"))?;
    let uid = parts.iter().find_map(|part| {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        let uid = part.strip_prefix("pod").or_else(|| Some(part.rsplit_once("-pod")?.1))?;
        (uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || b"-_".contains(&byte)))
            .then(|| uid.replace('_', "-"))
    })?;
    job(Scheduler::Kubernetes, &uid, None)
}

/// 64 hexadecimal digits, alone or as `docker-…`, `libpod-…`, `cri-containerd-…`, `crio-…` with `.scope`.
fn container(part: &str) -> Option<String> {
    let id = part.strip_suffix(".scope").unwrap_or(part);
    let id = id.rsplit_once('-').map_or(id, |(_, id)| id);
    let good = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    good.then(|| id.to_owned())
}

fn is_number(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// systemd writes bytes that a unit's name can't hold as `\xHH`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("\\x") {
        let (before, escape) = rest.split_at(at);
        bytes.extend_from_slice(before.as_bytes());
        match escape.get(2..4).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &escape[4..];
            }
            None => {
                bytes.extend_from_slice(b"\\x");
                rest = &escape[2..];
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
