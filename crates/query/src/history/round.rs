//! Samples of a round of series while they are read: where those of a row belong, and their source.

use super::Samples;
use std::collections::HashMap;
use throughline_sample::catalogue::gpu_source_rank;

/// Places in a round of series, by the first column of a row and the element of its array.
pub(super) type Places = HashMap<(i64, i32), usize>;

/// Samples of a series, and the rank of whom they are from.
#[derive(Clone, Debug)]
pub(super) struct BufferedSeries {
    samples: Samples,
    source: usize,
}

/// Behind every source of GPUs: no sample yet, or rows that have no source.
pub(super) const NO_SOURCE: usize = usize::MAX;

impl Default for BufferedSeries {
    fn default() -> BufferedSeries {
        BufferedSeries { samples: Samples::default(), source: NO_SOURCE }
    }
}

impl BufferedSeries {
    /// What is held.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Adds what was read of the same series besides, if it is of the same source.
    pub fn extend(&mut self, besides: BufferedSeries) {
        if besides.source == self.source {
            self.samples.extend(&besides.samples);
        }
    }

    /// Has points in place of chunks. `None` for a chunk that can't be unpacked.
    pub fn unpack(&mut self) -> Option<&Samples> {
        self.samples.unpack()?;
        Some(&self.samples)
    }

    /// What was held.
    pub fn into_samples(self) -> Samples {
        self.samples
    }

    /// Where samples of a source belong, if there are none of a better one; those of worse ones go.
    pub fn of(&mut self, source: usize) -> Option<&mut Samples> {
        if source < self.source {
            *self = BufferedSeries { samples: Samples::default(), source };
        }
        (source == self.source).then_some(&mut self.samples)
    }
}

/// The rank of a source of GPUs by its name.
pub(super) fn rank(name: &[u8]) -> usize {
    gpu_source_rank(&String::from_utf8_lossy(name))
}
