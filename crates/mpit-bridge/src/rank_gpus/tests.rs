use super::*;

const BUSY: Result<Vec<u32>, &str> = Err("no_permission");

fn gpu(number: u32, processes: Result<Vec<u32>, &'static str>) -> NodeGpu {
    let (gpu_uuid, nearest_distance) = (format!("GPU-{number}0"), "switch".to_owned());
    NodeGpu { gpu_uuid, partition_uuid: String::new(), minor: Some(number), nearest_distance, processes }
}

fn part(number: u32, name: &str, processes: Vec<u32>) -> NodeGpu {
    NodeGpu { partition_uuid: name.to_owned(), ..gpu(number, Ok(processes)) }
}

fn rank() -> JobRank {
    JobRank { pid: 7, ..JobRank::default() }
}

fn open(time: i64, minors: &[u32]) -> Devices {
    Devices { time, before: time - 1, open: Some(minors.to_vec()), visible: None }
}

/// GPU, partition, evidence, first and last time of each row.
fn rows(record: &JobRank) -> Vec<String> {
    let row = |gpu: &RankGpu| {
        let RankGpu { gpu_uuid, partition_uuid, evidence, first_seen, last_seen, .. } = gpu;
        format!("{gpu_uuid}{partition_uuid} {evidence} {first_seen} {last_seen}")
    };
    record.gpus.iter().map(row).collect()
}

#[test]
fn a_gpu_is_used_from_the_first_look_to_the_last_and_may_be_used_again() {
    let (mut usage, mut record) = (GpuUse::default(), rank());
    let mut look = |time, on: &[u32]| {
        let on = |number: u32| Ok(if on.contains(&number) { vec![7, 8] } else { vec![8] });
        let changed = usage.note(&mut record, &Ok(vec![gpu(0, on(0)), gpu(1, on(1))]), &[7, 8].into(), time);
        (changed, rows(&record))
    };
    assert_eq!(look(1, &[]), ((true, None), vec![]), "it is known that it uses none");
    assert_eq!(look(2, &[]), ((false, None), vec![]));
    assert_eq!(look(3, &[1]), ((true, None), vec!["GPU-10 driver 3 0".to_owned()]));
    assert!(!look(4, &[1]).0.0, "time alone is no change");
    assert_eq!(look(5, &[0]).1, ["GPU-10 driver 3 4", "GPU-00 driver 5 0"]);
    assert_eq!(look(6, &[0, 1]).1, ["GPU-10 driver 3 0", "GPU-00 driver 5 0"]);
    assert_eq!((record.gpu_evidence.as_str(), is_known(&record)), ("driver", true));
    assert_eq!((record.gpus[0].minor, record.gpus[0].nearest_distance.as_str()), (Some(1), "switch"));
}

#[test]
fn a_gpu_with_processes_of_others_is_shared_from_then_on() {
    let (mut usage, mut record) = (GpuUse::default(), rank());
    let mut look = |on: &[u32], other_part: &[u32]| {
        let gpus = vec![gpu(0, Ok(on.to_vec())), part(0, "MIG-a", other_part.to_vec()), gpu(1, Ok(vec![9]))];
        let changed = usage.note(&mut record, &Ok(gpus), &[7, 8].into(), 1).0;
        (changed, record.gpus[0].has_others)
    };
    assert_eq!(look(&[7, 8], &[]), (true, false), "ranks of one job");
    assert_eq!(look(&[7], &[9]), (true, true), "links are the whole GPU's");
    assert_eq!(look(&[7], &[]), (false, true));
}

#[test]
fn a_rank_on_a_partition_has_its_gpu_and_no_other_partition() {
    let (mut usage, mut record) = (GpuUse::default(), rank());
    let gpus = vec![gpu(0, Ok(vec![])), part(0, "MIG-a", vec![9]), part(0, "MIG-b", vec![7])];
    assert!(!usage.report(&mut record, open(5, &[0]), &[]), "nobody has looked yet");
    assert_eq!(usage.note(&mut record, &Ok(gpus), &[7, 8].into(), 6), (true, None));
    assert_eq!(rows(&record), ["GPU-00MIG-b driver 6 0", "GPU-00 device 5 0"]);
}

#[test]
fn where_the_driver_lists_nothing_open_devices_are_the_evidence() {
    let (mut usage, mut record) = (GpuUse::default(), rank());
    let gpus = Ok(vec![gpu(0, BUSY), gpu(1, Ok(vec![7]))]);
    assert_eq!(usage.note(&mut record, &gpus, &[7].into(), 1), (true, Some("no_permission")));
    assert_eq!(rows(&record), ["GPU-10 driver 1 0"], "what one GPU says is so, whatever another does not");
    assert_eq!((record.gpu_evidence.as_str(), is_known(&record)), ("", false));
    let here = gpus.clone().unwrap();
    assert!(usage.report(&mut record, open(3, &[0, 5]), &here));
    assert_eq!(record.gpu_evidence, "", "one device is of no known GPU");
    assert!(usage.report(&mut record, open(9, &[]), &here));
    assert!(!usage.report(&mut record, Devices { open: None, ..open(10, &[]) }, &here), "it could not look");
    assert_eq!(rows(&record)[1], "GPU-00 device 3 8");
    assert_eq!(record.gpu_evidence, "device");
    assert!(!is_known(&record), "it had one open");
    let mut idle = rank();
    assert!(GpuUse::default().report(&mut idle, open(4, &[]), &here));
    assert!(is_known(&idle), "without an open device it uses none");
    // A GPU that does not answer takes nothing back, and one that is gone does.
    usage.note(&mut record, &Ok(vec![gpu(0, Ok(vec![])), gpu(1, BUSY)]), &[7, 8].into(), 5);
    assert_eq!(rows(&record)[0], "GPU-10 driver 1 0");
    assert_eq!(usage.note(&mut record, &Ok(vec![gpu(0, Ok(vec![]))]), &[7, 8].into(), 6), (true, None));
    assert_eq!((rows(&record)[0].as_str(), record.gpu_evidence.as_str()), ("GPU-10 driver 1 5", "driver"));
    assert_eq!(usage.note(&mut record, &Err("stopped"), &[7].into(), 7), (false, Some("stopped")));
}

#[test]
fn visible_devices_are_evidence_by_uuid_alone() {
    let gpus = vec![gpu(0, Ok(vec![])), gpu(1, Ok(vec![])), part(1, "MIG-c0ffee", vec![])];
    let named = |value: &str| visible(value, &gpus).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(named("GPU-1,MIG-c0"), "GPU-10 MIG-c0ffee");
    assert_eq!(named(" GPU-00 , GPU-7, GPU-1"), "GPU-00", "the second one hides what follows");
    for none in ["", "0,1", "-1", "NoDevFiles", "GPU-", "all"] {
        assert_eq!(named(none), "", "{none}");
    }
    let mut record = JobRank { start: 2, ..rank() };
    let said = Devices { open: None, visible: Some("GPU-10".to_owned()), ..open(5, &[]) };
    assert!(GpuUse::default().report(&mut record, said, &gpus));
    assert_eq!((rows(&record), record.gpu_evidence.as_str()), (vec!["GPU-10 visible 2 0".to_owned()], ""));
    assert_eq!(record.visible_devices.as_deref(), Some("GPU-10"));
}
