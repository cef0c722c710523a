//! Xids: the faults that NVIDIA's driver reports of a GPU by number, with their meaning, as events. Pure: times are arguments.
//!
//! Numbers and what to do are those of NVIDIA's Xid catalogue (<https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html>,
//! of 2025), for A100 to GB200, in our own words. What the catalogue calls unused is not here.

use std::collections::HashMap;

use crate::frame::Xid;

/// The event of an Xid.
pub const KIND: &str = "gpu.xid";

/// The same Xid of the same GPU within so long after its event is counted, and reported once at the end: a program that faults in a
/// loop makes thousands.
const TOGETHER_NANOSECONDS: i64 = 60_000_000_000;
/// Most pairs of GPU and number that are counted so.
const PAIRS_MAX: usize = 1024;

/// What the catalogue advises to do first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Advice {
    /// The program that met it ends; start it again.
    Program,
    /// Reset the GPU.
    Reset,
    /// Restart the machine.
    Reboot,
    /// Look at the links.
    Links,
    /// Look at cables and power.
    Mechanics,
    /// Update driver or firmware.
    Update,
    /// Restart the virtual machine.
    VirtualMachine,
    /// Nothing: it reports, or follows from another Xid.
    Nothing,
    /// The catalogue gives no advice, or a case by case one.
    Catalogue,
}

impl Advice {
    fn severity(self) -> &'static str {
        match self {
            Advice::Nothing => "info",
            Advice::Program => "warning",
            _ => "error",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Advice::Program => {
                "start the program again; if it comes back, check the program (compute-sanitizer)"
            }
            Advice::Reset => "drain the node and reset the GPU; if it comes back, NVIDIA's support",
            Advice::Reboot => "drain the node and power-cycle it; if it comes back, NVIDIA's support",
            Advice::Links => {
                "drain the node; `nvidia-smi nvlink -e` shows the link, also at its other end; reset the GPU"
            }
            Advice::Mechanics => "check power cables and seating",
            Advice::Update => "update driver and firmware",
            Advice::VirtualMachine => "restart the virtual machine",
            Advice::Nothing => "nothing to do for it alone",
            Advice::Catalogue => "see NVIDIA's Xid catalogue",
        }
    }
}

/// The first number, the last one, their meaning and advice.
type Entry = (u64, u64, &'static str, Advice);

const TABLE: [Entry; 79] = [
    (8, 8, "the GPU stopped processing", Advice::Program),
    (11, 11, "an invalid or corrupted command stream", Advice::Program),
    (
        13,
        13,
        "an exception of the graphics engine, mostly an access of the program out of bounds",
        Advice::Program,
    ),
    (14, 14, "an error that a program has injected", Advice::Nothing),
    (25, 25, "an invalid command stream", Advice::Program),
    (31, 31, "a page fault of the GPU's memory, mostly an illegal address of the program", Advice::Program),
    (32, 32, "an invalid or corrupted command stream, mostly of a bad PCIe connection", Advice::Program),
    (37, 38, "an error of the driver's firmware", Advice::Nothing),
    (39, 41, "an exception of a copy engine", Advice::Program),
    (43, 43, "a program was ended for a fault of its own; the GPU is well", Advice::Nothing),
    (44, 44, "a fault of the graphics engine while it changed between programs", Advice::Nothing),
    (45, 45, "a program was removed from the GPU: it was ended, or another Xid came before", Advice::Nothing),
    (46, 46, "the GPU stopped processing", Advice::Reset),
    (48, 48, "an uncorrectable (double-bit) memory error", Advice::Reset),
    (54, 54, "auxiliary power is not connected", Advice::Mechanics),
    (60, 60, "an exception of the video processor", Advice::Program),
    (62, 62, "an internal microcontroller halted", Advice::Reset),
    (63, 63, "a row of memory is to be remapped, or a page was retired", Advice::Nothing),
    (64, 64, "a row of memory could not be remapped, or a page not retired", Advice::Reset),
    (66, 67, "an illegal access by the driver", Advice::Nothing),
    (68, 68, "an exception of the video decoder", Advice::Program),
    (69, 69, "a class error of the graphics engine", Advice::Program),
    (70, 72, "an error of a copy engine", Advice::Program),
    (74, 74, "an NVLink error: of the link, or of what is at its other end", Advice::Links),
    (75, 77, "an error of a copy engine", Advice::Program),
    (78, 78, "a virtual GPU did not start", Advice::Update),
    (79, 79, "the GPU has fallen off the bus", Advice::Reboot),
    (80, 80, "corrupted data were sent to the GPU", Advice::Program),
    (82, 82, "an error of a JPEG engine", Advice::Program),
    (83, 84, "an error of a video decoder", Advice::Program),
    (85, 85, "an error of a copy engine", Advice::Program),
    (86, 86, "an exception of the optical flow engine", Advice::Program),
    (88, 89, "an error of a video decoder", Advice::Program),
    (92, 92, "a high rate of single-bit memory errors", Advice::Nothing),
    (93, 93, "the limit of writes to the information ROM is reached", Advice::Nothing),
    (94, 94, "a contained memory error: the program that met it ended, others go on", Advice::Program),
    (95, 95, "an uncontained memory error: all programs on the GPU are affected", Advice::Reset),
    (96, 98, "an error of a video decoder", Advice::Program),
    (99, 105, "an error of a JPEG engine", Advice::Program),
    (106, 107, "a test message", Advice::Nothing),
    (109, 109, "changing between programs took too long", Advice::Reset),
    (110, 110, "a security fault", Advice::Reset),
    (119, 119, "the GPU's system processor does not answer", Advice::Reset),
    (120, 120, "an error of the GPU's system processor", Advice::Reset),
    (121, 121, "corrected errors of the C2C link to the CPU", Advice::Nothing),
    (126, 135, "an error of a copy engine", Advice::Program),
    (136, 136, "an NVLink could not be trained", Advice::Reset),
    (137, 137, "an illegal access over NVLink, mostly of the program", Advice::Nothing),
    (139, 139, "an error of the optical flow engine", Advice::Program),
    (140, 140, "an unrecovered memory error", Advice::Reset),
    (141, 141, "an error of CUDA's fast path", Advice::Nothing),
    (142, 142, "an error of a video encoder", Advice::Catalogue),
    (143, 143, "the GPU could not be initialised", Advice::Reset),
    (144, 144, "an NVLink error (SAW)", Advice::Links),
    (145, 145, "an NVLink error (RLW)", Advice::Links),
    (146, 146, "an NVLink error (TLW)", Advice::Links),
    (147, 147, "an NVLink error (TREX)", Advice::Links),
    (148, 148, "an NVLink error (NVLPW_CTRL)", Advice::Links),
    (149, 149, "an NVLink error (NETIR)", Advice::Links),
    (150, 150, "an NVLink error (MSE)", Advice::Links),
    (151, 151, "an error of changing keys", Advice::VirtualMachine),
    (152, 153, "an error of a deep learning accelerator", Advice::Nothing),
    (154, 154, "what the GPU needs to recover has changed: see the Xid beside it", Advice::Catalogue),
    (155, 155, "an NVLink was taken down by software, or sleeps", Advice::Reset),
    (156, 156, "a part of the GPU is to be retired", Advice::Reset),
    (157, 157, "a part of the GPU could not be retired: no spare is left", Advice::Nothing),
    (158, 158, "a fatal timeout of the GPU", Advice::Reset),
    (159, 159, "an error on the coherent link to the CPU", Advice::Catalogue),
    (160, 160, "a channel of memory was retired", Advice::Nothing),
    (161, 161, "a channel of memory could not be retired", Advice::Nothing),
    (162, 162, "power smoothing works again", Advice::Nothing),
    (163, 163, "power smoothing was switched off", Advice::Catalogue),
    (164, 165, "the circuit for power smoothing is near or at the end of its life", Advice::Catalogue),
    (166, 166, "traffic on an NVLink before it was encrypted", Advice::Catalogue),
    (167, 167, "a fatal timeout of PCIe", Advice::Catalogue),
    (168, 168, "less memory than usual: errors in the protected region", Advice::Catalogue),
    (169, 169, "an internal microcontroller halted", Advice::Catalogue),
    (170, 170, "an interrupt of an NVLink in confidential computing", Advice::Catalogue),
    (171, 172, "details of an uncorrectable memory error, see the Xid 48 beside it", Advice::Catalogue),
];

/// What a number means, how severe it is, and what to do.
#[must_use]
pub fn meaning(number: u64) -> (&'static str, &'static str, &'static str) {
    let found = TABLE.iter().find(|(first, last, ..)| (*first..=*last).contains(&number));
    let unknown = ("not in the catalogue of this version", Advice::Catalogue);
    let (meaning, advice) = found.map_or(unknown, |(_, _, meaning, advice)| (*meaning, *advice));
    (meaning, advice.severity(), advice.text())
}

/// What an Xid becomes: severity and text of the event.
fn text(xid: &Xid, more: u64) -> (&'static str, String) {
    let (meaning, severity, advice) = meaning(xid.number);
    let Xid { index, uuid, pci_bus_id, number, .. } = xid;
    let part = match (xid.gpu_instance, xid.compute_instance) {
        (Some(gpu), Some(compute)) => {
            format!(", partition of GPU instance {gpu}, compute instance {compute}")
        }
        (Some(gpu), None) => format!(", partition of GPU instance {gpu}"),
        _ => String::new(),
    };
    let verb = match more {
        0 => "reports".to_owned(),
        more => format!("has reported {more} times more within a minute:"),
    };
    (severity, format!("GPU {index} ({uuid}, {pci_bus_id}{part}) {verb} Xid {number}: {meaning}; {advice}"))
}

/// Takes Xids in and gives those that are to be events.
#[derive(Default)]
pub struct XidReports(HashMap<(String, u64), Reported>);

struct Reported {
    at: i64,
    more: u64,
    last: Xid,
}

impl XidReports {
    /// Severity, text and UUID of each event that a reading at `time`, UTC nanoseconds, makes.
    pub fn take(&mut self, xids: &[Xid], time: i64) -> Vec<(&'static str, String, String)> {
        let mut events = Vec::new();
        for xid in xids {
            let key = (xid.uuid.clone(), xid.number);
            if let Some(known) = self.0.get_mut(&key)
                && time - known.at < TOGETHER_NANOSECONDS
            {
                (known.more, known.last) = (known.more + 1, xid.clone());
                continue;
            }
            events.extend(self.0.remove(&key).and_then(Reported::rest));
            let (severity, text) = text(xid, 0);
            events.push((severity, text, xid.uuid.clone()));
            if self.0.len() < PAIRS_MAX {
                self.0.insert(key, Reported { at: time, more: 0, last: xid.clone() });
            }
        }
        let over = self.0.extract_if(|_, known| time - known.at >= TOGETHER_NANOSECONDS);
        events.extend(over.filter_map(|(_, known)| known.rest()));
        events
    }
}

impl Reported {
    /// The event of those that were counted.
    fn rest(self) -> Option<(&'static str, String, String)> {
        let (severity, text) = text(&self.last, self.more);
        (self.more > 0).then_some((severity, text, self.last.uuid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn xid(uuid: &str, number: u64) -> Xid {
        let (uuid, pci_bus_id) = (uuid.to_owned(), "00000000:18:00.0".to_owned());
        Xid { index: 3, uuid, pci_bus_id, number, ..Xid::default() }
    }

    #[test]
    fn the_table_is_in_order_and_has_each_number_once() {
        assert!(TABLE.iter().all(|(first, last, ..)| first <= last));
        assert!(TABLE.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    #[test]
    fn an_event_has_the_number_the_gpu_the_meaning_and_what_to_do() {
        let events = XidReports::default().take(&[xid("GPU-a", 79)], 0);
        let expected = "GPU 3 (GPU-a, 00000000:18:00.0) reports Xid 79: the GPU has fallen off the bus; drain the node \
                        and power-cycle it; if it comes back, NVIDIA's support";
        assert_eq!(events, [("error", expected.to_owned(), "GPU-a".to_owned())]);
        let of = |number| XidReports::default().take(&[xid("GPU-a", number)], 0).remove(0);
        assert_eq!((of(13).0, of(45).0, of(9999).0), ("warning", "info", "error"));
        assert!(of(9999).1.contains("Xid 9999: not in the catalogue of this version"));
        let part = Xid { gpu_instance: Some(2), compute_instance: Some(0), ..xid("GPU-a", 94) };
        assert!(
            XidReports::default().take(&[part], 0)[0]
                .1
                .contains("GPU instance 2, compute instance 0) reports")
        );
    }

    #[test]
    fn a_storm_is_two_events_a_minute_for_each_gpu_and_number() {
        let mut reports = XidReports::default();
        let storm = vec![xid("GPU-a", 31); 32];
        let mut events = Vec::new();
        for second in 0..60 {
            events.extend(reports.take(&storm, second * SECOND));
        }
        assert_eq!(events.len(), 1);
        assert_eq!(reports.take(&[xid("GPU-b", 31), xid("GPU-a", 13)], 59 * SECOND).len(), 2);
        let over = reports.take(&[], 60 * SECOND);
        assert_eq!(over.len(), 1);
        assert!(over[0].1.contains("has reported 1919 times more within a minute: Xid 31"), "{}", over[0].1);
        assert_eq!(reports.take(&[], 200 * SECOND), []);
        assert_eq!(reports.take(&[xid("GPU-a", 31)], 201 * SECOND).len(), 1, "a new one is an event at once");
    }
}
