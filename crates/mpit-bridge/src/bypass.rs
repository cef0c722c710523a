//! Programs whose MPI calls pass by the shim: which ones were reported, so that a user who misses their jobs learns why and what to do.
//! Each program of a user is an event once in a while, and a condition of the source that long. Pure; times come from the caller.

use crate::frame::{BYPASS, Field, MAGIC, VERSION, number};
use crate::status::Malformed;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use throughline_sample::admission::clean_text;
use throughline_sample::wire::Event;

/// Kind of the event.
const KIND: &str = "mpi.bypassed";
/// How long a program is named after it was reported last, and the shortest time between two events of it.
const NAMED_FOR: Duration = Duration::from_secs(3600);
/// Most programs at a time: names are the users' own.
const PROGRAMS_MAX: usize = 64;
/// Most of one user.
const PROGRAMS_OF_USER_MAX: usize = 8;
/// Longest name of a program, bytes: the kernel's own has 15.
const PROGRAM_BYTES: usize = 64;
/// Longest text of functions, bytes: three names.
const FUNCTIONS_BYTES: usize = 192;

/// Why calls pass by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BypassCause {
    /// The program looks functions up in the library.
    LookedUp,
    /// The library is part of the program.
    Inside,
    /// A tool of PMPI is part of the program: these functions are its own.
    Tool(String),
}

/// A report of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bypass {
    /// Why.
    pub how: BypassCause,
    /// Name of the program.
    pub program: String,
}

impl Bypass {
    /// Reads the fields of a BYPASS frame.
    ///
    /// # Errors
    /// A field is missing or impossible.
    pub fn read(fields: &[Field<'_>]) -> Result<Self, Malformed> {
        let field = |wanted: u16| {
            let found = fields.iter().find(|(tag, _)| *tag == wanted);
            found.map(|(_, data)| *data).ok_or(Malformed::Field)
        };
        let text = |wanted: u16, bytes: usize| -> Result<String, Malformed> {
            let text = String::from_utf8_lossy(field(wanted)?);
            let plain: String = text.chars().filter(|c| !c.is_control()).take(bytes).collect();
            Ok(clean_text(&plain, bytes).into_owned())
        };
        let how = match number(field(1)?)? {
            1 => BypassCause::LookedUp,
            2 => BypassCause::Inside,
            3 => BypassCause::Tool(text(3, FUNCTIONS_BYTES)?),
            _ => return Err(Malformed::Field),
        };
        Ok(Self { how, program: text(2, PROGRAM_BYTES)? })
    }

    /// For people: what is the case, and what to do.
    fn text(&self, who: &str) -> String {
        let program = &self.program;
        match &self.how {
            BypassCause::LookedUp => format!(
                "MPI calls of {program} of {who} bypass the shim (it looks the functions up in the library, as MPI.jl, ctypes \
                 and cffi do): no job is recorded; use bindings that are linked to MPI, as mpi4py"
            ),
            BypassCause::Inside => format!(
                "{program} of {who} has its MPI library inside (static MPI): no call leaves it and no job is recorded; link it to \
                 the shared library"
            ),
            BypassCause::Tool(functions) => format!(
                "{program} of {who} has a tool of PMPI inside, whose {functions} come before the shim: calls of them are not counted; \
                 build the tool as a shared library, and link or preload that"
            ),
        }
    }
}

/// A frame that reports a program with MPI inside, by the program's name. Its times are 0: nobody reads them.
#[must_use]
pub(crate) fn frame_of_inside(program: &[u8]) -> Vec<u8> {
    const INSIDE: u32 = 2;
    const HEADER_BYTES: usize = 32;
    let name = &program[..program.len().min(PROGRAM_BYTES)];
    let mut body = Vec::new();
    for (tag, data) in [(1_u16, &INSIDE.to_le_bytes()[..]), (2, name)] {
        body.extend_from_slice(&tag.to_le_bytes());
        body.extend_from_slice(&(data.len() as u16).to_le_bytes());
        body.extend_from_slice(data);
    }
    let length = (HEADER_BYTES + body.len()) as u32;
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&MAGIC.to_le_bytes());
    frame.extend_from_slice(&VERSION.to_le_bytes());
    frame.extend_from_slice(&BYPASS.to_le_bytes());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.resize(HEADER_BYTES, 0);
    frame.extend_from_slice(&body);
    frame
}

#[derive(Debug)]
struct ReportedBypass {
    bypass: Bypass,
    who: String,
    last: Instant,
    /// Of its last event.
    event: Instant,
}

/// Those that were reported lately.
#[derive(Debug, Default)]
pub(crate) struct Bypasses(Mutex<BTreeMap<(u32, String), ReportedBypass>>);

impl Bypasses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u32, String), ReportedBypass>> {
        // No code holding it can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process has reported it: the event, where the last one is an hour old.
    pub fn take(
        &self,
        uid: u32,
        name: Option<&str>,
        bypass: Bypass,
        now: Instant,
        utc: i64,
    ) -> Option<Event> {
        let mut all = self.lock();
        all.retain(|_, known| now.saturating_duration_since(known.last) < NAMED_FOR);
        let key = (uid, bypass.program.clone());
        if let Some(known) = all.get_mut(&key) {
            known.last = now;
            if now.saturating_duration_since(known.event) < NAMED_FOR {
                return None;
            }
        } else {
            let of_user = all.keys().filter(|(of, _)| *of == uid).count();
            if all.len() >= PROGRAMS_MAX || of_user >= PROGRAMS_OF_USER_MAX {
                return None;
            }
        }
        let who = name
            .filter(|name| !name.is_empty())
            .map_or_else(|| format!("user {uid}"), |name| format!("user {} ({uid})", clean_text(name, 64)));
        let text = bypass.text(&who);
        all.insert(key, ReportedBypass { bypass, who, last: now, event: now });
        let (source, kind, severity) = ("mpi".to_owned(), KIND.to_owned(), "warning".to_owned());
        Some(Event { time: utc, source, kind, severity, text, ..Event::default() })
    }

    /// What is to be said of those of the last hour.
    pub fn lines(&self, now: Instant) -> Vec<String> {
        let all = self.lock();
        let lately = all.values().filter(|known| now.saturating_duration_since(known.last) < NAMED_FOR);
        lately.map(|known| known.bypass.text(&known.who)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, decode};

    fn bypass(program: &str) -> Bypass {
        Bypass { how: BypassCause::LookedUp, program: program.to_owned() }
    }

    #[test]
    fn a_program_is_an_event_once_an_hour() {
        let (all, start) = (Bypasses::default(), Instant::now());
        let take = |program: &str, after: u64| {
            all.take(1001, Some("alice"), bypass(program), start + Duration::from_secs(after), 7)
        };
        let event = take("julia", 0).unwrap();
        assert_eq!((event.kind.as_str(), event.severity.as_str(), event.time), (KIND, "warning", 7));
        assert!(
            event.text.starts_with("MPI calls of julia of user alice (1001) bypass the shim"),
            "{}",
            event.text
        );
        assert_eq!(take("julia", 3000), None);
        assert!(take("python3", 3000).is_some());
        assert_eq!(all.lines(start + Duration::from_secs(3001)).len(), 2);
        // An hour after its last event, though it was reported since; and after a time without any report.
        assert!(take("julia", 6599).is_some());
        assert_eq!(take("julia", 10_000), None);
        assert!(take("julia", 20_000).is_some());
        assert_eq!(all.lines(start + Duration::from_secs(20_000)).len(), 1);
    }

    #[test]
    fn one_user_cannot_fill_it() {
        let (all, now) = (Bypasses::default(), Instant::now());
        let named =
            (0..100).filter(|i| all.take(1001, None, bypass(&format!("p{i}")), now, 0).is_some()).count();
        assert_eq!(named, PROGRAMS_OF_USER_MAX);
        assert!(all.take(1002, None, bypass("p0"), now, 0).is_some());
    }

    #[test]
    fn frames_are_read_with_care() {
        let how = 2_u32.to_le_bytes();
        let tool = 3_u32.to_le_bytes();
        let read = Bypass::read(&[(1, &tool), (2, b"a.out"), (3, b"MPI_Send, MPI_Recv")]).unwrap();
        let text = read.text("user 1001");
        assert!(
            text.starts_with("a.out of user 1001 has a tool of PMPI inside, whose MPI_Send, MPI_Recv come"),
            "{text}"
        );
        assert_eq!(Bypass::read(&[(1, &tool), (2, b"a.out")]), Err(Malformed::Field));
        let read = Bypass::read(&[(1, &how), (2, b"a\x1b[31m.out")]).unwrap();
        assert_eq!(read.how, BypassCause::Inside);
        assert!(!read.program.contains('\x1b'), "{read:?}");
        let frame = frame_of_inside(b"a.out");
        let Ok((_, Frame::Bypass(fields))) = decode(&frame) else { panic!("{frame:?}") };
        assert_eq!(
            Bypass::read(&fields).unwrap(),
            Bypass { how: BypassCause::Inside, program: "a.out".into() }
        );
        assert_eq!(Bypass::read(&[(1, &how)]), Err(Malformed::Field));
        assert_eq!(Bypass::read(&[(1, &[9]), (2, b"a")]), Err(Malformed::Field));
    }
}
