//! The fabrics of crawlers' batches: which of them are known in this session, and why others can't be stored.

use std::collections::{HashMap, HashSet};

use throughline_sample::wire::{Batch, FabricFingerprint};
use tokio_postgres::Client;

use super::{Content, Entry, WriteError, failed};
use crate::fabrics::{FabricAnswer, Sighting, forbidden_text, resolve};

/// Fingerprints in memory: a fabric has another one whenever a switch comes or goes.
const FINGERPRINTS_MAX: usize = 1_000;

/// A fingerprint as far as its fabric depends on it: GUIDs and the configured name.
type FingerprintKey = (Vec<u64>, String);

/// What is known of fingerprints. What was decided once stays so for the batches that were read by then.
#[derive(Default)]
pub(super) struct FabricKeys {
    known: HashMap<FingerprintKey, FabricAnswer>,
}

fn key_of(fingerprint: &FabricFingerprint) -> FingerprintKey {
    (fingerprint.guids().to_vec(), fingerprint.name.clone())
}

impl FabricKeys {
    fn answer(&self, batch: &Batch) -> Option<&FabricAnswer> {
        self.known.get(&key_of(batch.fabric.as_ref()?))
    }

    /// The fabric of a batch; `None` for an agent's batch, and where that is not known.
    pub fn id(&self, batch: &Batch) -> Option<i64> {
        match self.answer(batch)? {
            FabricAnswer::Known { id, .. } => Some(*id),
            FabricAnswer::Undecided(_) | FabricAnswer::Refused(_) => None,
        }
    }

    /// Why nothing of a batch can be stored for now.
    pub fn denial(&self, entry: &Entry, batch: &Batch) -> Option<String> {
        match self.answer(batch)? {
            FabricAnswer::Known { name, .. } => forbidden_text(name, &entry.sender.fabrics),
            FabricAnswer::Undecided(reason) | FabricAnswer::Refused(reason) => Some(reason.clone()),
        }
    }

    /// Finds the fabrics of these entries' batches, each in a transaction of its own. What was not decided is tried again.
    pub async fn resolve(&mut self, client: &mut Client, entries: &[&Entry]) -> Result<(), WriteError> {
        let what = "finding the fabric of a crawler";
        if self.known.len() >= FINGERPRINTS_MAX {
            self.known.clear();
        }
        let mut tried = HashSet::new();
        for entry in entries {
            let Content::Batch(Batch { fabric: Some(fingerprint), .. }) = &entry.content else { continue };
            let key = key_of(fingerprint);
            if matches!(self.known.get(&key), Some(FabricAnswer::Known { .. })) || !tried.insert(key.clone())
            {
                continue;
            }
            let transaction = client.transaction().await.map_err(failed(what))?;
            // A certificate that is for other fabrics adds none. Of those that are known it is judged entry by entry.
            let sighting = Sighting { fingerprint, allowed: &entry.sender.fabrics, accept: false };
            let answer = resolve(&transaction, sighting).await.map_err(failed(what))?;
            transaction.commit().await.map_err(failed(what))?;
            self.known.insert(key, answer);
        }
        Ok(())
    }
}
