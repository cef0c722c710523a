//! The Metric API of Pascal and Volta: bytes of each NVLink, as the paper read them.
//!
//! Needs a context on the GPU. Reading sets the library's counters to zero; the sums here only grow.
#![allow(unsafe_code)] // calls of `api`'s macros with pointers to this object's own memory

use std::ffi::CStr;

use cupti_sys::cupti::*;

use super::api::{Context, Device, Library, plain};
use super::code::{CuptiError, SEVERAL_PASSES};

/// Bytes sent and received over a link, headers included.
const METRICS: [&CStr; 2] = [c"nvlink_total_data_transmitted", c"nvlink_total_data_received"];
/// Most events of a metric, and most links: a few are known.
const EVENTS_MAX: usize = 64;
/// Most instances of an event: a GPU has 6 links.
const INSTANCES_MAX: usize = 64;

/// Whether a chip is read in this way: the generations before PM Sampling that have NVLink.
#[must_use]
pub fn is_of_this_kind(chip: &[u8]) -> bool {
    chip == b"GP100" || chip == b"GV100"
}

/// One of the two metrics, with its event groups.
struct Metric {
    id: CUpti_MetricID,
    sets: *mut CUpti_EventGroupSets,
    enabled: bool,
}

/// A GPU whose links are read.
pub struct LinksGpu<'l> {
    library: &'l Library,
    device: Device,
    // Before the context, which they need to be ended in.
    metrics: Vec<Metric>,
    context: Context<'l>,
    last: i64,
    /// Bytes sent and received over each link since the beginning.
    pub sums: Vec<[u64; 2]>,
}

impl<'l> LinksGpu<'l> {
    /// Makes a context and begins to count.
    ///
    /// # Errors
    /// The call that failed; 35 without permission, 38 where the driver no longer has this API.
    pub fn start(library: &'l Library, device: &Device, now: i64) -> Result<Self, CuptiError> {
        let context = library.context(device)?;
        let mut gpu = Self {
            library,
            device: device.clone(),
            metrics: Vec::new(),
            context,
            last: now,
            sums: Vec::new(),
        };
        let raw = gpu.context.raw().cast();
        plain!(library.cupti, cuptiSetEventCollectionMode(raw, CUPTI_EVENT_COLLECTION_MODE_CONTINUOUS))?;
        for name in METRICS {
            gpu.add(name)?;
        }
        Ok(gpu)
    }

    fn add(&mut self, name: &CStr) -> Result<(), CuptiError> {
        let library = self.library;
        let mut id = 0;
        plain!(library.cupti, cuptiMetricGetIdFromName(self.device.handle, name.as_ptr(), &raw mut id))?;
        let mut sets: *mut CUpti_EventGroupSets = std::ptr::null_mut();
        plain!(
            library.cupti,
            cuptiMetricCreateEventGroupSets(
                self.context.raw().cast(),
                size_of_val(&id),
                &raw mut id,
                &raw mut sets
            )
        )?;
        self.metrics.push(Metric { id, sets, enabled: false });
        // SAFETY: CUPTI gave a pointer to as many sets as it says, which live until they are destroyed.
        let passes = unsafe { std::slice::from_raw_parts_mut((*sets).sets, (*sets).numSets as usize) };
        let [set] = passes else {
            return Err(CuptiError { call: "cuptiMetricCreateEventGroupSets", code: SEVERAL_PASSES });
        };
        for group in groups(set) {
            let mut all: u32 = 1;
            plain!(
                library.cupti,
                cuptiEventGroupSetAttribute(
                    *group,
                    CUPTI_EVENT_GROUP_ATTR_PROFILE_ALL_DOMAIN_INSTANCES,
                    size_of_val(&all),
                    (&raw mut all).cast(),
                )
            )?;
        }
        plain!(library.cupti, cuptiEventGroupSetEnable(set))?;
        self.metrics.iter_mut().for_each(|metric| metric.enabled = true);
        Ok(())
    }

    /// Adds what went over each link since the last time.
    ///
    /// # Errors
    /// The call that failed; the sums are then as they were for what was not read.
    pub fn read(&mut self, now: i64) -> Result<(), CuptiError> {
        self.context.enter()?;
        let elapsed = u64::try_from(now - self.last).unwrap_or(0).max(1);
        for (direction, metric) in self.metrics.iter().enumerate() {
            let (events, instances, values) = read_events(self.library, metric)?;
            if self.sums.len() < instances {
                self.sums.resize(instances, [0; 2]);
            }
            for instance in 0..instances {
                let mut of: Vec<u64> =
                    (0..events.len()).map(|at| values[at * INSTANCES_MAX + instance]).collect();
                let bytes = self.value(metric.id, &events, &mut of, elapsed)?;
                // Modulo 2^64, as every counter.
                self.sums[instance][direction] = self.sums[instance][direction].wrapping_add(bytes);
            }
        }
        self.last = now;
        Ok(())
    }

    /// The metric of one link, of the values of its events.
    fn value(
        &self,
        id: CUpti_MetricID,
        events: &[CUpti_EventID],
        values: &mut [u64],
        elapsed: u64,
    ) -> Result<u64, CuptiError> {
        let mut events = events.to_vec();
        let mut value = CUpti_MetricValue { metricValueUint64: 0 };
        plain!(
            self.library.cupti,
            cuptiMetricGetValue(
                self.device.handle,
                id,
                size_of_val(events.as_slice()),
                events.as_mut_ptr(),
                size_of_val(values),
                values.as_mut_ptr(),
                elapsed,
                &raw mut value,
            )
        )?;
        // SAFETY: both metrics are of kind UINT64 (bytes), and any bits are such a number.
        Ok(unsafe { value.metricValueUint64 })
    }
}

impl Drop for LinksGpu<'_> {
    fn drop(&mut self) {
        let _ = self.context.enter();
        for metric in &self.metrics {
            // SAFETY: as in `add`.
            let sets = unsafe {
                std::slice::from_raw_parts_mut((*metric.sets).sets, (*metric.sets).numSets as usize)
            };
            for set in sets.iter_mut().filter(|_| metric.enabled) {
                let _ = plain!(self.library.cupti, cuptiEventGroupSetDisable(set));
            }
            let _ = plain!(self.library.cupti, cuptiEventGroupSetsDestroy(metric.sets));
        }
    }
}

fn groups(set: &mut CUpti_EventGroupSet) -> &mut [CUpti_EventGroup] {
    // SAFETY: CUPTI gave as many groups as it says, which live as long as their set.
    unsafe { std::slice::from_raw_parts_mut(set.eventGroups, set.numEventGroups as usize) }
}

/// All events of a metric: their ids, how many links there are, and values, [`INSTANCES_MAX`] for each event.
fn read_events(
    library: &Library,
    metric: &Metric,
) -> Result<(Vec<CUpti_EventID>, usize, Vec<u64>), CuptiError> {
    let (mut all, mut instances, mut values) = (Vec::new(), 0, Vec::new());
    let all_sets = metric.sets;
    // SAFETY: as in `LinksGpu::add`.
    let sets = unsafe { std::slice::from_raw_parts_mut((*all_sets).sets, (*all_sets).numSets as usize) };
    for group in sets.iter_mut().flat_map(|set| groups(set).to_vec()) {
        let mut events = [0; EVENTS_MAX];
        let mut read = vec![0_u64; EVENTS_MAX * INSTANCES_MAX];
        let mut events_bytes = size_of_val(&events);
        let mut read_bytes = size_of_val(read.as_slice());
        let mut count = 0;
        plain!(
            library.cupti,
            cuptiEventGroupReadAllEvents(
                group,
                CUPTI_EVENT_READ_FLAG_NONE,
                &raw mut read_bytes,
                read.as_mut_ptr(),
                &raw mut events_bytes,
                events.as_mut_ptr(),
                &raw mut count,
            )
        )?;
        let count = count.min(EVENTS_MAX);
        let of_group = (read_bytes / size_of::<u64>()).checked_div(count).unwrap_or(0).min(INSTANCES_MAX);
        instances = instances.max(of_group);
        for event in 0..count {
            all.push(events[event]);
            let place = values.len();
            values.resize(place + INSTANCES_MAX, 0);
            // Instance by instance, in each all events in their order.
            (0..of_group).for_each(|instance| values[place + instance] = read[instance * count + event]);
        }
    }
    Ok((all, instances, values))
}
