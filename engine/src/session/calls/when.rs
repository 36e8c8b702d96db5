//! Calls about the time to save.

use crate::{
    error::Result,
    session::{Session, Speculation},
};

impl Session {
    /// Whether to take a checkpoint now, after `step` steps of the program: `true` on all ranks, or on none. Every rank
    /// calls it at the same steps with the same number. A checkpoint is due by the settings `every_steps`, `every` and
    /// `mtbf`, by the signal `checkpoint_signal` on any rank, and by a request from outside (`mainstay checkpoint`).
    ///
    /// While the last revision is not durable on the nearest level of any rank, none is due by steps or time. It is due
    /// at the next step after that, unless `when_busy` says otherwise. A signal or a request is never put off.
    ///
    /// Most calls only count. About every `agree_every`, and when steps make a checkpoint due, a call is collective: a
    /// small all-reduce (`session/schedule.rs` says how the ranks know when). Such a call gives up a checkpoint that
    /// was begun and not ended, and the next call reports that. Refused, like calls that save, if the program has not
    /// restored (`Start::Restored`).
    pub fn due(&mut self, step: u64) -> Result<bool> {
        self.ours()?.due(step)
    }

    /// Whether this rank knows a reason to take a checkpoint now, for programs whose ranks do not meet at steps. On rank
    /// 0: the settings `every` and `mtbf` by its own clock, a request from outside (`mainstay checkpoint`, the time limit
    /// of `mainstay run`, `mainstay evacuate`), and a signal that reached it. On other ranks: a signal that reached this
    /// one, which rank 0 has to be told. Rank 0 then tells all ranks, by messages of the program, and all call `due_now`.
    ///
    /// The answer stays `true` until a checkpoint begins, and is `false` for a while after one was put off. Steps do not
    /// count. Mainstay looks for requests at most once in `agree_every`; any other call costs a look at the clock. Also
    /// does the work of `progress`. Local, never waits.
    pub fn is_due_here(&mut self) -> Result<bool> {
        self.ours()?.is_due_here()
    }

    /// Whether to take a checkpoint now, apart from any step: `true` on all ranks, or on none. One small all-reduce finds
    /// the reason of any rank, as a meeting of `due` does; a checkpoint may also be put off here. Call it on all ranks
    /// once `is_due_here` is `true` on one, and then `checkpoint` if it is due. Collective.
    pub fn due_now(&mut self) -> Result<bool> {
        self.ours()?.due_now()
    }

    /// Marks a moment between two steps of the program, at the border of two phases of a step. Mainstay may look there
    /// at the pages written since the last such moment. With `trace` it records them, and a `predictor` learns from it
    /// which pages can be saved. Otherwise nothing happens. Local, never waits for a write.
    pub fn tick(&mut self) -> Result<()> {
        self.ours()?.tick()
    }

    /// Declares that the program will not write `bytes` bytes of the region `name`, from `offset` on, again before its
    /// next checkpoint. With a `predictor` they are saved at once, in the background (paper 004 calls it user-level
    /// checkpointing). If the program writes them all the same, they are saved again.
    ///
    /// No effect without a `predictor`, or for memory without page tracking. No effect either for bytes that a followed
    /// region did not have when `look` was last called. `RegionMissing`: no region has the name. `InvalidArgument`: the
    /// region has fewer bytes, and is not followed. Local, never waits for a write.
    pub fn settled(&mut self, name: &str, offset: u64, bytes: u64) -> Result<()> {
        self.ours()?.settled(name, offset, bytes)
    }

    /// Statistics of early saving on this rank. Local.
    pub fn speculation(&mut self) -> Result<Speculation> {
        Ok(self.ours()?.speculation())
    }
}
