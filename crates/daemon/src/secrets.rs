//! Configuration as text for people: without what is secret in it.

use std::borrow::Cow;

/// The text that replaces a secret.
const HIDDEN: &str = "***";

/// Keys of connection strings whose values are secret.
const SECRET_KEYS: [&str; 2] = ["password", "sslpassword"];

/// A text that may hold connection strings (a URL, `KEY=VALUE` pairs, a line of a configuration), without their passwords.
#[must_use]
pub fn hide_secrets(text: &str) -> Cow<'_, str> {
    let mut shown = Cow::Borrowed(text);
    let mut from = 0;
    while let Some(found) = shown[from..].find("://") {
        let start = from + found + 3;
        // What comes before the host ends at the last `@` before a slash, a question mark, a blank or a quote.
        let end = shown[start..].find(|c: char| matches!(c, '/' | '?' | '"' | '\'') || c.is_whitespace());
        let authority = &shown[start..end.map_or(shown.len(), |end| start + end)];
        from = start;
        if let Some((login, _)) = authority.rsplit_once('@')
            && let Some((user, _)) = login.split_once(':')
        {
            let range = start + user.len() + 1..start + login.len();
            shown.to_mut().replace_range(range, HIDDEN);
        }
    }
    for key in SECRET_KEYS {
        hide_values(&mut shown, key);
    }
    shown
}

/// Values behind `key=`, also with blanks around the equals sign, and in quotes.
fn hide_values(text: &mut Cow<'_, str>, key: &str) {
    let mut from = 0;
    while let Some(found) = text[from..].to_ascii_lowercase().find(key) {
        let behind = from + found + key.len();
        from = behind;
        let blanks = |at: usize| at + (text[at..].len() - text[at..].trim_start().len());
        let equals = blanks(behind);
        if !text[equals..].starts_with('=') {
            continue;
        }
        let start = blanks(equals + 1);
        let value = &text[start..];
        let length = match value.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            Some(quote) => quoted_length(value, quote),
            None => {
                let end = value.find(|c: char| matches!(c, '&' | '"' | '\'') || c.is_whitespace());
                end.unwrap_or(value.len())
            }
        };
        text.to_mut().replace_range(start..start + length, HIDDEN);
        from = start + HIDDEN.len();
    }
}

/// Up to the closing quote, over those behind a backslash; all of it where there is none.
fn quoted_length(value: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in value.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    value.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_wherever_they_stand() {
        for (text, shown) in [
            ("postgresql://me:s3cret@db/x", "postgresql://me:***@db/x"),
            (
                "postgresql://me:s@cr@t@db:5432/x?sslmode=require",
                "postgresql://me:***@db:5432/x?sslmode=require",
            ),
            ("url = \"postgresql://me:s3cret@db/x\" # a", "url = \"postgresql://me:***@db/x\" # a"),
            ("host=db password=s3cret user=me", "host=db password=*** user=me"),
            ("host=db PASSWORD = 's 3\\'c' user=me", "host=db PASSWORD = *** user=me"),
            ("postgresql://db/x?user=me&password=s3cret&a=b", "postgresql://db/x?user=me&password=***&a=b"),
            ("sslpassword=one password=two", "sslpassword=*** password=***"),
            ("https://collector:9463", "https://collector:9463"),
            ("postgresql://me@db/x", "postgresql://me@db/x"),
            ("password", "password"),
            ("password=", "password=***"),
        ] {
            assert_eq!(hide_secrets(text), shown);
        }
    }
}
