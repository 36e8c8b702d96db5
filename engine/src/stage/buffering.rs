//! The buffers of a stage: gathers pieces in them, and sends full ones to the outlet.
//!
//! Invariant: the bytes of a buffer get their place in the log when it leaves, in whole blocks.

use super::{
    FullBuffer, Owner,
    buffer::Buffer,
    source::Source,
    staging::{Staging, StagingTools},
};
use crate::{
    capture::InputPiece,
    error::{Error, Result},
    ground::Instant,
    place::LogSegment,
    space::{Aligned, format::BLOCK_BYTES},
};
use std::sync::Arc;

/// Maximum number of bytes that are gathered in the portion before they are passed on for hashing.
pub(crate) const IN_PORTION_BYTES: u64 = 4 << 20;

impl Staging {
    /// Gathers `source`, starting at `from`.
    pub(super) fn gather(
        &mut self,
        tools: &mut StagingTools<'_>,
        handed: &InputPiece,
        from: usize,
        source: Source<'_>,
    ) -> Result<()> {
        if source.len() == 0 {
            self.log.lay(handed, 0, 0, self.end);
            return Ok(());
        }
        let small = !handed.is_part && (source.len() as u64) < self.policy.small_below;
        let (mut done, mut alignment) = (from, if from == 0 { handed.alignment } else { 1 });
        loop {
            self.have_buffer(tools, small)?;
            let gather = if small { &mut self.small } else { &mut self.main };
            let later = self.later.as_mut().filter(|_| !small && !self.is_own);
            let taken = gather.add(handed, done, source, alignment, later);
            done += taken;
            if taken > 0 {
                alignment = 1;
            }
            if gather.is_full() {
                self.leave(tools, small)?;
            }
            if done == source.len() {
                return Ok(());
            }
        }
    }

    fn have_buffer(&mut self, tools: &mut StagingTools<'_>, small: bool) -> Result<()> {
        let has_one = if small { self.small.buffer.is_some() } else { self.main.buffer.is_some() };
        if has_one {
            return Ok(());
        }
        let buffer = match tools.pool {
            Some(pool) if self.policy.owner == Owner::Node && !small => {
                let asked = Instant::now();
                let mut chunk = pool.take_now();
                if self.later.is_some() && !matches!(chunk, Some(Ok(_))) {
                    // Chunks that wait for a snapshot are returned only after it.
                    self.copy_later(tools)?;
                    chunk = pool.take_now();
                }
                let chunk = match chunk {
                    Some(chunk) => chunk?,
                    None => pool.take(tools.reclaim)?,
                };
                self.staged.buffer_wait += asked.elapsed();
                self.staged.chunks += 1;
                Buffer::Chunk(chunk)
            }
            _ if self.policy.is_in_portion() => {
                self.shard.has_room(self.end, 1)?;
                let left = self.shard.size().bytes() - self.end;
                Buffer::Blocks(self.shard.map(self.end, left.min(IN_PORTION_BYTES))?)
            }
            _ => {
                let bytes = self.policy.buffer_bytes;
                Buffer::Own(Aligned::zeroed(bytes).ok_or_else(|| self.shard.out_of_memory(bytes))?)
            }
        };
        let gather = if small { &mut self.small } else { &mut self.main };
        gather.buffer = Some(buffer);
        Ok(())
    }

    pub(super) fn leave_all(&mut self, tools: &mut StagingTools<'_>) -> Result<()> {
        [true, false].into_iter().try_for_each(|small| self.leave(tools, small))
    }

    /// Gives the bytes in a buffer their place in the log, and sends the buffer there.
    fn leave(&mut self, tools: &mut StagingTools<'_>, small: bool) -> Result<()> {
        let gather = if small { &mut self.small } else { &mut self.main };
        if gather.is_empty() {
            return Ok(());
        }
        let Some((buffer, bytes, held)) = gather.take() else { return Ok(()) };
        let at = self.take_room(bytes)?;
        for part in held {
            self.log.lay(&part.handed, part.from, part.bytes, at + part.in_buffer);
        }
        let buffer = match self.later.as_mut().filter(|_| !small) {
            Some(later) => later.keep(buffer, bytes, at, tools.pool),
            None => Some(buffer),
        };
        let Some(buffer) = buffer else { return Ok(()) };
        let full = match buffer {
            Buffer::Chunk(chunk) => {
                FullBuffer::LogSegment(Arc::new(LogSegment::new(chunk, self.shard.clone(), at, bytes)?))
            }
            Buffer::Own(buffer) => FullBuffer::Own { buffer, bytes, at },
            Buffer::Blocks(mapped) => {
                let pool = tools.pool.cloned().ok_or_else(no_node)?;
                FullBuffer::LogSegment(Arc::new(LogSegment::in_place(mapped, pool, self.shard.clone(), at, bytes)))
            }
        };
        let again = tools.outlet.take(&self.shard, full)?;
        let gather = if small { &mut self.small } else { &mut self.main };
        gather.buffer = again.map(Buffer::Own);
        Ok(())
    }

    /// Takes the next `bytes` bytes of the log; returns their offset.
    pub(super) fn take_room(&mut self, bytes: u64) -> Result<u64> {
        debug_assert!(bytes.is_multiple_of(BLOCK_BYTES), "a part of the log ends inside a block");
        self.shard.has_room(self.end, bytes)?;
        let at = self.end;
        self.end += bytes;
        Ok(at)
    }
}

fn no_node() -> Error {
    Error::Internal { what: "nothing tells whether other ranks of the node copy".to_owned() }
}
