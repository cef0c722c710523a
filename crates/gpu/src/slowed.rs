//! GPUs that heat or a limit of their board slows down: events made of NVML's cumulative times of that.
//!
//! What a power cap takes is no event: a busy GPU at its cap is as its site wants it.

use std::collections::HashMap;

use crate::field;
use crate::frame::{GpuSurvey, RawField};

/// Less than this since the last reading is no cause of anything.
const SHORTEST_NANOSECONDS: u64 = 10_000_000;
/// Slowed no more for so long: it is over.
const END_NANOSECONDS: i64 = 60_000_000_000;
/// What goes on is reported again after so long. `throughline_query::evidence` looks back as far.
const REPEAT_NANOSECONDS: i64 = 600_000_000_000;

/// The causes, by NVML's field: nanoseconds in which it kept the clock below that of applications.
pub const CAUSES: [(u32, &str); 2] =
    [(field::SLOWED_BY_HEAT, "heat"), (field::SLOWED_BY_BOARD, "the limit of its board")];

/// What is known of one GPU.
#[derive(Default)]
pub struct SlowdownCauses(HashMap<u32, Cause>);

#[derive(Default)]
struct Cause {
    /// The last reading, and when it was.
    last: Option<(u64, i64)>,
    spell: Option<SlowdownPeriod>,
}

/// A time in which a cause holds the GPU back again and again.
struct SlowdownPeriod {
    begin: i64,
    nanoseconds: u64,
    grew: i64,
    reported: i64,
}

/// What is to be reported of a cause.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    cause: &'static str,
    /// Otherwise it begins or goes on.
    is_over: bool,
    /// Nanoseconds in which the GPU was slowed, since when.
    nanoseconds: u64,
    begin: i64,
}

impl Report {
    /// Kind, severity and text of the event.
    pub fn event(&self, gpu: &GpuSurvey, time: i64) -> (&'static str, &'static str, String) {
        let (kind, severity, word) = match self.is_over {
            false => ("gpu.slowed", "warning", "is"),
            true => ("gpu.full_speed", "info", "is no longer"),
        };
        let (held, all) = (self.nanoseconds as f64 / 1e9, (time - self.begin) as f64 / 1e9);
        let GpuSurvey { index, uuid, .. } = gpu;
        let text =
            format!("GPU {index} ({uuid}) {word} slowed down by {}: {held:.2} of {all:.0} s", self.cause);
        (kind, severity, text)
    }
}

impl SlowdownCauses {
    /// Takes the reading of a cause at `time`, UTC nanoseconds.
    ///
    /// # Errors
    /// Why it has no value.
    pub fn take(&mut self, value: &RawField, time: i64) -> Result<Option<Report>, &'static str> {
        let nanoseconds = value.unsigned()?;
        let Some((_, cause)) = CAUSES.iter().find(|(field, _)| *field == value.field) else {
            return Ok(None);
        };
        let memory = self.0.entry(value.field).or_default();
        Ok(memory.advance(nanoseconds, time).map(|(is_over, nanoseconds, begin)| Report {
            cause,
            is_over,
            nanoseconds,
            begin,
        }))
    }
}

impl Cause {
    /// Whether it is over, nanoseconds of it and since when, if that is to be reported.
    fn advance(&mut self, nanoseconds: u64, time: i64) -> Option<(bool, u64, i64)> {
        let (before, since) = self.last.replace((nanoseconds, time))?;
        // A driver that was loaded anew counts from 0.
        let grown = nanoseconds.checked_sub(before).unwrap_or(nanoseconds);
        let Some(spell) = &mut self.spell else {
            if grown < SHORTEST_NANOSECONDS {
                return None;
            }
            self.spell =
                Some(SlowdownPeriod { begin: since, nanoseconds: grown, grew: time, reported: time });
            return Some((false, grown, since));
        };
        spell.nanoseconds += grown;
        if grown >= SHORTEST_NANOSECONDS {
            spell.grew = time;
        }
        let (sum, begin) = (spell.nanoseconds, spell.begin);
        if time - spell.grew >= END_NANOSECONDS {
            self.spell = None;
            return Some((true, sum, begin));
        }
        if time - spell.reported >= REPEAT_NANOSECONDS {
            spell.reported = time;
            return Some((false, sum, begin));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_spell_is_reported_when_it_begins_every_ten_minutes_and_when_it_is_over() {
        let mut cause = Cause::default();
        let mut at = |second: i64, held: u64| cause.advance(held, second * SECOND);
        assert_eq!(at(0, 5_000_000_000), None, "what was before is not known to be recent");
        assert_eq!(at(10, 5_000_000_000), None);
        assert_eq!(at(20, 5_009_000_000), None, "too short");
        assert_eq!(at(30, 7_009_000_000), Some((false, 2_000_000_000, 20 * SECOND)));
        assert_eq!(at(40, 8_009_000_000), None);
        assert_eq!(at(99, 8_009_000_000), None);
        assert_eq!(at(100, 8_009_000_000), Some((true, 3_000_000_000, 20 * SECOND)));
        assert_eq!(at(110, 1_000_000_000), Some((false, 1_000_000_000, 100 * SECOND)), "counted anew");
        for turn in 1..60 {
            assert_eq!(at(110 + turn * 10, 1_000_000_000 * turn.unsigned_abs()), None);
        }
        assert_eq!(at(710, 60_000_000_000), Some((false, 60_000_000_000, 100 * SECOND)));
    }

    #[test]
    fn a_report_names_the_gpu_the_cause_and_how_much() {
        let gpu = GpuSurvey { index: 3, uuid: "GPU-x".into(), ..GpuSurvey::default() };
        let report = Report { cause: CAUSES[0].1, is_over: false, nanoseconds: 1_500_000_000, begin: 0 };
        let (kind, severity, text) = report.event(&gpu, 10 * SECOND);
        assert_eq!((kind, severity), ("gpu.slowed", "warning"));
        assert_eq!(text, "GPU 3 (GPU-x) is slowed down by heat: 1.50 of 10 s");
    }
}
