//! Each rank resolves its own settings. Settings that decide collective actions must be the same on all ranks.

use super::{Config, KEYS};
use crate::{
    error::{Error, Result},
    group::{Group, gather_unequal},
};

/// Refuses settings that differ between ranks and must not differ. Collective; the same error on every rank.
pub(crate) fn check_alike(group: &dyn Group, config: &Config) -> Result<()> {
    let keys: Vec<_> = KEYS.iter().filter(|key| key.alike).collect();
    let mine: Vec<String> = keys.iter().map(|key| (key.show)(config).to_string()).collect();
    let all = gather_unequal(group, &mine)?;
    for (rank, theirs) in all.iter().enumerate() {
        for (at, key) in keys.iter().enumerate() {
            let [first, other] =
                [&all[0], theirs].map(|values| values.get(at).map_or("another version", String::as_str));
            if first != other {
                let advice = "give all ranks of a job the same file, environment and options";
                let why = format!("rank {rank} has {other} and rank 0 has {first}; {advice}");
                return Err(Error::argument(key.name, why));
            }
        }
    }
    Ok(())
}
