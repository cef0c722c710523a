//! Groups of hosts by patterns of their names: file systems, gateways. Pure.

/// Named groups of hosts, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups(Vec<(String, Vec<String>)>);

impl Groups {
    /// Names and patterns of host names: `*` stands for any characters, `?` for one.
    #[must_use]
    pub fn new(groups: impl IntoIterator<Item = (String, Vec<String>)>) -> Groups {
        Groups(groups.into_iter().collect())
    }

    /// The first group with a pattern that fits a host.
    #[must_use]
    pub fn of(&self, host: &str) -> Option<&str> {
        let fits = |patterns: &Vec<String>| patterns.iter().any(|pattern| fits(pattern, host));
        self.0.iter().find(|(_, patterns)| fits(patterns)).map(|(name, _)| name.as_str())
    }
}

/// Whether a pattern fits a whole name. The last `*` is tried with more and more characters: no name takes longer than its
/// length times the pattern's.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (p, n) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, is_fitting) in [
            ("oss*", "oss01", true),
            ("oss*", "xoss01", false),
            ("oss??", "oss01", true),
            ("oss??", "oss001", false),
            ("*gw*-ib", "lnet-gw7-ib", true),
            ("*gw*-ib", "lnet-gw7-eth", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*a*a*a*b", &"a".repeat(5000), false),
        ] {
            assert_eq!(fits(pattern, name), is_fitting, "{pattern} {name:.20}");
        }
        let groups = Groups::new([
            ("lustre".to_owned(), vec!["oss*".to_owned(), "mds*".to_owned()]),
            ("storage".to_owned(), vec!["*s*".to_owned()]),
        ]);
        assert_eq!(
            [groups.of("mds1"), groups.of("nfs1"), groups.of("n1")],
            [Some("lustre"), Some("storage"), None]
        );
    }
}
