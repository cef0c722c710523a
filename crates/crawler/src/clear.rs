//! Clearing counters of chosen ports: the one thing here that changes anything on a fabric. Used by the command
//! `clear` alone; neither the daemon nor any read command links to it. One request at a time: it is rare, and a
//! fabric's counters are not to be wiped faster than a person can stop it.

use crate::transport::{Arrival, Destination, Transport, TransportError};
use std::time::{Duration, Instant};
use throughline_infiniband::mad::{self, ClassPortInfo, CounterSelection, MAD_BYTES, Mad, PortCounterSet};

/// Attempts for each request: a clear is the same done twice.
const ATTEMPTS: u32 = 3;

/// Why a port's counters were not cleared.
#[derive(Debug, thiserror::Error)]
pub enum ClearError {
    /// No answer.
    #[error("no answer to {0}")]
    Timeout(&'static str),
    /// The agent refused.
    #[error("{attribute} was refused with status {status:#06x}")]
    Refused {
        /// The attribute.
        attribute: &'static str,
        /// Status of the reply.
        status: u16,
    },
    /// The transport does not work.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// Clears counters of one port, and waits for the agent's word for it.
///
/// # Errors
/// [`ClearError`]; some of the counters may be cleared then.
pub fn clear_port(
    transport: &mut dyn Transport,
    to: Destination,
    port: u8,
    selection: CounterSelection,
    capabilities: &ClassPortInfo,
    timeout: Duration,
) -> Result<(), ClearError> {
    for (set, select, select_2) in selection.requests(capabilities) {
        set_once(transport, to, port, (set, select, select_2), timeout)?;
    }
    Ok(())
}

fn set_once(
    transport: &mut dyn Transport,
    to: Destination,
    port: u8,
    (set, select, select_2): (PortCounterSet, u16, u32),
    timeout: Duration,
) -> Result<(), ClearError> {
    for attempt in 0..ATTEMPTS {
        // Replies are distinguished by the request that they answer; the number only has to differ between two in a row.
        let transaction =
            u32::from(to_lid(to)) << 16 | u32::from(port) << 8 | u32::from(set.attribute()) << 2 | attempt;
        let mut bytes: Mad = [0; MAD_BYTES];
        mad::build_counter_clear(&mut bytes, set, port, select, select_2, transaction);
        transport.send(&bytes, to, timeout)?;
        transport.flush()?;
        let deadline = Instant::now() + timeout;
        while let Some(rest) = deadline.checked_duration_since(Instant::now()) {
            let mut reply: Mad = [0; MAD_BYTES];
            match transport.receive(&mut reply, rest)? {
                Arrival::Nothing => {}
                Arrival::GivenUp => break,
                Arrival::Reply => {
                    let header = mad::reply_header(&reply);
                    if header.transaction != transaction || !header.is_response {
                        continue;
                    }
                    if header.status == mad::STATUS_BUSY {
                        break;
                    }
                    let attribute = set.name();
                    let status = header.status;
                    return if status == 0 { Ok(()) } else { Err(ClearError::Refused { attribute, status }) };
                }
            }
        }
    }
    Err(ClearError::Timeout(set.name()))
}

fn to_lid(to: Destination) -> u16 {
    match to {
        Destination::Lid { lid, .. } => lid,
        Destination::Agent(agent) => agent.lid,
        Destination::Directed => 0,
    }
}
