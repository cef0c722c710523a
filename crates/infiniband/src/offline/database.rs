//! ibdiagnet's `.db_csv`: a section of comma-separated values for each kind of thing.
//!
//! Columns are found by their names, whatever their order; sections and columns that are not used are passed over.
//! Facts from public descriptions of NODES, PORTS, SWITCHES, LINKS and PM_INFO. A section without its end is cut short.

use super::OfflineError;
use super::counters::{Origin, PortKey, Snapshot};
use super::facts::{Facts, NodeFact, PortFact};
use super::lines::{Lines, description, number};
use crate::mad::{LinkMasks, NodeKind, PhysicalState, PortInfo, PortState, SMP_DATA_BYTES, SwitchInfo};
use throughline_sample::Guid;

/// Most columns of a section: PM_INFO has some 200.
const MAX_COLUMNS: usize = 2_000;
/// ibdiagnet's LinkSpeedActv, -Sup and -En (`IBLinkSpeed` of ibutils2): speeds up to QDR in the lowest byte, from FDR
/// on in the next one.
const EXTENDED_SPEED_SHIFT: u32 = 8;
/// FDR10 in it: the vendor's speeds are the third byte.
const FDR10: u64 = 1 << 16;
/// XDR in it: the fourth byte is LinkSpeedExtActive2.
const XDR: u64 = 1 << 24;

/// A row with the names of its columns.
struct Row<'a> {
    columns: &'a [String],
    cells: Vec<&'a str>,
}

impl Row<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        let at = self.columns.iter().position(|column| column.eq_ignore_ascii_case(name))?;
        self.cells.get(at).copied().filter(|cell| !cell.is_empty() && !cell.eq_ignore_ascii_case("N/A"))
    }

    fn number<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        number(self.text(name)?)
    }

    fn guid(&self, name: &str) -> Option<Guid> {
        super::facts::guid(self.text(name)?)
    }
}

/// Reads a file into `facts`.
///
/// # Errors
/// [`OfflineError`]: a row that lacks what names its thing, a section without its end.
pub fn read(lines: &mut Lines<'_>, facts: &mut Facts) -> Result<(), OfflineError> {
    let mut section: Option<String> = None;
    let mut columns: Vec<String> = Vec::new();
    let mut snapshot = Snapshot::at(facts.time);
    while lines.advance()? {
        let line = lines.text().trim();
        if let Some(name) = line.strip_prefix("START_") {
            if let Some(open) = section {
                return Err(lines.file_error(format!("section {open} has no end")));
            }
            section = Some(name.to_owned());
            columns.clear();
        } else if line.starts_with("END_") {
            section = None;
        } else if let Some(name) = section.as_deref().filter(|_| !line.is_empty()) {
            if columns.is_empty() {
                columns = cells(line).into_iter().take(MAX_COLUMNS).map(str::to_owned).collect();
                continue;
            }
            let row = Row { columns: &columns, cells: cells(line) };
            let taken = match name {
                "NODES" => node(facts, &row),
                "PORTS" => port(facts, &row),
                "SWITCHES" => switch(facts, &row),
                "LINKS" => link(facts, &row),
                "PM_INFO" => counters(&mut snapshot, &row),
                _ => Some(Ok(())),
            };
            let taken = taken
                .ok_or_else(|| lines.expected("a row with the GUID, port and numbers of its section"))?;
            taken.map_err(|reason| lines.file_error(reason))?;
        }
    }
    if let Some(name) = section {
        return Err(
            lines.file_error(format!("section {name} has no end: the file is cut short; save it again"))
        );
    }
    let file = lines.file_error(String::new());
    facts.add_counters(snapshot).map_err(|reason| match file {
        OfflineError::File { file, .. } => OfflineError::File { file, reason },
        other => other,
    })
}

/// The cells of a row; those in quotes may hold commas.
fn cells(line: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let rest_trimmed = rest.trim_start();
        if let Some(quoted) = rest_trimmed.strip_prefix('"') {
            let end = quoted.find("\",").or_else(|| quoted.rfind('"')).unwrap_or(quoted.len());
            cells.push(&quoted[..end]);
            let after = quoted.get(end + 1..).unwrap_or_default();
            match after.split_once(',') {
                Some((_, next)) => rest = next,
                None => return cells,
            }
        } else {
            match rest_trimmed.split_once(',') {
                Some((cell, next)) => {
                    cells.push(cell.trim());
                    rest = next;
                }
                None => {
                    cells.push(rest_trimmed.trim());
                    return cells;
                }
            }
        }
    }
}

fn node(facts: &mut Facts, row: &Row<'_>) -> Option<Result<(), String>> {
    let kind = match row.number::<u8>("NodeType")? {
        1 => NodeKind::Ca,
        2 => NodeKind::Switch,
        3 => NodeKind::Router,
        _ => return None,
    };
    Some(facts.node(NodeFact {
        kind: Some(kind),
        description: row.text("NodeDesc").map(description),
        system_guid: row.guid("SystemImageGUID"),
        vendor_id: row.number("VendorID"),
        device_id: row.number("DeviceID"),
        port_count: row.number("NumPorts"),
        ..NodeFact::new(row.guid("NodeGUID")?)
    }))
}

fn port(facts: &mut Facts, row: &Row<'_>) -> Option<Result<(), String>> {
    let (guid, number) = (row.guid("NodeGuid")?, row.number("PortNum")?);
    let state = row.number::<u8>("PortState").and_then(PortState::by_number);
    let physical = row.number::<u8>("PortPhyState").map(PhysicalState);
    let masks = |prefix: &str, suffix: &str| {
        let speed: u64 = row.number(&format!("{prefix}Speed{suffix}")).unwrap_or(0);
        LinkMasks {
            width: row.number(&format!("{prefix}Width{suffix}")).unwrap_or(0),
            speed: (speed & 0xFF) as u8,
            extended_speed: (speed >> EXTENDED_SPEED_SHIFT & 0xFF) as u8,
        }
    };
    let mut info = PortInfo::decode(&[0; SMP_DATA_BYTES]).ok()?;
    info.gid_prefix = row.number("GIDPrfx").unwrap_or(0);
    info.lid = row.number("LID").unwrap_or(0);
    info.sm_lid = row.number("MSMLID").unwrap_or(0);
    info.capabilities = row.number("CapMsk").unwrap_or(0);
    info.local_port = row.number("LocalPortNum").unwrap_or(0);
    info.lmc = row.number("LMC").unwrap_or(0);
    let active = masks("Link", "Actv");
    info.width_active = active.width;
    (info.speed_active, info.extended_speed_active) = (active.speed, active.extended_speed);
    let speed: u64 = row.number("LinkSpeedActv").unwrap_or(0);
    info.is_fdr10 = speed & FDR10 != 0;
    if info.is_fdr10 {
        // As PortInfo has it.
        info.speed_active = 4;
    }
    info.extended_speed_2_active = if speed & XDR != 0 { PortInfo::EXTENDED_SPEED_2_XDR } else { 0 };
    (info.supported, info.enabled) = (masks("Link", "Sup"), masks("Link", "En"));
    (info.state, info.physical_state) = (state, physical.unwrap_or(PhysicalState(0)));
    let fact = PortFact {
        guid: row.guid("PortGuid"),
        info: (state.is_some() || physical.is_some()).then_some(info),
        ..PortFact::default()
    };
    Some(facts.port(guid, number, fact))
}

fn switch(facts: &mut Facts, row: &Row<'_>) -> Option<Result<(), String>> {
    let mut info = SwitchInfo::decode(&[0; SMP_DATA_BYTES]).ok()?;
    info.linear_capacity = row.number("LinearFDBCap")?;
    info.linear_top = row.number("LinearFDBTop").unwrap_or(0);
    info.multicast_capacity = row.number("MCastFDBCap").unwrap_or(0);
    let enhanced = row.number::<u8>("ENP0").map(|flag| flag != 0);
    info.enhanced_port_0 = enhanced.unwrap_or(false);
    let guid = row.guid("NodeGUID")?;
    Some(facts.node(NodeFact { switch: Some(info), enhanced_port_0: enhanced, ..NodeFact::new(guid) }))
}

fn link(facts: &mut Facts, row: &Row<'_>) -> Option<Result<(), String>> {
    let first = (row.guid("NodeGuid1")?, row.number("PortNum1")?);
    let second = (row.guid("NodeGuid2")?, row.number("PortNum2")?);
    let fact = |far| PortFact { is_linked: Some(true), remote: Some(far), ..PortFact::default() };
    let done = facts.port(first.0, first.1, fact(second));
    Some(done.and_then(|()| facts.port(second.0, second.1, fact(first))))
}

fn counters(snapshot: &mut Snapshot, row: &Row<'_>) -> Option<Result<(), String>> {
    let key = PortKey::Guid(row.guid("NodeGUID")?, row.number("PortNumber")?);
    let values = match snapshot.port(key) {
        Ok(values) => values,
        Err(reason) => return Some(Err(reason)),
    };
    for (column, cell) in row.columns.iter().zip(&row.cells) {
        let Some(value) = number::<u64>(cell) else { continue };
        if let Some(name) = column.strip_suffix("Extended") {
            values.set(name, value, Origin::Extended);
        }
    }
    for (column, cell) in row.columns.iter().zip(&row.cells) {
        if let Some(value) = number::<u64>(cell) {
            // Those of 64 bits, which have a suffix, stay.
            let origin = if column.contains("cast") { Origin::Extended } else { Origin::Classic };
            values.set(column, value, origin);
        }
    }
    Some(Ok(()))
}
