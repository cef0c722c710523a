//! What there is, by surveys: records of GPUs, partitions and links, and the mark that ends what they lack. Pure.

use throughline_sample::wire;

use super::{Converter, lost_event, remote_type_name};
use crate::frame::{FabricSurvey, GpuSurvey, LinkSurvey, PartSurvey, Survey};

/// What there is as records.
#[derive(Debug, Default, PartialEq)]
pub struct Inventory {
    /// GPUs that answer, each with its partitions.
    pub gpus: Vec<wire::GpuInfo>,
    /// Their links.
    pub links: Vec<wire::GpuLinkInfo>,
    /// That this is all; `None` before the first survey.
    pub mark: Option<wire::GpuSurveyMark>,
}

impl Inventory {
    /// Puts it into a batch.
    pub fn into_batch(self, batch: &mut wire::Batch) {
        (batch.gpus, batch.gpu_link_infos) = (self.gpus, self.links);
        batch.gpu_survey_marks = self.mark.into_iter().collect();
    }
}

impl Converter {
    /// Takes a survey in; true if it differs from the last one. A GPU that it lacks is gone, but for one that lists GPUs which
    /// give no identity: then it may be one of those, and is lost.
    pub fn survey(&mut self, survey: &Survey) -> bool {
        let survey = self.with_unread_parts(survey);
        if self.survey.as_ref() == Some(&survey) {
            return false;
        }
        let is_here = |uuid: &str| survey.gpus.iter().any(|found| found.uuid == uuid);
        let before = self.survey.take().map(|before| before.gpus).unwrap_or_default();
        if survey.unreadable > 0 {
            for missing in before.into_iter().filter(|gpu| !is_here(&gpu.uuid)) {
                if self.lost.insert(missing.uuid.clone(), missing.clone()).is_none() {
                    self.unreported.push(missing);
                }
            }
        } else {
            self.lost.retain(|uuid, _| is_here(uuid));
            self.unreported.retain(|gpu| is_here(&gpu.uuid));
        }
        self.gpus.retain(|uuid, _| is_here(uuid));
        self.survey = Some(survey);
        true
    }

    /// The survey with the partitions that are known in the place of those that could not be read.
    fn with_unread_parts(&self, survey: &Survey) -> Survey {
        let mut survey = survey.clone();
        for gpu in survey.gpus.iter_mut().filter(|gpu| gpu.has_unread_parts) {
            let known =
                self.survey.iter().flat_map(|before| &before.gpus).find(|known| known.uuid == gpu.uuid);
            for part in known.map(|known| known.parts.as_slice()).unwrap_or_default() {
                if !gpu.parts.iter().any(|read| read.uuid == part.uuid) {
                    gpu.parts.push(part.clone());
                }
            }
        }
        survey
    }

    /// Whether the last survey found no GPU at all.
    #[must_use]
    pub fn has_no_gpu(&self) -> bool {
        self.survey.as_ref().is_some_and(|survey| survey.gpus.is_empty())
    }

    /// The records of what there is, from the last survey.
    #[must_use]
    pub fn inventory(&self, time: i64) -> Inventory {
        let Some(survey) = &self.survey else { return Inventory::default() };
        let parts =
            |gpu: &'_ GpuSurvey| gpu.parts.iter().map(|part| part_info(gpu, part)).collect::<Vec<_>>();
        let here = || survey.gpus.iter().filter(|gpu| !self.lost.contains_key(&gpu.uuid));
        let gpus = here().flat_map(|gpu| std::iter::once(gpu_info(gpu)).chain(parts(gpu))).collect();
        let links = here().flat_map(|gpu| gpu.links.iter().map(|link| link_info(survey, gpu, link)));
        let unlisted = self.lost.keys().filter(|lost| !survey.gpus.iter().any(|gpu| gpu.uuid == **lost));
        let mark = wire::GpuSurveyMark {
            time,
            source: String::new(),
            gpus: here().flat_map(surveyed).collect(),
            lost: self.lost.keys().cloned().collect(),
            unidentified: survey
                .unreadable
                .saturating_sub(u32::try_from(unlisted.count()).unwrap_or(u32::MAX)),
        };
        let mut batch = wire::Batch { gpus, gpu_survey_marks: vec![mark], ..wire::Batch::default() };
        self.sign(&mut batch);
        Inventory { gpus: batch.gpus, links: links.collect(), mark: batch.gpu_survey_marks.pop() }
    }

    /// The inventory where there is no GPU to poll, with the events of those that were lost by that.
    #[must_use]
    pub fn nothing_here(&mut self, time: i64) -> wire::Batch {
        let mut batch = wire::Batch::default();
        self.inventory(time).into_batch(&mut batch);
        let lost = std::mem::take(&mut self.unreported);
        batch.events = lost.iter().map(|gpu| lost_event(gpu, time, UNIDENTIFIED)).collect();
        self.sign(&mut batch);
        batch
    }
}

/// What became of a GPU that is listed still, and gives no UUID.
pub(super) const UNIDENTIFIED: &str = "gives no identity any more";

/// A GPU and its partitions in a mark.
fn surveyed(gpu: &GpuSurvey) -> impl Iterator<Item = wire::SurveyedGpu> + '_ {
    let own = wire::SurveyedGpu {
        uuid: gpu.uuid.clone(),
        links: gpu.links.iter().map(|link| link.link).collect(),
        has_unread_parts: gpu.has_unread_parts,
    };
    let parts = gpu.parts.iter();
    let parts =
        parts.map(|part| wire::SurveyedGpu { uuid: part.uuid.clone(), ..wire::SurveyedGpu::default() });
    std::iter::once(own).chain(parts)
}

fn gpu_info(gpu: &GpuSurvey) -> wire::GpuInfo {
    let (state, domain) = gpu.fabric.as_ref().map_or(("", None), fabric_of);
    wire::GpuInfo {
        fabric_state: state.to_owned(),
        fabric_cluster_uuid: domain.as_ref().map_or_else(String::new, |(cluster, _)| cluster.clone()),
        fabric_clique_id: domain.map(|(_, clique)| clique),
        pcie_bytes_per_second: gpu.pcie_bytes_per_second,
        uuid: gpu.uuid.clone(),
        index: gpu.index,
        name: gpu.name.clone(),
        pci_bus_id: gpu.pci_bus_id.clone(),
        source: String::new(),
        link_count: u32::try_from(gpu.links.len()).unwrap_or(u32::MAX),
        ..wire::GpuInfo::default()
    }
}

/// The word for the state of a registration, and the NVLink domain (cluster and clique) where it has one: not before it is completed,
/// and none in a fabric of the node's own, whose cluster has no UUID.
fn fabric_of(fabric: &FabricSurvey) -> (&'static str, Option<(String, u32)>) {
    match (fabric.state, fabric.status) {
        (1, _) => ("not_started", None),
        (2, _) => ("in_progress", None),
        (3, 0) => {
            let cluster = uuid_text(&fabric.cluster_uuid);
            ("completed", cluster.map(|cluster| (cluster, fabric.clique_id)))
        }
        (3, _) => ("failed", None),
        _ => ("unknown", None),
    }
}

/// A UUID as text; `None` where all of it is 0.
fn uuid_text(bytes: &[u8]) -> Option<String> {
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let (a, b, c, d, e) = (&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]);
    (bytes != [0; 16]).then(|| format!("{a}-{b}-{c}-{d}-{e}"))
}

/// A partition, as a device of its own under its GPU. It has no links: the GPU's are off while it is partitioned.
fn part_info(gpu: &GpuSurvey, part: &PartSurvey) -> wire::GpuInfo {
    wire::GpuInfo {
        uuid: part.uuid.clone(),
        index: part.index,
        name: part.name.clone(),
        pci_bus_id: gpu.pci_bus_id.clone(),
        source: String::new(),
        parent_uuid: gpu.uuid.clone(),
        ..wire::GpuInfo::default()
    }
}

fn link_info(survey: &Survey, gpu: &GpuSurvey, link: &LinkSurvey) -> wire::GpuLinkInfo {
    let remote_pci = link.remote_pci_bus_id.clone().unwrap_or_default();
    let remote = survey.gpus.iter().find(|other| !remote_pci.is_empty() && other.pci_bus_id == remote_pci);
    wire::GpuLinkInfo {
        gpu_uuid: gpu.uuid.clone(),
        link: link.link,
        active: link.active,
        version: link.version,
        speed_bytes_per_second: link.speed_megabytes_per_second.map(|speed| speed.saturating_mul(1_000_000)),
        remote_type: remote_type_name(link.remote_type).to_owned(),
        remote_gpu_uuid: remote.map(|gpu| gpu.uuid.clone()).unwrap_or_default(),
        remote_pci_bus_id: remote_pci,
        remote_link: link.remote_link,
    }
}
