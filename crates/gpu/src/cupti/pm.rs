//! PM Sampling of one GPU: from enabling it to sums of bytes.
//!
//! Runs in the sampler. Sums only grow; a highest rate is of the samples since it was last taken.
#![allow(unsafe_code)] // calls of `api`'s macro with pointers to this object's own memory

use std::ffi::{CString, c_char};

use cupti_sys::cupti::*;

use super::api::{Device, Library, call};
use super::chosen::{Chosen, Selection};
use super::code::{CuptiError, UNKNOWN};
use super::gathered::Gathering;
use super::metrics::{Plan, Quantity};
use super::sums::{Sum, Sums};

/// Space for raw records on the GPU's side. A record of bytes alone takes some hundred bytes, one of 32 more metrics perhaps a
/// few thousand (not measured on hardware): this holds seconds at the shortest interval. When it is full the oldest stay and
/// it is counted.
const HARDWARE_BUFFER_BYTES: usize = 32 << 20;
/// Samples decoded at a time.
const SAMPLES_MAX: u32 = 256;
/// Most decodings in a row: what is left is for the next time, so that one GPU holds up no other for long.
const DECODINGS_MAX: usize = 64;

/// Chips whose sampling can only be timed by the system clock.
fn is_timed_by_clock(chip: &[u8]) -> bool {
    chip.starts_with(b"TU") || chip == b"GA100"
}

/// What a GPU could sample; its performance monitor is not taken for it.
pub struct PmPlan<'l> {
    chip: CString,
    plan: Plan<'l>,
    // The plan's object was made of them; whether CUPTI copied them is not documented.
    _availability: Vec<u8>,
}

impl<'l> PmPlan<'l> {
    /// Finds out what the GPU offers of what is wanted.
    ///
    /// # Errors
    /// The call that failed: 27 for a chip without PM Sampling, and as [`Plan::new`].
    pub fn new(library: &'l Library, device: &Device, chosen: &Chosen) -> Result<Self, CuptiError> {
        let chip = library.chip(device.index)?;
        let availability = availability(library, device)?;
        let plan = Plan::new(library, &chip, Some(&availability), chosen)?;
        Ok(Self { chip, plan, _availability: availability })
    }

    /// What is read and refused of the metrics that the site chose.
    #[must_use]
    pub fn selection(&self) -> &Selection {
        &self.plan.selection
    }
}

/// A GPU that is being sampled.
pub struct PmGpu<'l> {
    library: &'l Library,
    of: PmPlan<'l>,
    wanted: Vec<Quantity>,
    /// For each decoding the same pointers to the metrics' names.
    names: Vec<*const c_char>,
    object: *mut CUpti_PmSampling_Object,
    data: Vec<u8>,
    started: bool,
    /// What one sample held.
    values: Vec<f64>,
    /// What was sampled of bytes.
    pub sums: Sums,
    /// What was sampled of the metrics that the site chose.
    pub(super) gathering: Gathering,
}

impl<'l> PmGpu<'l> {
    /// Takes the GPU's performance monitor and begins to sample, at the first interval; the second one is that of readings.
    ///
    /// # Errors
    /// The call that failed: 26 where another has the monitor, 27 for a chip without PM Sampling, 35 without permission.
    pub fn start(
        library: &'l Library,
        device: &Device,
        of: PmPlan<'l>,
        (interval_nanoseconds, reading_nanoseconds): (u64, u64),
    ) -> Result<Self, CuptiError> {
        let object = call!(
            library,
            cuptiPmSamplingEnable,
            CUpti_PmSampling_Enable_Params { deviceIndex: device.index as usize }
        )?
        .pPmSamplingObject;
        let plan = &of.plan;
        let wanted: Vec<Quantity> = plan.wanted.iter().map(|(quantity, _)| *quantity).collect();
        let names: Vec<*const c_char> = plan.names.iter().map(|name| name.as_ptr()).collect();
        let groups = plan.selection.groups.iter();
        let gathering = Gathering::new(groups.map(|group| {
            (group.interval_nanoseconds / reading_nanoseconds.max(1), group.metrics.as_slice())
        }));
        let mut sums = Sums::default();
        plan.wanted.iter().for_each(|(quantity, _)| sums.of[*quantity as usize] = Some(Sum::default()));
        // From here on its end disables what was enabled.
        let mut gpu = Self {
            library,
            of,
            wanted,
            values: vec![0.0; names.len()],
            names,
            object,
            data: Vec::new(),
            started: false,
            sums,
            gathering,
        };
        gpu.configure(device, interval_nanoseconds)?;
        call!(
            library,
            cuptiPmSamplingStart,
            CUpti_PmSampling_Start_Params { pPmSamplingObject: gpu.object }
        )?;
        gpu.started = true;
        Ok(gpu)
    }

    fn configure(&mut self, device: &Device, interval_nanoseconds: u64) -> Result<(), CuptiError> {
        let (trigger, interval) = if is_timed_by_clock(self.of.chip.as_bytes()) {
            // The clock varies; samples report their own time.
            let cycles = interval_nanoseconds.saturating_mul(u64::from(device.clock_khz)) / 1_000_000;
            (CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL, cycles.max(1))
        } else {
            (CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL, interval_nanoseconds)
        };
        call!(
            self.library,
            cuptiPmSamplingSetConfig,
            CUpti_PmSampling_SetConfig_Params {
                pPmSamplingObject: self.object,
                configSize: self.of.plan.image.len(),
                pConfig: self.of.plan.image.as_ptr(),
                hardwareBufferSize: HARDWARE_BUFFER_BYTES,
                samplingInterval: interval,
                triggerMode: trigger,
                hwBufferAppendMode: CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST,
            }
        )?;
        let size = call!(
            self.library,
            cuptiPmSamplingGetCounterDataSize,
            CUpti_PmSampling_GetCounterDataSize_Params {
                pPmSamplingObject: self.object,
                pMetricNames: self.names.as_mut_ptr(),
                numMetrics: self.names.len(),
                maxSamples: SAMPLES_MAX,
            }
        )?
        .counterDataSize;
        self.data = vec![0; size];
        self.clear()
    }

    /// Makes the counter data image empty.
    fn clear(&mut self) -> Result<(), CuptiError> {
        call!(
            self.library,
            cuptiPmSamplingCounterDataImageInitialize,
            CUpti_PmSampling_CounterDataImage_Initialize_Params {
                pPmSamplingObject: self.object,
                counterDataSize: self.data.len(),
                pCounterData: self.data.as_mut_ptr(),
            }
        )
        .map(drop)
    }

    /// Takes what was sampled since the last time into the sums.
    pub fn decode(&mut self) -> Result<(), CuptiError> {
        for _ in 0..DECODINGS_MAX {
            let decoded = call!(
                self.library,
                cuptiPmSamplingDecodeData,
                CUpti_PmSampling_DecodeData_Params {
                    pPmSamplingObject: self.object,
                    pCounterDataImage: self.data.as_mut_ptr(),
                    counterDataImageSize: self.data.len(),
                }
            )?;
            self.sums.overflows += u64::from(decoded.overflow != 0);
            let info = call!(
                self.library,
                cuptiPmSamplingGetCounterDataInfo,
                CUpti_PmSampling_GetCounterDataInfo_Params {
                    pCounterDataImage: self.data.as_ptr(),
                    counterDataImageSize: self.data.len(),
                }
            )?;
            for sample in 0..info.numCompletedSamples {
                self.take(sample)?;
            }
            self.clear()?;
            if decoded.decodeStopReason != CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL {
                break;
            }
        }
        Ok(())
    }

    fn take(&mut self, sample: usize) -> Result<(), CuptiError> {
        let time = call!(
            self.library,
            cuptiPmSamplingCounterDataGetSampleInfo,
            CUpti_PmSampling_CounterData_GetSampleInfo_Params {
                pPmSamplingObject: self.object,
                pCounterDataImage: self.data.as_ptr(),
                counterDataImageSize: self.data.len(),
                sampleIndex: sample,
            }
        )?;
        self.of.plan.host.evaluate(&self.data, sample, &mut self.names, &mut self.values)?;
        let (bytes, chosen) = self.values.split_at(self.wanted.len());
        self.sums.add(&self.wanted, bytes, time.endTimestamp.saturating_sub(time.startTimestamp));
        self.gathering.add(chosen);
        Ok(())
    }
}

impl Drop for PmGpu<'_> {
    fn drop(&mut self) {
        if self.started {
            let _ = call!(
                self.library,
                cuptiPmSamplingStop,
                CUpti_PmSampling_Stop_Params { pPmSamplingObject: self.object }
            );
        }
        let _ = call!(
            self.library,
            cuptiPmSamplingDisable,
            CUpti_PmSampling_Disable_Params { pPmSamplingObject: self.object }
        );
    }
}

/// What the performance monitor of the GPU at hand offers.
fn availability(library: &Library, device: &Device) -> Result<Vec<u8>, CuptiError> {
    let index = device.index as usize;
    let size = call!(
        library,
        cuptiPmSamplingGetCounterAvailability,
        CUpti_PmSampling_GetCounterAvailability_Params { deviceIndex: index }
    )?
    .counterAvailabilityImageSize;
    if size == 0 {
        return Err(CuptiError { call: "cuptiPmSamplingGetCounterAvailability", code: UNKNOWN });
    }
    let mut image = vec![0; size];
    call!(
        library,
        cuptiPmSamplingGetCounterAvailability,
        CUpti_PmSampling_GetCounterAvailability_Params {
            deviceIndex: index,
            counterAvailabilityImageSize: image.len(),
            pCounterAvailabilityImage: image.as_mut_ptr(),
        }
    )?;
    Ok(image)
}
