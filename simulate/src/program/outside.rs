//! The state of a program, read from outside its job.

use super::{Division, Mark, NAMES, Program, Restoring};
use mainstay_engine::Reader;
use std::collections::BTreeSet;

impl Program {
    /// Reads a revision from outside a job. All bytes of all shards must belong to one mark.
    pub fn read(reader: &mut Reader, is_global: bool) -> Result<Mark, Restoring> {
        let (shards, mut marks) = (reader.shard_count(), BTreeSet::new());
        for shard in 0..shards {
            let mut program = match is_global {
                true => Program::global(shard as usize, shards as usize),
                false => {
                    let bytes = reader.item(shard, "bulk").map_err(Restoring::Refused)?.bytes as usize;
                    Program::with(Division::Own { rank: shard as usize }, bytes)
                }
            };
            for (name, memory) in NAMES.into_iter().zip([&mut program.mark, &mut program.bulk, &mut program.small]) {
                let count = reader.read(shard, name, 0, memory).map_err(Restoring::Refused)?;
                if count != memory.len() {
                    return Err(Restoring::Wrong(format!("shard {shard} has {count} bytes of {name}")));
                }
            }
            marks.insert(program.check().map_err(Restoring::Wrong)?);
        }
        match marks.pop_first() {
            Some(mark) if marks.is_empty() => Ok(mark),
            mark => Err(Restoring::Wrong(format!("the shards of one revision have the marks {mark:?}, {marks:?}"))),
        }
    }
}
