//! Variables of each scheduler, as its jobs have them.

use super::*;

fn claimed(world_size: u32, variables: &[(&str, &str)]) -> Option<Claim> {
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    claim(&Hello { world_size, variables, ..Hello::default() })
}

fn id(variables: &[(&str, &str)]) -> String {
    let job = claimed(4, variables).unwrap().job;
    format!("{}:{}.{}", job.scheduler, job.id, job.step.unwrap_or_default())
}

/// As observed under slurmctld 22.05: `sbatch -A acct1 -J name1 --array=7`, in it `srun --mpi=pmix -n1`.
const ARRAY_STEP: [(&str, &str); 9] = [
    ("SLURM_JOB_ID", "5"),
    ("SLURM_STEP_ID", "0"),
    ("SLURM_STEP_NUM_TASKS", "1"),
    ("SLURM_PROCID", "0"),
    ("SLURM_JOB_NAME", "name1"),
    ("SLURM_JOB_ACCOUNT", "acct1"),
    ("SLURM_JOB_PARTITION", "debug"),
    ("SLURM_ARRAY_JOB_ID", "5"),
    ("SLURM_ARRAY_TASK_ID", "7"),
];

#[test]
fn an_array_task_of_slurm() {
    let Claim { job, about } = claimed(1, &ARRAY_STEP).unwrap();
    assert_eq!((job.id.as_str(), job.step.as_deref(), job.components), ("5", Some("0"), 1));
    let About { name, account, queue, array_id } = about;
    assert_eq!([name, account, queue, array_id], ["name1", "acct1", "debug", "5_7"]);
}

/// Variables as three releases set them, in a batch script, a step and the shell of `salloc`.
#[test]
fn recorded_variables_of_three_releases() {
    let claims = |release: &str| -> Vec<ScheduledJob> {
        let parts = release.split("== ").skip(1).map(|part| {
            let variables =
                part.lines().filter(|line| !line.starts_with("0::")).filter_map(|line| line.split_once('='));
            claimed(4, &variables.collect::<Vec<_>>()).unwrap().job
        });
        parts.collect()
    };
    let expected = |id: &str, sluid: Option<&str>, step: Option<&str>| ScheduledJob {
        scheduler: "slurm".into(),
        id: id.into(),
        sluid: sluid.map(str::to_owned),
        cluster: Some("demo".into()),
        step: step.map(str::to_owned),
        components: 1,
    };
    let of = |array: &str, array_run, interactive: &str, interactive_run| {
        let array = |step| expected(array, array_run, step);
        [array(None), array(Some("0")), expected(interactive, interactive_run, None)]
    };
    assert_eq!(claims(include_str!("../../../host/tests/slurm/22.05.txt")), of("57", None, "60", None));
    assert_eq!(claims(include_str!("../../../host/tests/slurm/25.11.txt")), of("56", None, "57", None));
    let runs = of("40", Some("s1N9M8EM2AVH00"), "41", Some("s1N9M8EM2KPW00"));
    assert_eq!(claims(include_str!("../../../host/tests/slurm/26.05.txt")), runs);
}

#[test]
fn clusters_and_runs_of_another_form_are_none() {
    let job = |name: &str, value: &str| claimed(4, &[("SLURM_JOB_ID", "5"), (name, value)]).unwrap().job;
    assert_eq!(job("SLURM_CLUSTER_NAME", "Demo").cluster.as_deref(), Some("demo"));
    assert_eq!(job("SLURM_CLUSTER_NAME", "a:b@7").cluster, None);
    assert_eq!(job("SLURM_JOB_SLUID", "s1N9M8EM2AVH0").sluid, None);
    assert_eq!(job("SLURM_JOB_SLUID", "7@1000").sluid, None);
}

/// `srun --mpi=pmix -n2` of an MPICH program: two worlds of one rank each, both rank 0.
#[test]
fn worlds_of_one_process_in_one_step_are_distinguished() {
    let task = |number| {
        let tasks = [("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", number)];
        let variables = [[("SLURM_JOB_ID", "4"), ("SLURM_STEP_ID", "0")], tasks].concat();
        claimed(1, &variables).unwrap().job.step.unwrap()
    };
    assert_eq!([task("0"), task("1")], ["0.0", "0.1"]);
    let two = [("SLURM_JOB_ID", "4"), ("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "2")];
    assert_eq!(id(&two), "slurm:4.0", "one world");
}

/// `sbatch -n1 : -n2` and a step of the second component, whose control group is named by job 2.
#[test]
fn a_heterogeneous_job_of_slurm_is_one() {
    let het = [("SLURM_JOB_ID", "1"), ("SLURM_HET_SIZE", "2"), ("SLURM_STEP_ID", "2")];
    let job = claimed(2, &het).unwrap().job;
    assert_eq!((job.id.as_str(), job.components), ("1", 2));
    assert!(job.has_component("1") && job.has_component("2") && !job.has_component("3"));
    assert_eq!(
        claimed(2, &[("SLURM_JOB_ID", "1"), ("SLURM_HET_SIZE", "99999")]).unwrap().job.components,
        128
    );
}

#[test]
fn elements_of_arrays_are_jobs_of_their_own() {
    assert_eq!(id(&[("LSB_JOBID", "9"), ("LSB_JOBINDEX", "0")]), "lsf:9.");
    assert_eq!(id(&[("LSB_JOBID", "9"), ("LSB_JOBINDEX", "3")]), "lsf:9[3].");
    assert_eq!(id(&[("PBS_JOBID", "12[3].server")]), "pbs:12[3].server.");
    let about = claimed(1, &[("PBS_JOBID", "12[3].server"), ("PBS_QUEUE", "long")]).unwrap().about;
    assert_eq!((about.array_id.as_str(), about.queue.as_str()), ("12[3]", "long"));
    assert_eq!(claimed(1, &[("PBS_JOBID", "12.server")]).unwrap().about.array_id, "");
    assert_eq!(id(&[("JOB_ID", "77"), ("SGE_TASK_ID", "undefined")]), "sge:77.");
    assert_eq!(id(&[("JOB_ID", "77"), ("SGE_TASK_ID", "4")]), "sge:77.4.");
}

#[test]
fn flux_ids_are_the_same_in_every_locale() {
    assert_eq!(id(&[("FLUX_JOB_ID", "\u{192}2oLkTLb")]), "flux:f2oLkTLb.");
    assert_eq!(id(&[("FLUX_JOB_ID", "f2oLkTLb")]), "flux:f2oLkTLb.");
    let nested = [("FLUX_JOB_ID", "f3"), ("FLUX_JOB_ID_PATH", "/\u{192}2oLkTLb/\u{192}3")];
    assert_eq!(id(&nested), "flux:f2oLkTLb-f3.");
}

#[test]
fn what_is_no_job() {
    assert!(claimed(1, &[("JOB_ID", "77")]).is_none(), "anybody's variable");
    for bad in ["", "1; drop", "5@1000", "-1", "0x5"] {
        assert!(claimed(1, &[("SLURM_JOB_ID", bad)]).is_none(), "{bad}");
    }
    assert!(claimed(1, &[("PBS_JOBID", "1@server")]).is_none());
    let odd_step = claimed(1, &[("SLURM_JOB_ID", "5"), ("SLURM_STEP_ID", "0@7")]).unwrap();
    assert_eq!(odd_step.job.step, None);
}
