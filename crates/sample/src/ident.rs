//! Identifiers with one way to print and to read them.

use std::fmt;
use std::str::FromStr;

/// An InfiniBand 64-bit globally unique identifier, printed as `0x` and 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

/// A text that is no GUID.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a GUID: expected 0x and up to 16 hexadecimal digits, for instance 0x506b4b03005c2740")]
pub struct InvalidGuid(String);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl FromStr for Guid {
    type Err = InvalidGuid;

    /// Reads `0x…` or bare hexadecimal digits, also with the colons of sysfs (`506b:4b03:005c:2740`).
    fn from_str(text: &str) -> Result<Self, InvalidGuid> {
        let invalid = || InvalidGuid(text.to_owned());
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).unwrap_or(digits);
        let digits: String = digits.chars().filter(|c| *c != ':').collect();
        if digits.is_empty() || digits.len() > 16 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        u64::from_str_radix(&digits, 16).map(Guid).map_err(|_| invalid())
    }
}

impl serde::Serialize for Guid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Guid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_sixteen_digits_and_reads_its_own_output() {
        assert_eq!(Guid(0x1).to_string(), "0x0000000000000001");
        assert_eq!("0x0000000000000001".parse(), Ok(Guid(1)));
        assert_eq!("506b:4b03:005c:2740".parse(), Ok(Guid(0x506b_4b03_005c_2740)));
        assert_eq!("FFFFFFFFFFFFFFFF".parse(), Ok(Guid(u64::MAX)));
    }

    #[test]
    fn refuses_what_is_no_guid() {
        for text in ["", "0x", "+1", "0x-1", "12345678901234567", "switch-1"] {
            let error = text.parse::<Guid>().unwrap_err();
            assert!(error.to_string().contains(text));
        }
    }
}
