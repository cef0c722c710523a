//! Drives the traffic of the NVML test double (`testdouble/`): the file that a scenario includes.
//!
//! For tests and the demo, which moves simulated links by a real program's traffic. Nothing of the source
//! itself uses it.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Environment variable that names the scenario file.
pub const SCENARIO_VARIABLE: &str = "THROUGHLINE_NVML_SCENARIO";

/// How the counters of one link, or of a GPU's PCIe, are to move from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Index of the GPU.
    pub gpu: u32,
    /// The link; `None` for PCIe.
    pub link: Option<u32>,
    /// Bytes per second sent.
    pub transmit_bytes_per_second: u64,
    /// Bytes per second received.
    pub receive_bytes_per_second: u64,
}

/// Replaces the file at `path` whole; the double reads it at its next call and its counters go on from where
/// they are. Links that are not named stand still, unless the scenario itself moves them.
pub fn write_traffic(path: &Path, traffic: &[Traffic]) -> io::Result<()> {
    let mut text = String::from("# traffic of the NVML test double, replaced while it runs\n");
    for Traffic { gpu, link, transmit_bytes_per_second: tx, receive_bytes_per_second: rx } in traffic {
        let place = match link {
            Some(link) => format!("traffic {gpu} {link}"),
            None => format!("pcie {gpu}"),
        };
        // Writing to a String can't fail.
        let _ = writeln!(text, "{place} tx_rate={tx} rx_rate={rx}");
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path)
}
