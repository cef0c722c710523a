//! Xids on the double: of a GPU that is well, of one that is lost, and recoveries.

use crate::bench::Bench;
use throughline_sample::wire::Event;

fn of_kind<'e>(events: &'e [Event], kind: &str) -> Option<&'e Event> {
    events.iter().find(|event| event.kind == kind)
}

#[test]
fn an_xid_and_a_recovery_are_events_of_one_reading_each_also_of_a_gpu_that_is_lost() {
    let mut bench = Bench::scenario("hgx-h200", "");
    let text = std::fs::read_to_string(bench.scenario_path()).unwrap();
    bench = bench.start();
    bench.next_batch();
    let gpu = bench.gpus()[3].clone();
    bench.rewrite(&format!("{text}\nxid 3 74\nlost 3\n"));
    // Both in the first reading that has either.
    let batch = bench.until(|batch| !batch.events.is_empty());
    let (xid, lost) = (of_kind(&batch.events, "gpu.xid"), of_kind(&batch.events, "gpu.lost"));
    let (xid, lost) = (xid.unwrap_or_else(|| panic!("{:?}", batch.events)), lost.is_some());
    assert!(lost && xid.gpu_uuid == gpu.uuid && xid.severity == "error", "{xid:?}");
    assert!(xid.text.contains("Xid 74: an NVLink error") && xid.text.contains(&gpu.pci_bus_id), "{xid:?}");
    // The survey has ended it; what the driver reports of it then still has its name.
    bench.next_batch();
    bench.rewrite(&format!("{text}\nxid 3 74\nxid 3 79\nlost 3\n"));
    let batch = bench.until(|batch| of_kind(&batch.events, "gpu.xid").is_some());
    let xid = of_kind(&batch.events, "gpu.xid").unwrap();
    assert_eq!(xid.gpu_uuid, gpu.uuid);
    assert!(
        xid.text.contains("GPU 3 (") && xid.text.contains("Xid 79: the GPU has fallen off the bus"),
        "{xid:?}"
    );
    bench.rewrite(&format!("{text}\nxid 3 74\nxid 3 79\nxid 3 154\n"));
    let batch = bench.until(|batch| of_kind(&batch.events, "gpu.returned").is_some());
    assert_eq!(of_kind(&batch.events, "gpu.returned").unwrap().gpu_uuid, gpu.uuid);
    assert!(batch.gpu_links.iter().any(|sample| sample.gpu_uuid == gpu.uuid), "it is read in that reading");
}
