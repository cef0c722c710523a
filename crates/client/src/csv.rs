//! Text as a field of comma-separated values, for programs and for spreadsheets.

/// What a spreadsheet takes for the beginning of a formula. Names of regions, algorithms and hosts are what users chose.
const FORMULA_STARTS: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\n'];

/// A text as a field by RFC 4180. One that a spreadsheet would take for a formula gets an apostrophe before it, as OWASP
/// recommends; numbers are not texts and do not come here.
pub fn text_field(text: &str) -> String {
    let apostrophe = if text.starts_with(FORMULA_STARTS) { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{apostrophe}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{apostrophe}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(text_field("solve, part \"2\""), "\"solve, part \"\"2\"\"\"");
        assert_eq!((text_field("a b"), text_field("")), ("a b".to_owned(), String::new()));
    }

    #[test]
    fn attack_28_no_text_is_a_formula() {
        let link = text_field("=HYPERLINK(\"http://evil\",\"x\")");
        assert_eq!(link, "\"'=HYPERLINK(\"\"http://evil\"\",\"\"x\"\")\"");
        for start in FORMULA_STARTS {
            let field = text_field(&format!("{start}1+1"));
            assert!(field.trim_start_matches('"').starts_with('\''), "{field:?}");
        }
        assert_eq!(text_field("a=1"), "a=1", "within a text nothing begins");
    }
}
