//! The trace event format that Chrome's and Perfetto's viewers read, written event by event.
//!
//! Knows neither MPI nor the database. Times are nanoseconds since the trace's own beginning: as microseconds
//! since 1970 they would not fit a JSON number to the nanosecond.

use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Where an event is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// Number of the process, above 0: viewers take 0 for the kernel.
    pub process: u32,
    /// Number of the thread within it.
    pub thread: u32,
}

/// The end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// It leaves here.
    From,
    /// It arrives here.
    To,
}

/// A trace in the making: a JSON object whose list of events is written as they come.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    events: u64,
}

impl<W: Write> Writer<W> {
    /// Begins the document with what is known of the whole.
    ///
    /// # Errors
    /// The output does not take it, as in all that follows.
    pub fn begin(mut out: W, about: &Value) -> io::Result<Self> {
        write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\n\"traceEvents\":[")?;
        Ok(Self { out, events: 0 })
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        let separator = if self.events == 0 { "\n" } else { ",\n" };
        self.events += 1;
        write!(self.out, "{separator}{event}")
    }

    /// Names a process; viewers list processes in the order of `place`.
    pub fn process(&mut self, process: u32, name: &str, place: u32) -> io::Result<()> {
        self.metadata("process_name", Track { process, thread: 0 }, json!({ "name": name }))?;
        self.metadata("process_sort_index", Track { process, thread: 0 }, json!({ "sort_index": place }))
    }

    /// Names a thread.
    pub fn thread(&mut self, track: Track, name: &str) -> io::Result<()> {
        self.metadata("thread_name", track, json!({ "name": name }))
    }

    fn metadata(&mut self, name: &str, track: Track, arguments: Value) -> io::Result<()> {
        self.event(
            &json!({ "ph": "M", "name": name, "pid": track.process, "tid": track.thread, "args": arguments }),
        )
    }

    /// Something that lasted.
    pub fn slice(
        &mut self,
        track: Track,
        name: &str,
        start: i64,
        length: i64,
        arguments: Map<String, Value>,
    ) -> io::Result<()> {
        self.event(&json!({
            "ph": "X", "cat": "mpi", "name": name, "pid": track.process, "tid": track.thread,
            "ts": microseconds(start), "dur": microseconds(length.max(1)), "args": arguments,
        }))
    }

    /// An end of the arrow `id`, bound to the slice at that time.
    pub fn arrow(&mut self, track: Track, end: Arrow, id: u64, time: i64) -> io::Result<()> {
        let mut event = json!({
            "ph": if end == Arrow::From { "s" } else { "f" }, "cat": "message", "name": "message",
            "id": format!("0x{id:x}"), "pid": track.process, "tid": track.thread, "ts": microseconds(time),
        });
        if end == Arrow::To {
            // Else it would be drawn to the next slice.
            event["bp"] = json!("e");
        }
        self.event(&event)
    }

    /// How many events were written.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// A value from a time on, until the next one of the same name and unit, which viewers show behind each other. They leave out what
    /// is before zero.
    pub fn counter(&mut self, process: u32, name: &str, unit: &str, time: i64, value: f64) -> io::Result<()> {
        self.event(&json!({
            "ph": "C", "name": name, "pid": process, "tid": 0, "ts": microseconds(time.max(0)), "args": { unit: value },
        }))
    }

    /// Something that lasted and is no call.
    pub fn span(
        &mut self,
        track: Track,
        name: &str,
        start: i64,
        length: i64,
        arguments: Map<String, Value>,
    ) -> io::Result<()> {
        self.event(&json!({
            "ph": "X", "cat": "throughline", "name": name, "pid": track.process, "tid": track.thread,
            "ts": microseconds(start), "dur": microseconds(length.max(1)), "args": arguments,
        }))
    }

    /// A moment in a thread.
    pub fn instant(
        &mut self,
        track: Track,
        name: &str,
        time: i64,
        arguments: Map<String, Value>,
    ) -> io::Result<()> {
        self.event(&json!({
            "ph": "i", "s": "t", "cat": "throughline", "name": name, "pid": track.process, "tid": track.thread,
            "ts": microseconds(time), "args": arguments,
        }))
    }

    /// A moment that concerns a whole process.
    pub fn moment(
        &mut self,
        process: u32,
        name: &str,
        time: i64,
        arguments: Map<String, Value>,
    ) -> io::Result<()> {
        self.event(&json!({
            "ph": "i", "s": "p", "cat": "throughline", "name": name, "pid": process, "tid": 0,
            "ts": microseconds(time), "args": arguments,
        }))
    }

    /// Ends the document.
    pub fn end(mut self) -> io::Result<W> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Nanoseconds as a number of microseconds that keeps them.
fn microseconds(nanoseconds: i64) -> Value {
    // Below 2^53 ns (104 days) the quotient is exact to the nanosecond.
    json!(nanoseconds as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_whole_whatever_it_holds() {
        let track = Track { process: 1, thread: 2 };
        let empty = Writer::begin(Vec::new(), &json!({})).unwrap().end().unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&empty).unwrap(),
            json!({ "displayTimeUnit": "ns", "otherData": {}, "traceEvents": [] })
        );
        let mut writer = Writer::begin(Vec::new(), &json!({ "job": "a\"b" })).unwrap();
        writer.process(1, "rank 0", 0).unwrap();
        writer.thread(track, "thread 2").unwrap();
        writer.slice(track, "send", 1, 0, Map::new()).unwrap();
        writer.arrow(track, Arrow::From, 255, 1).unwrap();
        writer.arrow(track, Arrow::To, 255, 900_719_925_474_099).unwrap();
        writer.moment(1, "step", 5_000, Map::new()).unwrap();
        let text = writer.end().unwrap();
        let document: Value = serde_json::from_slice(&text).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        let kinds: Vec<&str> = events.iter().filter_map(|event| event["ph"].as_str()).collect();
        assert_eq!(kinds, ["M", "M", "M", "X", "s", "f", "i"]);
        assert_eq!((&events[3]["ts"], &events[3]["dur"]), (&json!(0.001), &json!(0.001)));
        assert_eq!((&events[4]["id"], &events[4]["bp"]), (&json!("0xff"), &Value::Null));
        assert_eq!((&events[5]["bp"], &events[5]["ts"]), (&json!("e"), &json!(900_719_925_474.099)));
    }
}
