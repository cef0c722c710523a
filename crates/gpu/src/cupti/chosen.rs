//! Which of the metrics that a site chose one pass of a chip's performance monitor gives, and what is said of the others.
//!
//! A sample has one pass: what would need several is refused, nothing is replayed. Groups are taken in the order of the
//! configuration, and in a group that does not fit whole its metrics one by one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString};

use super::api::{Host, Library};
use super::code::CuptiError;
use super::nearest::nearest;
use super::wanted::MetricGroup;
use crate::cupti_frame::{PlannedGroup, RefusedMetric};

/// A chip, and what the GPU at hand offers.
type OfGpu = (CString, Option<Vec<u8>>);

/// The groups of a configuration, and what was selected of them.
#[derive(Default)]
pub struct Chosen {
    groups: Vec<MetricGroup>,
    /// A node's GPUs are alike, and one that another profiler has is tried again every two seconds. Finding it out takes a
    /// millisecond or two for each metric, and more for a wrong one.
    selected: RefCell<HashMap<OfGpu, Selection>>,
}

impl Chosen {
    /// Of a configuration.
    #[must_use]
    pub fn new(groups: Vec<MetricGroup>) -> Self {
        Self { groups, selected: RefCell::default() }
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> &[MetricGroup] {
        &self.groups
    }

    /// Refuses all of them for one reason.
    #[must_use]
    pub fn refused(&self, why: &str) -> Selection {
        let names = self.groups.iter().flat_map(|group| &group.metrics);
        let refused =
            names.map(|name| RefusedMetric { metric: name.clone(), text: format!("{name}: {why}") });
        Selection { groups: Vec::new(), refused: refused.collect() }
    }
}

/// What of it a chip samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The groups with what is sampled of each.
    pub groups: Vec<PlannedGroup>,
    /// What is not.
    pub refused: Vec<RefusedMetric>,
}

/// A chip, with what the GPU at hand offers if it is known.
#[derive(Clone, Copy)]
pub(super) struct Chip<'l> {
    pub library: &'l Library,
    pub name: &'l CStr,
    pub availability: Option<&'l [u8]>,
}

impl Chip<'_> {
    /// How many passes metrics need together.
    fn passes(&self, names: &[&CStr]) -> Result<usize, CuptiError> {
        let host = Host::new(self.library, self.name, self.availability)?;
        host.add(names)?;
        Ok(host.image()?.1)
    }

    fn shown(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Why a metric can't be added, with the nearest names.
    fn fault(&self, name: &str, failed: CuptiError) -> Result<String, CuptiError> {
        let host = Host::new(self.library, self.name, None)?;
        let own = host.own_names()?;
        let endings = |wanted: &str| {
            let kinds = own.iter().filter(|(_, own)| own == wanted).map(|(kind, _)| *kind);
            kinds.flat_map(|kind| host.endings(kind, wanted).unwrap_or_default()).collect()
        };
        let names: Vec<String> = own.iter().map(|(_, own)| own.clone()).collect();
        let near = nearest(name, &names, endings);
        let chip = self.shown();
        Ok(if near.first().is_some_and(|nearest| nearest == name) {
            format!("chip {chip} lists {name}, and this GPU does not sample it: {failed}")
        } else if near.is_empty() {
            format!("chip {chip} has no metric {name}")
        } else {
            format!("chip {chip} has no metric {name}; the nearest are {}", near.join(", "))
        })
    }

    /// Which chosen metrics are sampled together with `fixed`.
    pub fn select(&self, fixed: &[&CStr], chosen: &Chosen) -> Result<Selection, CuptiError> {
        let key = (self.name.to_owned(), self.availability.map(<[u8]>::to_vec));
        if let Some(known) = chosen.selected.borrow().get(&key) {
            return Ok(known.clone());
        }
        let selection = self.find(fixed, &chosen.groups)?;
        chosen.selected.borrow_mut().insert(key, selection.clone());
        Ok(selection)
    }

    fn find(&self, fixed: &[&CStr], groups: &[MetricGroup]) -> Result<Selection, CuptiError> {
        let mut selection = Selection::default();
        let mut accepted: Vec<CString> = fixed.iter().map(|name| (*name).to_owned()).collect();
        for (place, group) in groups.iter().enumerate() {
            let mut fitting = Vec::new();
            for name in &group.metrics {
                let text = CString::new(name.as_str()).unwrap_or_default();
                match self.alone(name, &text)? {
                    None => fitting.push((name, text)),
                    Some(text) => selection.refused.push(RefusedMetric { metric: name.clone(), text }),
                }
            }
            let passes = self.passes_with(&accepted, fitting.iter().map(|(_, text)| text))?;
            let (mut sampled, mut left) = (Vec::new(), Vec::new());
            for (name, text) in fitting {
                if passes <= 1 || self.passes_with(&accepted, [&text].into_iter())? == 1 {
                    accepted.push(text);
                    sampled.push(name.clone());
                } else {
                    left.push(name);
                }
            }
            let together = match sampled.as_slice() {
                [] => "nothing of it fits beside what is sampled".to_owned(),
                some => format!("one pass has room for {}", some.join(", ")),
            };
            let text = |name: &str| {
                let (chip, number) = (self.shown(), place + 1);
                format!(
                    "{name} needs another pass: chip {chip} would take {passes} passes for group {number} with what is \
                     sampled before it; {together}; nothing is replayed"
                )
            };
            let refused = left.iter().map(|name| RefusedMetric { metric: (*name).clone(), text: text(name) });
            selection.refused.extend(refused);
            selection.groups.push(PlannedGroup {
                interval_nanoseconds: u64::try_from(group.interval.as_nanos()).unwrap_or(u64::MAX),
                metrics: sampled,
                passes: u32::try_from(passes).unwrap_or(u32::MAX),
            });
        }
        Ok(selection)
    }

    fn passes_with<'n>(
        &self,
        accepted: &'n [CString],
        more: impl Iterator<Item = &'n CString>,
    ) -> Result<usize, CuptiError> {
        let names: Vec<&CStr> = accepted.iter().chain(more).map(CString::as_c_str).collect();
        if names.is_empty() { Ok(0) } else { self.passes(&names) }
    }

    /// Why a metric can't be sampled whatever else is.
    fn alone(&self, name: &str, text: &CStr) -> Result<Option<String>, CuptiError> {
        match self.passes(&[text]) {
            Ok(1) => Ok(None),
            Ok(passes) => {
                let chip = self.shown();
                Ok(Some(format!(
                    "{name} alone needs {passes} passes on chip {chip}, a sample has one; nothing is replayed"
                )))
            }
            Err(failed) => self.fault(name, failed).map(Some),
        }
    }
}
