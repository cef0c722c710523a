//! Templates of Grafana's annotations, as much of them as the rules of this repository use. Anything else is an error,
//! so that no text passes that was not understood.

use crate::states::Instance;

/// The text with each `{{ … }}` filled in.
///
/// # Errors
/// What is not known.
pub fn expanded(text: &str, of: &Instance) -> Result<String, String> {
    const JOBS: &str = "{{ with .Values.J }}{{ .Labels.jobs }}{{ else }}none{{ end }}";
    let jobs = of.more.as_ref().and_then(|labels| labels.get("jobs")).map_or("none", String::as_str);
    const CONTRIBUTORS: &str =
        "{{ with .Values.J }}{{ .Labels.contributors }}{{ else }}contributors not known{{ end }}";
    let contributors = of
        .more
        .as_ref()
        .and_then(|labels| labels.get("contributors"))
        .map_or("contributors not known", String::as_str);
    let text = text.replace(JOBS, jobs).replace(CONTRIBUTORS, contributors);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("{{") {
        let (action, behind) = after.split_once("}}").ok_or_else(|| format!("'{after}' has no end"))?;
        out.push_str(before);
        out.push_str(&value(action.trim(), of)?);
        rest = behind;
    }
    Ok(out + rest)
}

fn value(action: &str, of: &Instance) -> Result<String, String> {
    if let Some(label) = action.strip_prefix(".Labels.") {
        return of.labels.get(label).cloned().ok_or_else(|| format!("there is no label {label}"));
    }
    let number = of.value;
    match action {
        "humanizePercentage .Values.B.Value" => Ok(format!("{}%", four_digits(number * 100.0))),
        "printf \"%.0f\" .Values.B.Value" => Ok(format!("{number:.0}")),
        "printf \"%.1e\" .Values.B.Value" => Ok(exponent(number)),
        "humanizeDuration .Values.B.Value" => Ok(length(number)),
        "humanize1024 .Values.B.Value" => Ok(binary(number)),
        other => Err(format!("'{other}' is not known here")),
    }
}

/// `%.4g` of numbers that people read.
fn four_digits(value: f64) -> String {
    let whole = value.abs().max(1.0).log10().floor();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 3
    let text = format!("{value:.*}", (3.0 - whole).clamp(0.0, 3.0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Go writes at least two digits of an exponent, with its sign.
fn exponent(value: f64) -> String {
    let text = format!("{value:.1e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = power.strip_prefix('-').map_or(('+', power), |power| ('-', power));
    format!("{digits}e{sign}{power:0>2}")
}

/// Prometheus' humanizeDuration of a second and more.
fn length(value: f64) -> String {
    #[allow(clippy::cast_possible_truncation)] // as Prometheus does
    let seconds = value as i64;
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{}s", four_digits(value)),
        (0, 0, _) => format!("{minutes}m {rest}s"),
        (0, ..) => format!("{hours}h {minutes}m {rest}s"),
        _ => format!("{days}d {hours}h {minutes}m {rest}s"),
    }
}

fn binary(value: f64) -> String {
    let mut value = value;
    for unit in ["", "ki", "Mi", "Gi", "Ti", "Pi"] {
        if value.abs() < 1024.0 {
            return format!("{}{unit}", four_digits(value));
        }
        value /= 1024.0;
    }
    format!("{}Ei", four_digits(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::Labels;

    #[test]
    fn values_are_written_as_by_go() {
        let of = |value| Instance {
            labels: Labels::from([("port".to_owned(), "5".to_owned())]),
            value,
            more: Some(Labels::from([("jobs".to_owned(), "slurm:1, slurm:2".to_owned())])),
        };
        for (template, number, text) in [
            ("port {{ .Labels.port }}", 0.0, "port 5"),
            ("{{ with .Values.J }}{{ .Labels.jobs }}{{ else }}none{{ end }}", 0.0, "slurm:1, slurm:2"),
            ("{{ humanizePercentage .Values.B.Value }}", 0.95, "95%"),
            ("{{ humanizePercentage .Values.B.Value }}", 0.951_234, "95.12%"),
            ("{{ printf \"%.1e\" .Values.B.Value }}", 2.5e-12, "2.5e-12"),
            ("{{ printf \"%.1e\" .Values.B.Value }}", 3e-5, "3.0e-05"),
            ("{{ humanizeDuration .Values.B.Value }}", 240.0, "4m 0s"),
            ("{{ humanize1024 .Values.B.Value }}B", 3.0 * 1024.0 * 1024.0, "3MiB"),
        ] {
            assert_eq!(expanded(template, &of(number)).unwrap(), text, "{template}");
        }
        assert!(expanded("{{ .Labels.node }}", &of(0.0)).unwrap_err().contains("no label node"));
        assert!(expanded("{{ humanise .Values.B.Value }}", &of(0.0)).is_err());
    }
}
