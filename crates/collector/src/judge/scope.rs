//! What a sender may report at all: a node what is its own, a crawler the fabric.

use throughline_sample::admission::Rejection;
use throughline_sample::wire::*;

/// Whom a batch is from; that it really is, the identity of its stream has shown.
pub(super) enum Scope {
    /// A node, by its name.
    Node(String),
    /// A crawler of the batch's subnet.
    Crawler,
}

impl Scope {
    pub fn of(batch: &Batch) -> Self {
        if batch.node.is_empty() { Scope::Crawler } else { Scope::Node(batch.node.clone()) }
    }

    pub fn check<T: CheckScope>(&self, record: &T) -> Result<(), Rejection> {
        match self {
            Scope::Node(node) => record.of_node(node),
            Scope::Crawler => record.of_crawler(),
        }
    }
}

/// A kind of record, and who may report it.
pub(super) trait CheckScope {
    fn of_node(&self, node: &str) -> Result<(), Rejection>;
    fn of_crawler(&self) -> Result<(), Rejection>;
}

/// Kinds where each record is a node's own, or is judged further by the store.
macro_rules! of_nodes {
    ($($kind:ty),+ $(,)?) => {
        $(impl CheckScope for $kind {
            fn of_node(&self, _: &str) -> Result<(), Rejection> {
                Ok(())
            }
            fn of_crawler(&self) -> Result<(), Rejection> {
                Err(Rejection::Node)
            }
        })+
    };
}

of_nodes!(
    HostPortSample,
    GpuLinksSample,
    GpuPcieSample,
    GpuPmSample,
    GpuMetricsSample,
    MpiRankBin,
    MpiNodeCells,
    MpiRankPeers,
    MpiPvarSample,
    MpiRankRegions,
    MpiNodeTraffic,
    MpiOpenCall,
    MpiRankScheduling,
    MpiSampledCalls,
    MpiRankTrace,
    MpiRankClock,
    GpuInfo,
    GpuLinkInfo,
    GpuSurveyMark,
    Job,
    JobComm,
    JobSetting,
);

/// Kinds of the fabric.
macro_rules! of_crawlers {
    ($($kind:ty),+ $(,)?) => {
        $(impl CheckScope for $kind {
            fn of_node(&self, _: &str) -> Result<(), Rejection> {
                Err(Rejection::Fabric)
            }
            fn of_crawler(&self) -> Result<(), Rejection> {
                Ok(())
            }
        })+
    };
}

of_crawlers!(
    IbPortSample,
    IbPortLanesSample,
    IbNodeInfo,
    IbTopologyMark,
    IbMulticastTable,
    IbMulticastGroup,
    IbMulticastMark,
);

/// Kinds by which each process reports about itself.
macro_rules! of_all {
    ($($kind:ty),+ $(,)?) => {
        $(impl CheckScope for $kind {
            fn of_node(&self, _: &str) -> Result<(), Rejection> {
                Ok(())
            }
            fn of_crawler(&self) -> Result<(), Rejection> {
                Ok(())
            }
        })+
    };
}

of_all!(Coverage, SelfStat);

impl CheckScope for NodeInfo {
    fn of_node(&self, node: &str) -> Result<(), Rejection> {
        if self.name == node { Ok(()) } else { Err(Rejection::Node) }
    }

    fn of_crawler(&self) -> Result<(), Rejection> {
        Err(Rejection::Node)
    }
}

impl CheckScope for JobRank {
    fn of_node(&self, node: &str) -> Result<(), Rejection> {
        if self.host.is_empty() || self.host == node { Ok(()) } else { Err(Rejection::Job) }
    }

    fn of_crawler(&self) -> Result<(), Rejection> {
        Err(Rejection::Node)
    }
}

impl CheckScope for Event {
    /// Of its adapters, GPUs and jobs, which the store knows; never of a cable's other end.
    fn of_node(&self, _: &str) -> Result<(), Rejection> {
        if self.remote_ib_guid == 0 && self.remote_ib_port == 0 { Ok(()) } else { Err(Rejection::Fabric) }
    }

    fn of_crawler(&self) -> Result<(), Rejection> {
        if !self.gpu_uuid.is_empty() {
            Err(Rejection::Gpu)
        } else if !self.job_key.is_empty() {
            Err(Rejection::Job)
        } else {
            Ok(())
        }
    }
}
