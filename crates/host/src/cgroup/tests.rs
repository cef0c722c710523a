//! Paths as the schedulers make them, and others that look like them.

use super::*;

const UID: u32 = 1000;

fn named(cgroup_file: &str) -> Option<(&'static str, String, Option<String>)> {
    let job = placement(cgroup_file, UID).job?;
    Some((job.scheduler.name(), job.id, job.step))
}

fn is(
    scheduler: &'static str,
    id: &str,
    step: Option<&str>,
) -> Option<(&'static str, String, Option<String>)> {
    Some((scheduler, id.to_owned(), step.map(str::to_owned)))
}

#[test]
fn slurm_of_both_versions() {
    let first = "9:devices:/\n8:memory:/slurm/uid_1000/job_4711/step_3/task_0\n4:cpuset:/slurm/uid_1000/job_4711/step_3\n";
    assert_eq!(named(first), is("slurm", "4711", Some("3")));
    let second = "0::/system.slice/slurmstepd.scope/job_4711/step_batch/user/task_0";
    assert_eq!(named(second), is("slurm", "4711", None), "a batch script is no step of its own");
    let several = "0::/system.slice/n17_slurmstepd.scope/job_99/step_0/user/task_12";
    assert_eq!(named(several), is("slurm", "99", Some("0")));
    assert_eq!(named("1:cpuset:/slurm_n17/uid_0/job_5"), is("slurm", "5", None));
    let run = "0::/system.slice/n17_slurmstepd.scope/s1N9M8EK7JCC00/step_0/user/task_special";
    assert_eq!(named(run), is("slurm", "s1N9M8EK7JCC00", Some("0")));
    // Version 1 keeps numbers in each release, and what is below a run's own group is no run.
    assert_eq!(named("4:cpuset:/slurm/s1N9M8EK7JCC00/step_0"), None);
    assert_eq!(named("0::/system.slice/slurmstepd.scope/x/s1N9M8EK7JCC00/step_0"), None);
}

#[test]
fn pbs_torque_lsf_and_flux() {
    assert_eq!(named("3:cpuset:/pbs_jobs.service/jobid/1234.pbs01"), is("pbs", "1234.pbs01", None));
    assert_eq!(named("0::/pbs_jobs.service/jobid/12[7].pbs01"), is("pbs", "12[7].pbs01", None));
    assert_eq!(named("3:cpuset:/pbspro.slice/pbspro-1234.pbs\\x2d1.slice"), is("pbs", "1234.pbs-1", None));
    assert_eq!(named("3:cpuset:/torque/88.head"), is("pbs", "88.head", None));
    assert_eq!(named("5:memory:/lsf/cluster1/job.311.12345.1600000000"), is("lsf", "311", None));
    assert_eq!(named("5:memory:/lsf/cluster1/job.311[4].12345.1600000000"), is("lsf", "311[4]", None));
    let unit = "0::/user.slice/user-70.slice/user@70.service/app.slice/imp-shell-3-fKL2bZ9u.service";
    assert_eq!(named(unit), is("flux", "fKL2bZ9u", None));
    assert_eq!(named("0::/x/shell-0-\\xc6\\x92KL2.service"), is("flux", "fKL2", None));
}

#[test]
fn containers_and_pods() {
    let id = "0123456789abcdef".repeat(4);
    let docker = placement(&format!("0::/system.slice/docker-{id}.scope"), UID);
    assert_eq!((docker.job, docker.container.as_deref()), (None, Some(id.as_str())));
    let pod = format!(
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod8a3c0f9e_1b2d_4c5e_8f70_112233445566.slice/cri-containerd-{id}.scope"
    );
    assert_eq!(named(&pod), is("kubernetes", "8a3c0f9e-1b2d-4c5e-8f70-112233445566", None));
    assert_eq!(placement(&pod, UID).container.as_deref(), Some(id.as_str()));
    let older = format!("2:cpu:/kubepods/besteffort/pod8a3c0f9e-1b2d-4c5e-8f70-112233445566/{id}");
    assert_eq!(named(&older), is("kubernetes", "8a3c0f9e-1b2d-4c5e-8f70-112233445566", None));
    // A container within a job belongs to the job; so does a Slurm node that is itself a pod.
    let inside = format!("0::/system.slice/slurmstepd.scope/job_7/step_0/user/libpod-{id}.scope");
    assert_eq!(named(&inside), is("slurm", "7", Some("0")));
    assert_eq!(placement(&inside, UID).container.as_deref(), Some(id.as_str()));
    assert_eq!(named(&format!("{older}\n3:memory:/slurm/uid_1/job_8/step_1")), is("slurm", "8", Some("1")));
}

#[test]
fn what_is_no_job() {
    let login = placement("0::/user.slice/user-1000.slice/session-5.scope", UID);
    assert_eq!((login.job, login.login_session.as_deref()), (None, Some("5")));
    for path in [
        "",
        "0::/",
        "nonsense",
        "0::/../..",
        "0::/system.slice/slurmd.service",
        "0::/home/job_5/step_1",
        "0::/slurm/uid_1/job_x",
        "0::/pbs_jobs.service/jobid/evil name",
        "0::/jobid/12.server",
        "0::/lsf/cluster/job.abc.1",
        "0::/x/shell-a-f1.service",
        "0::/kubepods/podshort",
    ] {
        assert_eq!(named(path), None, "{path}");
    }
}

#[test]
fn a_user_cannot_name_a_job_for_the_own_processes() {
    let forged = "0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_1/step_0/user/task_0";
    assert_eq!(placement(forged, 1000).job, None);
    // Flux runs users' jobs below its own user's manager.
    assert!(
        placement("0::/user.slice/user-70.slice/user@70.service/imp-shell-0-fA.service", 1000).job.is_some()
    );
}

#[test]
fn a_torn_escape_is_kept_as_it_is() {
    assert_eq!(unescape("a\\x2db"), "a-b");
    assert_eq!(unescape("a\\x2"), "a\\x2");
    assert_eq!(unescape("\\xzz\\x2d"), "\\xzz-");
    assert_eq!(unescape("\\x\u{e9}"), "\\x\u{e9}");
}
