//! What `gpu doctor` says of GPUs that NVML reads: each refusal with its code and what to do about that.

use super::{Finding, Grade, finding};
use crate::config::Config;
use std::collections::BTreeMap;
use throughline_gpu::SourceStatus;
use throughline_gpu::code::Code;
use throughline_gpu::convert::SOURCE_GPM;
use throughline_gpu::frame::Refusal;
use throughline_gpu::place::places;
use throughline_sample::wire::Batch;

/// Most functions that are named of those that a library lacks.
const NAMES_MAX: usize = 8;

/// What is read and what not: by the first reading, which has what there is, and the newest, which has values.
pub fn findings(config: &Config, status: &SourceStatus, first: &Batch, newest: &Batch) -> Vec<Finding> {
    let known = |version: &Option<String>| version.clone().unwrap_or_else(|| "of unknown version".to_owned());
    let (driver, library) = (known(&status.driver_version), known(&status.library_version));
    let text = format!("driver {driver}, NVML {library}, {} GPUs", status.gpus);
    let mut findings = vec![finding("library", "nvml", Grade::Good, text)];
    findings.extend(missing(&status.missing_functions));
    findings.extend(refusals(&status.refusals));
    findings.extend(links("nvml", first, &status.refusals));
    findings.push(pcie(config, status, newest));
    findings.extend(xids(&status.xids));
    findings.extend(absent(newest));
    let here = places(&config.sysfs.root, first.gpus.iter().map(|gpu| gpu.pci_bus_id.as_str()));
    findings.push(match (here.gpus.len(), here.adapters.len()) {
        (0, _) => finding("place on the node", "sysfs", Grade::Absent, "sysfs does not show these GPUs")
            .remedy("in a container, mount the host's /sys and set sysfs.root"),
        (gpus, adapters) => finding(
            "place on the node",
            "sysfs",
            Grade::Good,
            format!("{gpus} GPUs, {adapters} InfiniBand adapters"),
        ),
    });
    findings
}

/// Whether the processes on GPUs are listed.
pub fn processes(listed: Result<usize, &'static str>) -> Finding {
    let what = "processes on GPUs";
    match listed {
        Ok(count) => finding(what, "nvml", Grade::Good, format!("listed, {count} now")),
        Err(reason) => {
            let remedy = match Code::of_reason(reason) {
                Some(Code::NO_PERMISSION) => {
                    "run the agent as root: the driver shows other users' processes to root only"
                }
                Some(code) => code.remedy(),
                None => "they were not listed in time: try again",
            };
            finding(what, "nvml", Grade::Bad, format!("not listed: {reason}")).remedy(remedy)
        }
    }
}

/// Functions that this library lacks: their purpose is left out.
fn missing(functions: &[String]) -> Option<Finding> {
    if functions.is_empty() {
        return None;
    }
    let shown = functions.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = functions.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let text = format!("this library lacks {shown}{more}: their purpose is left out");
    let remedy = "an older driver does; in a container, mount the driver's own library";
    Some(finding("functions", "nvml", Grade::Absent, text).remedy(remedy))
}

/// What the driver refused to answer, by call and code.
fn refusals(refusals: &[Refusal]) -> Vec<Finding> {
    let mut by_call: BTreeMap<(&str, u32), Vec<String>> = BTreeMap::new();
    for one in refusals {
        by_call.entry((&one.call, one.code)).or_default().push(one.index.to_string());
    }
    let each = by_call.into_iter().map(|((call, code), gpus)| {
        let identifies = call.contains("HandleByIndex") || call.contains("GetUUID");
        let what = match call {
            _ if identifies => "GPUs",
            call if call.contains("NvLink") => "links",
            call if call.contains("Mig") => "partitions",
            _ => "values",
        };
        let which = match gpus.as_slice() {
            [one] => format!("GPU {one}"),
            several => format!("GPUs {}", several.join(", ")),
        };
        let cost = if identifies { " can't be read:" } else { ":" };
        let text = format!("{which}{cost} {call} answers {}", Code(code));
        finding(what, "nvml", Grade::Bad, text).remedy(Code(code).remedy())
    });
    each.collect()
}

/// How many links there are, whether all are up, and whether their speed is known.
pub fn links(source: &'static str, batch: &Batch, refusals: &[Refusal]) -> Vec<Finding> {
    let infos = &batch.gpu_link_infos;
    let active = infos.iter().filter(|link| link.active).count();
    let slow = infos.iter().filter(|link| link.active && link.speed_bytes_per_second.is_none()).count();
    let is_open = refusals.iter().any(|one| one.call == "nvmlDeviceGetNvLinkState");
    let state = match (infos.len(), active) {
        (0, _) if is_open => {
            finding("links", source, Grade::Bad, "not known: the driver refuses their state")
                .remedy("see the refusal above")
        }
        (0, _) => finding("links", source, Grade::Absent, "these GPUs have no links to other devices"),
        (all, active) if all == active && is_open => finding(
            "links",
            source,
            Grade::Bad,
            format!("{all} up, and there may be more: some states are refused"),
        )
        .remedy("see the refusal above"),
        (all, active) if all == active => finding("links", source, Grade::Good, format!("{all}, all up")),
        (all, active) => {
            finding("links", source, Grade::Bad, format!("{all}, {} of them down", all - active))
                .remedy("see `throughline-agent gpu topo --physical`; partitioned GPUs have their links off")
        }
    };
    let speed = (slow > 0).then(|| {
        let text = format!("{slow} of {active} links that are up report no speed");
        finding("speed of links", source, Grade::Bad, text).remedy(
            "their bytes are read; their utilisation is not known, and the alert NvlinkSaturated can't fire for them: \
             see `nvidia-smi nvlink -s`",
        )
    });
    std::iter::once(state).chain(speed).collect()
}

/// By which way PCIe bytes come, of how many GPUs, and why not of the others.
fn pcie(config: &Config, status: &SourceStatus, batch: &Batch) -> Finding {
    let what = "PCIe bytes";
    let read = u32::try_from(batch.gpu_pcie.len()).unwrap_or(u32::MAX);
    let by_gpm = batch.gpu_pcie.iter().any(|sample| sample.source == SOURCE_GPM);
    let source = if by_gpm { "nvml_gpm" } else { "nvml" };
    if read > 0 && read >= status.gpus {
        return finding(what, source, Grade::Good, format!("of {read} GPUs"));
    }
    let why = why_no_gpm(config, status);
    if read > 0 {
        let text = format!("of {read} of {} GPUs; of the others not: {}", status.gpus, why.0);
        return finding(what, source, Grade::Bad, text).remedy(why.1);
    }
    let is_narrow =
        batch.coverage.iter().any(|coverage| coverage.reasons.contains_key("pcie_counter_too_narrow"));
    if is_narrow && !config.nvml.unfold_pcie {
        let text = format!("left out: the counters have 32 bits and wrap within a second, and {}", why.0);
        let is_refused = status.gpm.keys().any(|code| *code != 0 && !Code(*code).is_absence());
        let grade = if is_refused { Grade::Bad } else { Grade::Absent };
        return finding(what, "nvml", grade, text).remedy(why.1);
    }
    finding(what, "nvml", Grade::Bad, format!("not one GPU gives them: {}", why.0)).remedy(why.1)
}

/// Why GPM does not give PCIe bytes, and what to do.
fn why_no_gpm(config: &Config, status: &SourceStatus) -> (String, &'static str) {
    let unfold = "set nvml.unfold_pcie = true";
    if config.nvml.unfold_pcie {
        return ("their counters do not answer".to_owned(), "see the values that are absent");
    }
    if !config.nvml.gpm {
        let remedy = "remove nvml.gpm = false on Hopper and later, else set nvml.unfold_pcie = true";
        return ("GPM is switched off".to_owned(), remedy);
    }
    match status.gpm.keys().map(|code| Code(*code)).find(|code| *code != Code::SUCCESS) {
        Some(Code::NOT_SUPPORTED) => ("these GPUs have no GPM (Hopper and later have it)".to_owned(), unfold),
        Some(Code::FUNCTION_NOT_FOUND) => {
            let remedy = "a driver of Hopper's time or later has them; else set nvml.unfold_pcie = true";
            ("the driver's library has no functions of GPM".to_owned(), remedy)
        }
        Some(code) => (format!("GPM answers {code}"), code.remedy()),
        None => ("GPM is there and gives no value".to_owned(), "see the values that are absent"),
    }
}

/// Whether the driver reports the GPUs' faults.
fn xids(codes: &BTreeMap<u32, u32>) -> Vec<Finding> {
    let each = codes.iter().map(|(code, gpus)| match Code(*code) {
        Code::SUCCESS => finding("Xid events", "nvml", Grade::Good, format!("of {gpus} GPUs")),
        code => {
            let grade = if code.is_absence() { Grade::Absent } else { Grade::Bad };
            finding("Xid events", "nvml", grade, format!("of {gpus} GPUs not: {code}")).remedy(code.remedy())
        }
    });
    each.collect()
}

/// Values of the last reading that are absent, by reason.
fn absent(batch: &Batch) -> Vec<Finding> {
    let mut findings = Vec::new();
    for coverage in &batch.coverage {
        let mut reasons: Vec<_> = coverage.reasons.iter().collect();
        reasons.sort();
        // These two are reported above.
        let reported = ["link_inactive", "pcie_counter_too_narrow"];
        for (reason, count) in reasons.into_iter().filter(|(reason, _)| !reported.contains(&reason.as_str()))
        {
            let text = format!("{count} of {} values are absent: {reason}", coverage.expected);
            let remedy = match reason.as_str() {
                "not_supported" => {
                    "these GPUs, or this driver, do not have them (with ECC off, some error counters)"
                }
                reason => Code::of_reason(reason).map_or("see nvidia-smi on this node", Code::remedy),
            };
            let grade = if reason == "not_supported" { Grade::Absent } else { Grade::Bad };
            findings.push(finding("values", "nvml", grade, text).remedy(remedy));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use throughline_sample::wire::{Coverage, GpuLinkInfo, GpuPcieSample};

    fn refusal(index: u32, call: &str, code: u32) -> Refusal {
        Refusal { index, call: call.to_owned(), code, values: 1 }
    }

    #[test]
    fn each_refusal_has_its_code_and_its_own_remedy() {
        let all = [
            refusal(1, "nvmlDeviceGetHandleByIndex_v2", 4),
            refusal(3, "nvmlDeviceGetHandleByIndex_v2", 4),
            refusal(2, "nvmlDeviceGetHandleByIndex_v2", 15),
            refusal(0, "nvmlDeviceGetNvLinkState", 999),
        ];
        let said: Vec<(String, String)> = refusals(&all)
            .into_iter()
            .map(|one| (format!("{} {}", one.what, one.text), one.remedy))
            .collect();
        assert_eq!(said.len(), 3);
        assert!(
            said[0].0.starts_with("GPUs GPUs 1, 3 can't be read:") && said[0].1.contains("/dev/nvidia*"),
            "{said:?}"
        );
        assert!(said[1].0.contains("GPU 2 can't be read") && said[1].1.contains("left the bus"), "{said:?}");
        assert!(said[2].0.starts_with("links GPU 0:") && said[2].1.contains("does not say why"), "{said:?}");
    }

    #[test]
    fn links_that_are_refused_are_not_said_to_be_none_and_those_without_speed_are_named() {
        let grades = |batch: &Batch, refused: &[Refusal]| {
            let found = links("nvml", batch, refused).into_iter();
            found.map(|one| (one.grade, one.text)).collect::<Vec<_>>()
        };
        let none = Batch::default();
        assert_eq!(grades(&none, &[])[0].0, Grade::Absent);
        let refused = [refusal(0, "nvmlDeviceGetNvLinkState", 4)];
        assert!(
            grades(&none, &refused)[0].0 == Grade::Bad && grades(&none, &refused)[0].1.contains("not known")
        );
        let link =
            |speed| GpuLinkInfo { active: true, speed_bytes_per_second: speed, ..GpuLinkInfo::default() };
        let two = Batch { gpu_link_infos: vec![link(None), link(Some(5))], ..Batch::default() };
        let said = grades(&two, &[]);
        assert_eq!(said[0], (Grade::Good, "2, all up".to_owned()));
        assert_eq!(said[1], (Grade::Bad, "1 of 2 links that are up report no speed".to_owned()));
        assert_eq!(grades(&two, &refused)[0].0, Grade::Bad, "40 C2C links are not all of GB200's");
    }

    #[test]
    fn pcie_names_the_gpus_that_lack_it_and_why() {
        let config = Config::default();
        let sample = |source: &str| GpuPcieSample { source: source.to_owned(), ..GpuPcieSample::default() };
        let batch = |count: usize| Batch { gpu_pcie: vec![sample(SOURCE_GPM); count], ..Batch::default() };
        let status = |gpm: &[(u32, u32)]| SourceStatus {
            gpus: 4,
            gpm: gpm.iter().copied().collect(),
            ..SourceStatus::default()
        };
        assert_eq!(pcie(&config, &status(&[(0, 4)]), &batch(4)).grade, Grade::Good);
        let some = pcie(&config, &status(&[(0, 1), (3, 3)]), &batch(1));
        assert!(some.grade == Grade::Bad && some.text.contains("of 1 of 4 GPUs"), "{}", some.text);
        let narrow =
            Coverage { reasons: [("pcie_counter_too_narrow".to_owned(), 8)].into(), ..Coverage::default() };
        let narrow = Batch { coverage: vec![narrow], ..Batch::default() };
        let of = |code| pcie(&config, &status(&[(code, 4)]), &narrow);
        assert!(of(3).text.contains("Hopper and later") && of(3).grade == Grade::Absent);
        assert!(of(13).text.contains("no functions of GPM"), "{}", of(13).text);
        assert!(
            of(20).grade == Grade::Bad && of(20).text.contains("NVML error 20 (memory)"),
            "{}",
            of(20).text
        );
        let fails = pcie(&config, &status(&[(0, 4)]), &Batch::default());
        assert!(fails.grade == Grade::Bad && fails.text.contains("gives no value"), "{}", fails.text);
    }

    #[test]
    fn functions_that_are_missing_are_named() {
        let names: Vec<String> = (0..10).map(|number| format!("nvml{number}")).collect();
        assert!(missing(&[]).is_none());
        let said = missing(&names).map(|one| one.text).unwrap_or_default();
        assert!(said.contains("nvml0, nvml1") && said.contains("and 2 more"), "{said}");
    }
}
