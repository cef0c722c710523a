//! Values of the configuration that check themselves while they are read, so that an error names the line.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Longest name of a node: that of a DNS name.
const NAME_BYTES: usize = 253;

/// Longest name of a performance variable: MPI libraries use fewer than 100 letters.
const VARIABLE_BYTES: usize = 256;

/// Reads a text and lets its type check it.
macro_rules! checked_text {
    ($type:ident) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(&text).map_err(de::Error::custom)
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

/// The name of a node: letters, digits, dot, dash and underscore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Checks a name.
    pub fn new(text: &str) -> Result<Self, String> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if text.is_empty() || text.len() > NAME_BYTES || !text.bytes().all(allowed) {
            return Err(format!(
                "'{text}' is no node name: expected 1 to {NAME_BYTES} letters, digits, dots, dashes or underscores"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
checked_text!(Name);

/// Permissions of a socket, written as in chmod: "0660".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl SocketMode {
    /// Reads octal digits.
    pub fn new(text: &str) -> Result<Self, String> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600);
        mode.map(Self).ok_or_else(|| {
            format!("'{text}' is no socket mode: expected octal digits that let the owner in, for instance \"0666\"")
        })
    }
}

impl Default for SocketMode {
    fn default() -> Self {
        Self(0o666)
    }
}

impl fmt::Display for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}
checked_text!(SocketMode);

/// The name of an MPI_T performance variable, as MPI libraries form them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableName(String);

impl VariableName {
    /// Checks a name: names travel divided by commas.
    pub fn new(text: &str) -> Result<Self, String> {
        let allowed = |b: u8| b.is_ascii_graphic() && b != b',';
        if text.is_empty() || text.len() > VARIABLE_BYTES || !text.bytes().all(allowed) {
            return Err(format!("'{text}' is no name of a performance variable"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for VariableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
checked_text!(VariableName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["n1", "node-17.cluster.example", "a_b", &"x".repeat(253)] {
            assert_eq!(Name::new(good).unwrap().to_string(), good);
        }
        for bad in ["", "a b", "knoten-ä", "a/b", &"x".repeat(254)] {
            assert!(Name::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn socket_modes() {
        assert_eq!(SocketMode::new("0660"), Ok(SocketMode(0o660)));
        assert_eq!(SocketMode::new("666").unwrap().to_string(), "0666");
        for bad in ["", "8", "0", "1777", "-1", "rw"] {
            assert!(SocketMode::new(bad).is_err(), "{bad}");
        }
    }
}
