//! Keys of jobs under each scheduler and launcher, and claims that are not believed.

use super::*;

fn hello(variables: &[(&str, &str)], launcher: Option<&str>) -> Hello {
    Hello {
        world_size: 4,
        epoch: 7,
        variables: variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        launcher: launcher.map(str::to_owned),
        ..Hello::default()
    }
}

fn process() -> Process {
    Process { pid: 42, uid: 1000, start_ticks: Some(99), ..Process::default() }
}

fn key(variables: &[(&str, &str)], launcher: Option<&str>) -> String {
    identify(&hello(variables, launcher), &process(), "n1", &Kernel::default()).unwrap().job_key
}

#[test]
fn schedulers_come_first() {
    assert_eq!(key(&[("SLURM_JOB_ID", "123"), ("SLURM_STEP_ID", "0")], None), "slurm:123.0@1000");
    assert_eq!(
        key(&[("SLURM_JOB_ID", "123"), ("SLURM_STEP_ID", "0")], Some("pmix slurm.pmix.123.0")),
        "slurm:123.0@1000"
    );
    assert_eq!(key(&[("PBS_JOBID", "12[3].server")], None), "pbs:12[3].server@1000");
    assert_eq!(key(&[("LSB_JOBID", "9")], None), "lsf:9@1000");
    assert_eq!(
        key(&[("FLUX_JOB_ID", "ƒabc"), ("LSB_JOBID", "9")], None),
        "lsf:9@1000",
        "the first that is there"
    );
}

const RUN: &str = "s1N9M8EM2AVH00";

#[test]
fn a_key_has_the_cluster_and_the_run() {
    let job = [("SLURM_JOB_ID", "123"), ("SLURM_STEP_ID", "0"), ("SLURM_CLUSTER_NAME", "Demo")];
    assert_eq!(key(&job, None), "slurm:demo:123.0@1000");
    // What root has set on the node is believed before what a rank says.
    let named = |name: Option<&'static str>| Kernel::default().with_cluster(move || name.map(str::to_owned));
    let found = |kernel: &Kernel, variables: &[(&str, &str)]| {
        identify(&hello(variables, None), &process(), "n1", kernel).unwrap()
    };
    assert_eq!(found(&named(Some("other")), &job).job_key, "slurm:other:123.0@1000");
    assert_eq!(found(&named(None), &job).job_key, "slurm:demo:123.0@1000");
    assert_eq!(found(&named(Some("other")), &[("PBS_JOBID", "12.server")]).job_key, "pbs:12.server@1000");
    assert_eq!(found(&named(Some("other")), &[]).scheduler, "local");
    // Since 26.05 a requeued job is another run of the same number.
    let run = [job.as_slice(), &[("SLURM_JOB_SLUID", RUN)]].concat();
    let identity = found(&named(None), &run);
    assert_eq!(identity.job_key, format!("slurm:demo:{RUN}.0@1000"));
    assert_eq!((identity.native_id.as_str(), identity.step.as_str()), ("123", "0"));
    // Components of a heterogeneous job have SLUIDs of their own, and their ranks are one world.
    let component = |sluid| [job.as_slice(), &[("SLURM_HET_SIZE", "2"), ("SLURM_JOB_SLUID", sluid)]].concat();
    assert_eq!(found(&named(None), &component(RUN)).job_key, "slurm:demo:123.0@1000");
    assert_eq!(found(&named(None), &component("s1N9M8EM2KPW00")).job_key, "slurm:demo:123.0@1000");
}

/// The kernel knows the run, and nobody that is believed the number.
#[test]
fn a_run_without_a_number() {
    let job = ScheduledJob {
        scheduler: "slurm".into(),
        sluid: Some(RUN.into()),
        components: 1,
        ..ScheduledJob::default()
    };
    let kernel = Kernel::new(move |_, _| Verdict::In(job.clone()));
    let found = identify(&hello(&[("SLURM_JOB_ID", "7")], None), &process(), "n1", &kernel).unwrap();
    assert_eq!(
        (found.job_key, found.native_id, found.evidence),
        (format!("slurm:{RUN}@1000"), String::new(), "cgroup")
    );
}

#[test]
fn programs_of_one_allocation_are_distinguished_by_their_launcher() {
    let batch = [("SLURM_JOB_ID", "123")];
    // On a remote node the ranks also carry the step in which mpirun started its daemon.
    let remote = [("SLURM_JOB_ID", "123"), ("SLURM_STEP_ID", "4")];
    let first = key(&batch, Some("pmix 815 tcp://one"));
    assert!(first.starts_with("slurm:123.m"), "{first}");
    assert_eq!(first, key(&remote, Some("pmix 815 tcp://one")));
    assert_ne!(first, key(&batch, Some("pmix 816 tcp://one")));
}

#[test]
fn launchers_name_jobs_without_a_scheduler() {
    let one = key(&[], Some("hydra node1:4000 0"));
    assert!(one.starts_with("local:") && one.len() == 27, "{one}");
    let elsewhere = identify(
        &hello(&[], Some("hydra node1:4000 0")),
        &Process { pid: 7, start_ticks: None, ..process() },
        "n2",
        &Kernel::default(),
    );
    assert_eq!(elsewhere.unwrap().job_key, one, "the same on another node");
    assert_ne!(key(&[], Some("hydra node1:4001 0")), one);
    assert_ne!(key(&[], Some("hydra node1:4000 0 at 1-2-3:99")), one, "the port of an earlier launch");
    let other_user = Process { uid: 1001, ..process() };
    assert_ne!(
        identify(&hello(&[], Some("hydra node1:4000 0")), &other_user, "n1", &Kernel::default())
            .unwrap()
            .job_key,
        one
    );
}

#[test]
fn a_single_process_is_its_own_job() {
    assert_eq!(key(&[], None), "local:n1:42:99@1000");
    let unknown = Process { start_ticks: None, ..process() };
    assert_eq!(
        identify(&hello(&[], None), &unknown, "n1", &Kernel::default()).unwrap().job_key,
        "local:n1:42:e7@1000"
    );
}

#[test]
fn the_kernel_is_believed_before_the_claim() {
    let kernel = Kernel::new(|pid, claim| match claim {
        _ if pid != 42 => Verdict::Unknown,
        Some(claim) if claim.id == "5" => Verdict::Confirms,
        Some(_) => Verdict::Contradicts,
        None => Verdict::In(ScheduledJob {
            scheduler: "slurm".into(),
            id: "5".into(),
            step: Some("0".into()),
            components: 1,
            ..ScheduledJob::default()
        }),
    });
    let found = |variables: &[(&str, &str)]| {
        identify(&hello(variables, None), &process(), "n1", &kernel).map(|found| found.job_key)
    };
    assert_eq!(found(&[("SLURM_JOB_ID", "5")]).unwrap(), "slurm:5@1000");
    assert_eq!(found(&[("SLURM_JOB_ID", "6")]), Err(Refusal::WrongJob));
    assert_eq!(found(&[]).unwrap(), "slurm:5.0@1000", "variables that were taken away do not hide the job");
}

#[test]
fn ids_with_odd_characters_are_no_ids() {
    assert!(key(&[("SLURM_JOB_ID", "1; drop")], None).starts_with("local:"));
    assert!(key(&[("SLURM_JOB_ID", "")], None).starts_with("local:"));
}

/// Nothing that a rank says brings it into a key that another user's ranks have.
#[test]
fn no_claim_leads_into_another_users_job() {
    let mallory = Process { uid: 1001, ..process() };
    let launcher = Some("pmix 815 tcp://one");
    for (variables, launcher) in [
        (vec![("SLURM_JOB_ID", "123"), ("SLURM_STEP_ID", "0")], None),
        (vec![("SLURM_JOB_ID", "123"), ("SLURM_STEP_ID", "0@1000")], None),
        (vec![("PBS_JOBID", "12.server@1000")], None),
        (vec![("SLURM_JOB_ID", "123"), ("SLURM_CLUSTER_NAME", "demo@1000")], None),
        (vec![("SLURM_JOB_ID", "123"), ("SLURM_JOB_SLUID", RUN)], None),
        (vec![("SLURM_JOB_ID", "123")], launcher),
        (vec![], launcher),
        (vec![], None),
    ] {
        let own = key(&variables, launcher);
        let theirs = identify(&hello(&variables, launcher), &mallory, "n1", &Kernel::default()).unwrap();
        assert!(own.ends_with("@1000") && theirs.job_key.ends_with("@1001"), "{own} {}", theirs.job_key);
        assert_eq!(theirs.job_key.matches('@').count(), 1);
    }
}

#[test]
fn evidence_is_named() {
    let evidence = |kernel: &Kernel, variables: &[(&str, &str)], launcher| {
        identify(&hello(variables, launcher), &process(), "n1", kernel).unwrap().evidence
    };
    let unknown = Kernel::default();
    let confirms = Kernel::new(|_, _| Verdict::Confirms);
    assert_eq!(evidence(&unknown, &[("PBS_JOBID", "1")], None), "environment");
    assert_eq!(evidence(&confirms, &[("PBS_JOBID", "1")], None), "cgroup");
    assert_eq!(evidence(&unknown, &[], Some("hydra n1:4000 0")), "launcher");
    assert_eq!(evidence(&unknown, &[], None), "process");
}
