//! What two runs of one program must have in common of their output. Pure.

/// The lines of an output without what differs from run to run, sorted, as ranks print in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    lines: Vec<String>,
}

/// Frames of backtraces that only the objects between program and library have.
const BETWEEN: &[&str] = &["libthroughline", "libmpi-counter"];
/// What Open MPI's launcher says of itself while it ends a job that failed: how many ranks sent which message of help, and
/// now and then an error of its own in place of such a message.
const LAUNCHER: &[&str] =
    &["ORTE_ERROR_LOG", "PMIX ERROR", " sent help message ", "orte_base_help_aggregate", "[warn] Epoll"];
/// What MPICH prints of a failing call's status: the shim's own stands where the program ignores it.
const STATUS: &[&str] = &["status=", "statuses="];

impl Shown {
    /// Of the text that a run in `folder` printed.
    pub fn of(text: &str, folder: &str) -> Self {
        let text = text.replace(folder, ".");
        let mut lines: Vec<_> = text
            .lines()
            .filter(|line| !BETWEEN.iter().chain(LAUNCHER).any(|name| line.contains(name)))
            .map(plain)
            .filter(|line| !line.is_empty())
            .collect();
        lines.sort();
        Self { lines }
    }

    /// Whether another run printed the same, if only with lines of several ranks mixed up.
    pub fn is_same(&self, other: &Self) -> bool {
        self.lines == other.lines || self.letters() == other.letters()
    }

    /// Lines of this that none of the others has.
    pub fn beyond(&self, others: &[&Self]) -> Vec<String> {
        let is_new = |line: &&String| others.iter().all(|other| other.lines.binary_search(line).is_err());
        self.lines.iter().filter(is_new).cloned().collect()
    }

    /// How another run differs, for people: the first line that it has more often or less often.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let times = |lines: &[String], line: &str| lines.iter().filter(|one| *one == line).count();
        let differs = |line: &&String| times(&self.lines, line) != times(&other.lines, line);
        let line = other.lines.iter().chain(&self.lines).find(differs)?;
        Some(format!("{line:?} {} times instead of {}", times(&other.lines, line), times(&self.lines, line)))
    }

    fn letters(&self) -> Vec<char> {
        let mut letters: Vec<_> = self
            .lines
            .iter()
            .flat_map(|line| line.chars())
            .filter(|c| *c != '#' && !c.is_whitespace())
            .collect();
        letters.sort_unstable();
        letters
    }
}

/// A line with each number and address as `#` and each run of blanks as one.
fn plain(line: &str) -> String {
    let mut line = line.to_owned();
    for name in STATUS {
        let mut from = 0;
        while let Some(at) = line[from..].find(name).map(|at| from + at + name.len()) {
            let end = line[at..].find([',', ')']).map_or(line.len(), |end| at + end);
            line.replace_range(at..end, "#");
            from = at;
        }
    }
    let mut kept = String::with_capacity(line.len());
    let mut rest = line.as_str();
    while let Some(first) = rest.chars().next() {
        let length = number(rest);
        if length > 0 {
            kept.push('#');
            rest = &rest[length..];
            continue;
        }
        if !first.is_whitespace() {
            kept.push(first);
        } else if !kept.ends_with(' ') {
            kept.push(' ');
        }
        rest = &rest[first.len_utf8()..];
    }
    kept.trim().to_owned()
}

/// Length of the number that a text begins with: hexadecimal behind 0x, or decimal with fraction and exponent.
fn number(text: &str) -> usize {
    let count = |text: &str, is_part: fn(&u8) -> bool| text.bytes().take_while(is_part).count();
    if let Some(rest) = text.strip_prefix("0x") {
        return 2 + count(rest, u8::is_ascii_hexdigit);
    }
    let mut length = count(text, u8::is_ascii_digit);
    if length == 0 {
        return 0;
    }
    if text[length..].starts_with('.') {
        length += 1 + count(&text[length + 1..], u8::is_ascii_digit);
    }
    if let Some(rest) = text[length..].strip_prefix(['e', 'E']) {
        let sign = usize::from(rest.starts_with(['+', '-']));
        let digits = count(&rest[sign..], u8::is_ascii_digit);
        length += if digits > 0 { 1 + sign + digits } else { 0 };
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Shown {
        Shown::of(text, "/tmp/run1")
    }

    #[test]
    fn numbers_addresses_order_and_folders_do_not_count() {
        let one = shown("rank 1:  0.25 s\nat 0x7f3a /tmp/run1/x\nMPI_Recv(buf=0x1, status=0x7ffe) failed\n");
        let other =
            shown("at 0xdead ./x\nMPI_Recv(buf=0x2, status=MPI_STATUS_IGNORE) failed\nrank 12: 1e-05 s\n");
        assert!(one.is_same(&other) && one.difference(&other).is_none());
        assert!(!one.is_same(&shown("rank 1: 0.25 m\n")));
    }

    #[test]
    fn mixed_up_lines_are_the_same_and_missing_ones_are_not() {
        let one = shown("test a ... ok\ntest b ... ok\n");
        assert!(one.is_same(&shown("test a ... test b ... ok\nok\n")));
        let less = shown("test a ... ok\n");
        assert!(!one.is_same(&less));
        assert_eq!(one.difference(&less).unwrap(), "\"test b ... ok\" 0 times instead of 1");
        assert!(less.beyond(&[&one]).is_empty());
        assert_eq!(one.beyond(&[&less]), ["test b ... ok"]);
    }
}
