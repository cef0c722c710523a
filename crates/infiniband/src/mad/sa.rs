//! Subnet administration as bytes (IBTA volume 1, chapter 15): requests, answers of any length, records, Reports.
//!
//! Pure: no I/O, no clock. An answer is a whole message (56 bytes of headers, then records at a stride that the
//! header names); how segments become one is `rmpp`'s. Facts are from the specification's 15.2 and checked
//! against opensm's `ib_types.h`; decoders take any bytes.

mod notice;
mod records;
pub mod rmpp;

pub use notice::{InformInfo, Notice, Producer, Subject, trap};
pub use records::{
    ForwardingBlock, LinkRecord, McMember, MulticastBlock, NodeRecord, PathRecord, PortInfoRecord,
    SmInfoRecord, SwitchInfoRecord,
};

use super::{BASE_VERSION, METHOD_GET, METHOD_GET_RESP, Mad, be16, be32, be64};

/// Class of subnet administration (13.4.4).
pub const CLASS_ADMINISTRATION: u8 = 0x03;
/// Version of the class (15.2.1).
pub const CLASS_ADMINISTRATION_VERSION: u8 = 2;
/// Bytes of headers before the data: common 24, RMPP 12, SA 20 (15.2.1.1).
pub const HEADER_BYTES: usize = 56;
/// Bytes of data in one MAD (15.2.1.1).
pub const DATA_BYTES: usize = 200;
/// Method Set (13.4.5).
pub const METHOD_SET: u8 = 0x02;
/// Method Report (13.4.5).
pub const METHOD_REPORT: u8 = 0x06;
/// Method ReportResp (13.4.5).
pub const METHOD_REPORT_RESP: u8 = 0x86;
/// Method GetTable (15.2.2).
pub const METHOD_GET_TABLE: u8 = 0x12;
/// Method GetTableResp (15.2.2).
pub const METHOD_GET_TABLE_RESP: u8 = 0x92;
/// Bit of a method that makes it an answer (13.4.5).
const METHOD_RESPONSE: u8 = 0x80;
/// Unit of AttributeOffset (15.2.1.1).
const OFFSET_UNIT_BYTES: usize = 8;

/// Attributes of the class (15.2.5).
pub mod attribute {
    /// Notice (13.4.8.2), the data of a Report.
    pub const NOTICE: u16 = 0x0002;
    /// InformInfo (13.4.8.3).
    pub const INFORM_INFO: u16 = 0x0003;
    /// NodeRecord.
    pub const NODE: u16 = 0x0011;
    /// PortInfoRecord.
    pub const PORT_INFO: u16 = 0x0012;
    /// SwitchInfoRecord.
    pub const SWITCH_INFO: u16 = 0x0014;
    /// LinearForwardingTableRecord.
    pub const LINEAR_FORWARDING_TABLE: u16 = 0x0015;
    /// MulticastForwardingTableRecord.
    pub const MULTICAST_FORWARDING_TABLE: u16 = 0x0017;
    /// SMInfoRecord.
    pub const SM_INFO: u16 = 0x0018;
    /// LinkRecord.
    pub const LINK: u16 = 0x0020;
    /// PathRecord.
    pub const PATH: u16 = 0x0035;
    /// MCMemberRecord.
    pub const MC_MEMBER: u16 = 0x0038;

    /// The name as the specification has it.
    #[must_use]
    pub const fn name(attribute: u16) -> &'static str {
        match attribute {
            NOTICE => "Notice",
            INFORM_INFO => "InformInfo",
            NODE => "NodeRecord",
            PORT_INFO => "PortInfoRecord",
            SWITCH_INFO => "SwitchInfoRecord",
            LINEAR_FORWARDING_TABLE => "LinearForwardingTableRecord",
            MULTICAST_FORWARDING_TABLE => "MulticastForwardingTableRecord",
            SM_INFO => "SMInfoRecord",
            LINK => "LinkRecord",
            PATH => "PathRecord",
            MC_MEMBER => "MCMemberRecord",
            _ => "attribute",
        }
    }
}

/// Status of an answer (15.2.3): the upper byte is the class's, the lower one common to all (13.4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u16);

impl Status {
    /// No error.
    pub const OK: Status = Status(0);
    /// Nothing matches; only to Get.
    pub const NO_RECORDS: Status = Status(0x0300);
    /// More than one record matches a Get.
    pub const TOO_MANY_RECORDS: Status = Status(0x0400);
    /// The asker may not have it.
    pub const DENIED: Status = Status(0x0700);

    /// Whether to query again later.
    #[must_use]
    pub const fn is_busy(self) -> bool {
        self.0 & super::STATUS_BUSY != 0
    }

    /// What it means, in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        if self.is_busy() {
            return "the subnet administrator is busy";
        }
        match self.0 >> 8 {
            0 => match (self.0 >> 2) & 7 {
                0 => "no error",
                1 => "the class version is not supported",
                2 => "the method is not supported",
                3 => "the method is not supported for this attribute",
                7 => "a value in the attribute is not valid",
                _ => "an error without a meaning",
            },
            1 => "the subnet administrator has no resources for it",
            2 => "the request is not valid",
            3 => "there is no such record",
            4 => "more than one record matches",
            5 => "a GID is not valid",
            6 => "components are missing in the request",
            7 => "the request is denied",
            8 => "another priority is suggested",
            _ => "an error without a meaning",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (status {:#06x})", self.text(), self.0)
    }
}

/// A request for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Attribute number.
    pub attribute: u16,
    /// Components that must match; 0 for all records.
    pub component_mask: u64,
    /// A record with those components in their places.
    pub template: [u8; TEMPLATE_BYTES],
}

/// Bytes of a template: the longest record queried by example is a PathRecord with 64.
pub const TEMPLATE_BYTES: usize = 64;

impl Query {
    /// All records of an attribute.
    #[must_use]
    pub const fn all(attribute: u16) -> Query {
        Query { attribute, component_mask: 0, template: [0; TEMPLATE_BYTES] }
    }

    /// The same with one more component that must match. `at` is its place in the record; what does not lie
    /// within [`TEMPLATE_BYTES`] is left out.
    #[must_use]
    pub fn with(mut self, component: u32, at: usize, value: &[u8]) -> Query {
        if let Some(place) = self.template.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
            self.component_mask |= 1 << component;
        }
        self
    }

    /// Records of the port or switch with this LID: component 0 of all records that have one.
    #[must_use]
    pub fn of_lid(attribute: u16, lid: u16) -> Query {
        Query::all(attribute).with(0, 0, &lid.to_be_bytes())
    }
}

/// Writes a request into `mad`. `key` is the SM_Key, 0 for none: a wrong one is not answered at all (15.2.1.1).
pub fn build(mad: &mut Mad, method: u8, query: &Query, key: u64, transaction: u32) {
    header(mad, method, query.attribute, transaction);
    mad[36..44].copy_from_slice(&key.to_be_bytes());
    mad[48..56].copy_from_slice(&query.component_mask.to_be_bytes());
    mad[HEADER_BYTES..HEADER_BYTES + TEMPLATE_BYTES].copy_from_slice(&query.template);
}

/// Writes a Get or GetTable into `mad`.
pub fn build_get(mad: &mut Mad, query: &Query, is_table: bool, key: u64, transaction: u32) {
    build(mad, if is_table { METHOD_GET_TABLE } else { METHOD_GET }, query, key, transaction);
}

fn header(mad: &mut Mad, method: u8, attribute: u16, transaction: u32) {
    mad.fill(0);
    mad[0] = BASE_VERSION;
    mad[1] = CLASS_ADMINISTRATION;
    mad[2] = CLASS_ADMINISTRATION_VERSION;
    mad[3] = method;
    // The upper half of the transaction ID is the kernel's.
    mad[12..16].copy_from_slice(&transaction.to_be_bytes());
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
}

/// A message of the class, as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    bytes: &'a [u8],
}

impl<'a> Answer<'a> {
    /// A message with whole headers of this class and version; `None` for anything else.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Answer<'a>> {
        let is_ours = bytes.len() >= HEADER_BYTES
            && bytes[1] == CLASS_ADMINISTRATION
            && bytes[2] == CLASS_ADMINISTRATION_VERSION;
        is_ours.then_some(Answer { bytes })
    }

    /// The whole message.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Method with its response bit.
    #[must_use]
    pub fn method(&self) -> u8 {
        self.bytes[3]
    }

    /// Whether it answers a request.
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.bytes[3] & METHOD_RESPONSE != 0
    }

    /// Status.
    #[must_use]
    pub fn status(&self) -> Status {
        Status(be16(self.bytes, 4))
    }

    /// The lower half of the transaction ID.
    #[must_use]
    pub fn transaction(&self) -> u32 {
        be32(self.bytes, 12)
    }

    /// Attribute number.
    #[must_use]
    pub fn attribute(&self) -> u16 {
        be16(self.bytes, 16)
    }

    /// The RMPP header.
    #[must_use]
    pub fn rmpp(&self) -> rmpp::Header {
        rmpp::Header::read(self.bytes)
    }

    /// Whether a long message was cut after one MAD by a layer that knows no RMPP: it says to be an RMPP
    /// message, fills a MAD and has no segment number. libumad2sim does that to what opensm sends.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        let rmpp = self.rmpp();
        rmpp.is_active() && rmpp.segment == 0 && self.bytes.len() >= HEADER_BYTES + DATA_BYTES
    }

    /// Data after the headers.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// The records of an answer to GetTable: slices of a whole stride, and of what remains for the last one. A
    /// record without any byte, or a stride of 0, ends it.
    pub fn records(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let stride = usize::from(be16(self.bytes, 44)) * OFFSET_UNIT_BYTES;
        let data = if stride == 0 { &[] } else { self.data() };
        data.chunks(stride.max(1))
    }

    /// The sender's SM_Key; answers have 0.
    #[must_use]
    pub fn key(&self) -> u64 {
        be64(self.bytes, 36)
    }
}

/// Writes the answer to a Report into `mad`: the same MAD with another method (13.4.8.3, 14.3.11). `report`
/// longer than a MAD, or shorter than its headers, is not a Report; then nothing is written.
pub fn build_report_response(mad: &mut Mad, report: &[u8]) -> bool {
    mad.fill(0);
    let is_report = Answer::read(report).is_some_and(|report| report.method() == METHOD_REPORT);
    match mad.get_mut(..report.len()).filter(|_| is_report) {
        Some(place) => {
            place.copy_from_slice(report);
            mad[3] = METHOD_REPORT_RESP;
            true
        }
        None => false,
    }
}

/// Whether a method answers another one with this attribute.
#[must_use]
pub fn answers(requested: u8, answered: u8) -> bool {
    match requested {
        // Set is answered by GetResp, and so are failures of any kind.
        METHOD_GET | METHOD_SET => answered == METHOD_GET_RESP,
        METHOD_GET_TABLE => matches!(answered, METHOD_GET_TABLE_RESP | METHOD_GET_RESP),
        other => answered == other | METHOD_RESPONSE,
    }
}

#[cfg(test)]
mod tests;
