//! What traffic passes: links by direction, and the ways between host ports.

/// One direction of a link: an index into what ports counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link(pub u32);

/// A part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStage {
    /// Exactly this link: static routing.
    One(Link),
    /// Any of these, in unknown parts: adaptive routing, several LIDs (LMC), or a table that is not known.
    AnyOf(Vec<Link>),
}

impl PathStage {
    /// The links that the stage may use.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        match self {
            Self::One(link) => std::slice::from_ref(link),
            Self::AnyOf(links) => links,
        }
    }
}

/// The links from one host port to another, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<PathStage>);

impl Path {
    /// A way of static routing.
    #[must_use]
    pub fn fixed(links: impl IntoIterator<Item = Link>) -> Self {
        Self(links.into_iter().map(PathStage::One).collect())
    }
}

/// A host's port: the link by which it sends and the one by which it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// From the host into the fabric.
    pub transmit: Link,
    /// From the fabric to the host.
    pub receive: Link,
}

/// Ways through the fabric.
pub trait Routes {
    /// All host ports; a port is named by its index.
    fn ports(&self) -> &[HostPort];

    /// The way from one port to another; `None` where none is known.
    fn path(&self, from: usize, to: usize) -> Option<Path>;

    /// All ports of the host that this one belongs to. A flow from or to it may go by any of them, in unknown parts. Empty
    /// where the port is the only one.
    fn rails(&self, port: usize) -> &[usize] {
        let _ = port;
        &[]
    }
}
