//! PM Sampling of one GPU: from enabling it to sums of bytes.
//!
//! Runs in the sampler. Sums only grow; a highest rate is of the samples since it was last taken.
#![allow(unsafe_code)] // calls of `api`'s macro with pointers to this object's own memory

use std::ffi::{CString, c_char};

use cupti_sys::cupti::*;

use super::api::{Device, Library, call};
use super::code::{CuptiError, UNKNOWN};
use super::metrics::{Plan, Quantity};

/// Space for raw records on the GPU's side. A record of these few metrics takes some hundred bytes (not measured on
/// hardware); this holds several seconds at the shortest interval. When it is full the oldest stay and it is counted.
const HARDWARE_BUFFER_BYTES: usize = 32 << 20;
/// Samples decoded at a time.
const SAMPLES_MAX: u32 = 256;
/// Most decodings in a row: what is left is for the next time, so that one GPU holds up no other for long.
const DECODINGS_MAX: usize = 64;

/// Chips whose sampling can only be timed by the system clock.
fn is_timed_by_clock(chip: &[u8]) -> bool {
    chip.starts_with(b"TU") || chip == b"GA100"
}

/// What was sampled of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Whole bytes since sampling began, modulo 2^64: a sum that is stored as a number with a fraction would lose bytes
    /// after some hours of a busy GPU.
    pub bytes: u64,
    /// What samples held beyond whole bytes.
    rest: f64,
    /// Highest rate in one sample, bytes per second, since it was last taken.
    pub peak: f64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        let value = value + self.rest;
        // A sample's bytes are far below 2^64; one that isn't would stick there.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = value as u64;
        self.bytes = self.bytes.wrapping_add(whole);
        self.rest = value.fract();
    }
}

/// No GPU carries as much in one direction over all its links, bytes per second: a sample with more is void.
const FASTEST: f64 = 4e12;

/// What was sampled, by [`Quantity`]; `None` for what the chip does not offer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// In the order of [`Quantity::ALL`].
    pub of: [Option<Sum>; 4],
    /// Samples in the sums.
    pub samples: u64,
    /// Samples without a number, or with more than any GPU carries: the first one has none now and then.
    pub void: u64,
    /// Times the GPU's buffer was full, so that samples were lost.
    pub overflows: u64,
}

impl Sums {
    /// Adds the values of one sample that lasted so long.
    pub fn add(&mut self, wanted: &[Quantity], values: &[f64], nanoseconds: u64) {
        let seconds = nanoseconds as f64 / 1e9;
        let is_believed = |value: &f64| {
            value.is_finite() && *value >= 0.0 && (nanoseconds == 0 || *value <= FASTEST * seconds)
        };
        if !values.iter().all(is_believed) {
            self.void += 1;
            return;
        }
        self.samples += 1;
        for (quantity, value) in wanted.iter().zip(values) {
            let sum = self.of[*quantity as usize].get_or_insert_default();
            sum.add(*value);
            if nanoseconds > 0 {
                sum.peak = sum.peak.max(value * 1e9 / nanoseconds as f64);
            }
        }
    }

    /// Begins the highest rates anew.
    pub fn begin_peaks(&mut self) {
        self.of.iter_mut().flatten().for_each(|sum| sum.peak = 0.0);
    }
}

/// A GPU that is being sampled.
pub struct PmGpu<'l> {
    library: &'l Library,
    plan: Plan<'l>,
    // The plan's object was made of them; whether CUPTI copied them is not documented.
    _availability: Vec<u8>,
    chip: CString,
    wanted: Vec<Quantity>,
    /// For each decoding the same pointers to the metrics' names.
    names: Vec<*const c_char>,
    object: *mut CUpti_PmSampling_Object,
    data: Vec<u8>,
    started: bool,
    /// What was sampled.
    pub sums: Sums,
}

impl<'l> PmGpu<'l> {
    /// Takes the GPU's performance monitor and begins to sample.
    ///
    /// # Errors
    /// The call that failed: 26 where another has the monitor, 27 for a chip without PM Sampling, 35 without permission.
    pub fn start(
        library: &'l Library,
        device: &Device,
        interval_nanoseconds: u64,
    ) -> Result<Self, CuptiError> {
        let chip = library.chip(device.index)?;
        let availability = availability(library, device)?;
        let plan = Plan::new(library, &chip, Some(&availability))?;
        let object = call!(
            library,
            cuptiPmSamplingEnable,
            CUpti_PmSampling_Enable_Params { deviceIndex: device.index as usize }
        )?
        .pPmSamplingObject;
        let (wanted, names) = plan.wanted.iter().map(|(quantity, name)| (*quantity, name.as_ptr())).unzip();
        let mut sums = Sums::default();
        plan.wanted.iter().for_each(|(quantity, _)| sums.of[*quantity as usize] = Some(Sum::default()));
        // From here on its end disables what was enabled.
        let mut gpu = Self {
            library,
            plan,
            _availability: availability,
            chip,
            wanted,
            names,
            object,
            data: Vec::new(),
            started: false,
            sums,
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
        let (trigger, interval) = if is_timed_by_clock(self.chip.as_bytes()) {
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
                configSize: self.plan.image.len(),
                pConfig: self.plan.image.as_ptr(),
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
        let mut values = [0.0; Quantity::ALL.len()];
        let values = &mut values[..self.names.len()];
        self.plan.host.evaluate(&self.data, sample, &mut self.names, values)?;
        self.sums.add(&self.wanted, values, time.endTimestamp.saturating_sub(time.startTimestamp));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_leave_out_what_is_no_number_and_keep_the_highest_rate() {
        let mut sums = Sums::default();
        let wanted = [Quantity::NvlinkTransmit, Quantity::PcieWrite];
        sums.add(&wanted, &[f64::NAN, 5.0], 1_000_000);
        sums.add(&wanted, &[1000.0, 2.0], 1_000_000);
        sums.add(&wanted, &[3000.0, 0.0], 2_000_000);
        assert_eq!((sums.samples, sums.void), (2, 1));
        assert_eq!(sums.of[0], Some(Sum { bytes: 4000, rest: 0.0, peak: 1_500_000.0 }));
        assert_eq!((sums.of[1], sums.of[3]), (None, Some(Sum { bytes: 2, rest: 0.0, peak: 2000.0 })));
        sums.begin_peaks();
        assert_eq!(sums.of[0], Some(Sum { bytes: 4000, rest: 0.0, peak: 0.0 }));
    }

    #[test]
    fn a_sum_loses_no_byte_and_begins_again_after_64_bits() {
        let wanted = [Quantity::PcieRead];
        let mut sums = Sums::default();
        sums.add(&wanted, &[0.75], 1);
        // A number with a fraction has 53 bits: beyond them a single byte would be lost.
        sums.of[2].as_mut().unwrap().bytes = 1 << 60;
        (0..6).for_each(|_| sums.add(&wanted, &[1.0], 1));
        sums.add(&wanted, &[0.25], 1);
        assert_eq!(sums.of[2].unwrap().bytes, (1 << 60) + 7);
        sums.of[2].as_mut().unwrap().bytes = u64::MAX - 2;
        sums.add(&wanted, &[10.0], 1);
        assert_eq!(sums.of[2].unwrap().bytes, 7);
        assert_eq!(throughline_sample::increase((u64::MAX - 2) & (u64::MAX >> 1), 7), 10);
    }
}
