//! What a rank says about itself in its HELLO.

use crate::frame::{Field, number};
use crate::status::Malformed;
use throughline_sample::admission::{NAME_BYTES_MAX, clean_text};

/// Largest world: as many ranks as the shim keeps peers for.
const WORLD_MAX: u64 = 1 << 20;
/// Longest text stored of a HELLO, in bytes.
const TEXT_BYTES: usize = NAME_BYTES_MAX;
/// Longest launcher's name for itself, and longest variable, in bytes: only their beginnings are used.
const LONG_TEXT_BYTES: usize = 4 * NAME_BYTES_MAX;
/// Most variables of a HELLO: a shim knows some thirty.
const VARIABLES_MAX: usize = 128;

/// What a rank says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Process id as the process sees it; 0 where it is not sent.
    pub pid: u32,
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Ranks in `MPI_COMM_WORLD`.
    pub world_size: u32,
    /// UTC nanoseconds of MPI_Init: its counting began.
    pub epoch: i64,
    /// First line of the library's description.
    pub library: String,
    /// Scheduler's and launcher's variables.
    pub variables: Vec<(String, String)>,
    /// The same for all ranks that one launcher started.
    pub launcher: Option<String>,
}

impl Hello {
    /// Reads the fields of a HELLO frame.
    ///
    /// # Errors
    /// A needed field is missing or impossible.
    pub fn read(fields: &[Field<'_>]) -> Result<Self, Malformed> {
        let mut hello = Self::default();
        let (mut rank, mut size, mut epoch) = (None, None, None);
        for (tag, data) in fields {
            match tag {
                1 => hello.pid = u32::try_from(number(data)?).unwrap_or(0),
                2 => rank = Some(number(data)?),
                3 => size = Some(number(data)?),
                4 => epoch = Some(number(data)?),
                6 => hello.library = clean(data, TEXT_BYTES),
                8 if hello.variables.len() < VARIABLES_MAX => hello.variables.extend(variable(data)),
                9 => hello.launcher = Some(clean(data, LONG_TEXT_BYTES)).filter(|text| !text.is_empty()),
                _ => {}
            }
        }
        let (rank, size) = (rank.ok_or(Malformed::Field)?, size.ok_or(Malformed::Field)?);
        if rank >= size || size > WORLD_MAX {
            return Err(Malformed::Rank);
        }
        // Both are below WORLD_MAX.
        hello.rank = u32::try_from(rank).map_err(|_| Malformed::Rank)?;
        hello.world_size = u32::try_from(size).map_err(|_| Malformed::Rank)?;
        hello.epoch = i64::try_from(epoch.ok_or(Malformed::Field)?).map_err(|_| Malformed::Field)?;
        Ok(hello)
    }

    pub(crate) fn variable(&self, names: &[&str]) -> Option<&str> {
        let value = |name: &&str| self.variables.iter().find(|(known, _)| known == name);
        names.iter().find_map(value).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The launcher, unless it is the scheduler's own (`srun --mpi=pmix`), which the step names already.
    pub(crate) fn own_launcher(&self) -> Option<&str> {
        self.launcher.as_deref().filter(|launcher| !launcher.starts_with("pmix slurm."))
    }
}

fn variable(data: &[u8]) -> Option<(String, String)> {
    let text = clean(data, LONG_TEXT_BYTES);
    text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// Text without control characters or others that deceive, cut to a length.
fn clean(data: &[u8], bytes: usize) -> String {
    let text = String::from_utf8_lossy(data);
    let plain: String = text.chars().filter(|c| !c.is_control()).take(bytes).collect();
    clean_text(&plain, bytes).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn needed_fields() {
        let rank = 1_u32.to_le_bytes();
        let size = 4_u32.to_le_bytes();
        let epoch = 5_i64.to_le_bytes();
        let all: [Field<'_>; 3] = [(2, &rank), (3, &size), (4, &epoch)];
        assert_eq!(Hello::read(&all).unwrap().world_size, 4);
        assert_eq!(Hello::read(&all[..2]), Err(Malformed::Field));
        assert_eq!(Hello::read(&[(2, &size), (3, &size), (4, &epoch)]), Err(Malformed::Rank));
        assert_eq!(Hello::read(&[(2, &rank), (3, &[255; 8]), (4, &epoch)]), Err(Malformed::Rank));
        assert_eq!(Hello::read(&[(2, &rank), (3, &size), (4, &[255; 8])]), Err(Malformed::Field));
    }

    #[test]
    fn texts_are_cleaned() {
        let rank = 0_u32.to_le_bytes();
        let size = 1_u32.to_le_bytes();
        let long = [b'x'; 5000];
        let fields: [Field<'_>; 5] =
            [(2, &rank), (3, &size), (4, &[1]), (6, b"Open\x1b[2J MPI\n"), (9, &long)];
        let hello = Hello::read(&fields).unwrap();
        assert_eq!(hello.library, "Open[2J MPI");
        assert_eq!(hello.launcher.unwrap().len(), 1024);
    }
}
