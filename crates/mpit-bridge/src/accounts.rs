//! Whose account a user id counts on. A user namespace gives its owner thousands of ids (subuid(5)); each would have a
//! share of its own, so all of one range count as one user.

use std::io::Read;
use std::path::Path;

/// Most bytes of the file that are read: a line of 40 bytes for each of 25,000 users.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The ranges of ids that users may hand out, by their beginnings.
#[derive(Debug, Default)]
pub(crate) struct Accounts(Vec<(u32, u32)>);

impl Accounts {
    /// From a file of lines `OWNER:FIRST:COUNT`; none where there is no such file.
    pub fn read(path: &Path) -> Self {
        let mut text = String::new();
        let read =
            std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        if let Err(error) = read
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "ids of user namespaces count as users of their own");
        }
        let mut ranges: Vec<_> = text.lines().filter_map(range).collect();
        ranges.sort_unstable();
        Self(ranges)
    }

    /// The id that stands for a user.
    pub fn of(&self, uid: u32) -> u32 {
        let before = self.0.partition_point(|(first, _)| *first <= uid);
        match before.checked_sub(1).map(|at| self.0[at]) {
            Some((first, count)) if uid - first < count => first,
            _ => uid,
        }
    }
}

fn range(line: &str) -> Option<(u32, u32)> {
    let mut fields = line.trim().split(':').skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_range_are_one_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("subuid");
        assert_eq!(Accounts::read(&path).of(1000), 1000);
        std::fs::write(
            &path,
            "bob:165536:65536\n# no range\nalice:100000:65536\n1003:4000000000:100000000\n",
        )
        .unwrap();
        let accounts = Accounts::read(&path);
        let of = [1000, 99_999, 100_000, 165_535, 165_536, 231_071, 231_072, 4_000_000_007];
        let whose = [1000, 99_999, 100_000, 100_000, 165_536, 165_536, 231_072, 4_000_000_000];
        assert_eq!(of.map(|uid| accounts.of(uid)), whose);
    }
}
