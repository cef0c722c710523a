//! GPUs that report the UUID of another one: the second is not read, as its counters would pass for the first one's. Pure.

use std::collections::BTreeSet;

use crate::code::Code;
use crate::frame::Survey;

/// The event of a GPU that is not read for that.
pub const DUPLICATE_UUID: &str = "gpu.duplicate_uuid";

/// Indices that were reported.
#[derive(Default)]
pub struct DuplicateUuids(BTreeSet<u32>);

impl DuplicateUuids {
    /// Texts of the events that a survey makes: one for each such GPU as long as it is one.
    pub fn take(&mut self, survey: &Survey) -> Vec<String> {
        let refused = survey.refusals.iter().filter(|one| Code(one.code) == Code::DUPLICATE_UUID);
        let now: BTreeSet<u32> = refused.map(|one| one.index).collect();
        let text = |index: &u32| {
            let remedy = Code::DUPLICATE_UUID.remedy();
            format!("GPU {index} reports the UUID of a GPU before it: {remedy}")
        };
        let texts = now.difference(&self.0).map(text).collect();
        self.0 = now;
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Refusal;

    #[test]
    fn each_is_reported_once_while_it_lasts() {
        let survey = |indices: &[u32]| Survey {
            refusals: indices
                .iter()
                .map(|index| Refusal { index: *index, code: Code::DUPLICATE_UUID.0, ..Refusal::default() })
                .collect(),
            ..Survey::default()
        };
        let mut seconds = DuplicateUuids::default();
        let mut count = |indices: &[u32]| seconds.take(&survey(indices)).len();
        assert_eq!([count(&[]), count(&[1]), count(&[1]), count(&[1, 3]), count(&[])], [0, 1, 0, 1, 0]);
        assert!(
            seconds.take(&survey(&[2]))[0].starts_with("GPU 2 reports the UUID of a GPU before it: two GPUs")
        );
    }
}
