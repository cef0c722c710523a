//! Which metrics are requested of a chip, and whether one pass of its performance monitor gives them all.
//!
//! Chips name them differently and lack some. A metric that is not known spoils the object that it was added to, so each
//! is tried on one of its own.

use std::ffi::{CStr, CString};

use super::api::{Host, Library};
use super::chosen::{Chip, Chosen, Selection};
use super::code::{CuptiError, NO_METRIC, SEVERAL_PASSES};

/// What is sampled, in the order of [`Sums`](super::sums::Sums).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Bytes that the GPU sent over all its NVLinks, headers included.
    NvlinkTransmit,
    /// Bytes that it received over them.
    NvlinkReceive,
    /// Bytes that it read over PCIe: from the host, or from another device.
    PcieRead,
    /// Bytes that it wrote over PCIe.
    PcieWrite,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NvlinkTransmit, Self::NvlinkReceive, Self::PcieRead, Self::PcieWrite];

    /// Names of the metric, the first that a chip knows holds. Found by querying CUPTI 12.6 to 13.1 for every chip: GB10x
    /// has PCIe under a name of its own; AD10x, TU11x and GB20x have no NVLink.
    fn names(self) -> &'static [&'static CStr] {
        match self {
            Self::NvlinkTransmit => &[c"nvltx__bytes.sum"],
            Self::NvlinkReceive => &[c"nvlrx__bytes.sum"],
            Self::PcieRead => &[c"pcie__read_bytes.sum", c"PCI.TriageCompute.pcie__read_bytes.sum"],
            Self::PcieWrite => &[c"pcie__write_bytes.sum", c"PCI.TriageCompute.pcie__write_bytes.sum"],
        }
    }
}

/// The metrics of one chip, ready for its performance monitor.
pub struct Plan<'l> {
    /// What is read of bytes, and the metric's name.
    pub wanted: Vec<(Quantity, &'static CStr)>,
    /// What is read and refused of the metrics that the site chose.
    pub selection: Selection,
    /// Names of all metrics, those of bytes first.
    pub(super) names: Vec<CString>,
    /// The configuration. Must live as long as sampling.
    pub image: Vec<u8>,
    pub(super) host: Host<'l>,
}

impl<'l> Plan<'l> {
    /// Finds the metrics of a chip, with what the GPU at hand offers if it is known.
    ///
    /// # Errors
    /// 27 for a chip without PM Sampling, [`NO_METRIC`] for one that has none of the metrics, [`SEVERAL_PASSES`].
    pub fn new(
        library: &'l Library,
        chip: &CStr,
        availability: Option<&[u8]>,
        chosen: &Chosen,
    ) -> Result<Self, CuptiError> {
        let is_known = |name: &'static CStr| -> Result<bool, CuptiError> {
            Ok(Host::new(library, chip, availability)?.add(&[name]).is_ok())
        };
        let mut wanted = Vec::new();
        for quantity in Quantity::ALL {
            for name in quantity.names() {
                if is_known(name)? {
                    wanted.push((quantity, *name));
                    break;
                }
            }
        }
        let fixed: Vec<&CStr> = wanted.iter().map(|(_, name)| *name).collect();
        let selection = Chip { library, name: chip, availability }.select(&fixed, chosen)?;
        let sampled = selection.groups.iter().flat_map(|group| &group.metrics);
        let sampled = sampled.map(|name| CString::new(name.as_str()).unwrap_or_default());
        let names: Vec<CString> = fixed.iter().map(|name| (*name).to_owned()).chain(sampled).collect();
        if names.is_empty() {
            return Err(CuptiError { call: "cuptiProfilerHostConfigAddMetrics", code: NO_METRIC });
        }
        let host = Host::new(library, chip, availability)?;
        host.add(&names.iter().map(CString::as_c_str).collect::<Vec<_>>())?;
        let (image, passes) = host.image()?;
        if passes != 1 {
            return Err(CuptiError { call: "cuptiProfilerHostGetNumOfPasses", code: SEVERAL_PASSES });
        }
        Ok(Self { wanted, selection, names, image, host })
    }
}
