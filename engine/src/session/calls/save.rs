//! Calls that save: whole checkpoints, checkpoints in pieces, buffers, and the waits until they are durable.

use crate::{
    error::{Error, Result},
    rehearsal,
    session::{LevelKind, Record, Session, entry::Call, state::SessionState},
};

impl Session {
    /// Saves all protected regions as a new revision and returns its number at t2: the program may go on and change its
    /// memory. Collective: one small all-reduce, and nothing after it unless a hold was taken or released since the
    /// last checkpoint.
    ///
    /// A later error of this revision is returned by `wait`, `poll` and `close`, or else by the next `checkpoint`,
    /// which then saves nothing: call it again. Refused (`NotRestored`) if it would remove a revision that an earlier
    /// job saved and this session has not read. The same holds for `begin` and `due`, and for `put` once a revision has
    /// to be removed.
    pub fn checkpoint(&mut self) -> Result<u64> {
        self.refuse_without_saver();
        self.ours()?.answering(|inner| {
            let ready = inner.program.ready();
            inner.checkpoint(ready)
        })
    }

    /// Begins a checkpoint that the program writes in pieces, at t1. `write` the pieces; then `checkpoint` adds the
    /// regions and returns at t2. Returns the number of the revision. Collective.
    ///
    /// `bytes`: the most that this rank will write in pieces. Overlapping bytes count once more, and so do the gaps
    /// between pieces. The first checkpoint of a space sizes the portions by it. If a rank left the last checkpoint
    /// without `checkpoint` or `abandon`, that one is given up, and `begin` fails on all ranks: call it again.
    pub fn begin(&mut self, bytes: u64) -> Result<u64> {
        self.has_more = true;
        self.refuse_without_saver();
        self.ours()?.answering(|inner| {
            let ready = inner.program.ready();
            inner.begin(Call::Begin, bytes, ready)
        })
    }

    /// Whether a checkpoint has begun and not ended. Local.
    pub fn has_begun(&mut self) -> Result<bool> {
        Ok(self.ours()?.program.begun.is_some())
    }

    /// Writes `bytes` at `offset` of the stream `name`. The stream is an item of the revision that was begun, and grows
    /// as it is written. Pieces can have any order and size. If they overlap, the last one counts; skipped bytes are
    /// zero. The program may reuse the memory once the call returns. `checkpoint` also returns an error of this call,
    /// and then saves nothing. Local.
    pub fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.ours()?.write(name, offset, bytes)
    }

    /// The length of the stream `name` as written since `begin`; 0 without any. Local.
    pub fn written_bytes(&mut self, name: &str) -> Result<u64> {
        self.ours()?.program.written_bytes(name)
    }

    /// Gives up the checkpoint that was begun. Collective: all ranks do, or none. Fails if a rank has ended the
    /// checkpoint or none has begun. Nothing of the checkpoint is kept, and the revisions that all ranks have stay as
    /// they were. Its number is used up: the next checkpoint gets the next number. A request from outside is answered
    /// by the next checkpoint.
    pub fn abandon(&mut self) -> Result<()> {
        self.ours()?.abandon()
    }

    /// Saves `bytes` under `name`, with any protected regions, as the next revision, and waits until it is complete:
    /// durable on all ranks. Returns its number. A restore leaves these bytes for `get`, unless a region has their
    /// name. Collective; each rank can give another number of bytes at each call. An error on any rank is returned on
    /// all, and earlier revisions are as they were.
    pub fn put(&mut self, name: &str, bytes: &[u8]) -> Result<u64> {
        self.has_more = true;
        self.refuse_without_saver();
        self.ours()?.answering(|inner| inner.put(name, bytes))
    }

    /// Waits until the last revision is complete on all ranks. Collective. An error, the same on every rank, means that
    /// the revision is not complete; earlier ones are as they were. After a failed sync, or a failure of the group, the
    /// revision may still be found complete when the space is opened again. A failure is reported to all ranks once,
    /// here or by `checkpoint`. After that `wait` returns `Ok` until the next checkpoint, although the failed revision
    /// is not there.
    pub fn wait(&mut self) -> Result<()> {
        self.ours()?.untraced(|inner| inner.wait_for_all(Call::Wait))
    }

    /// Waits until the last revision sent to the level `level` is complete there on all ranks. Does not wait for levels
    /// behind it. The nearest level is always waited for, and its errors are returned as by `wait`. Collective.
    ///
    /// `InvalidArgument`: the session has no such level, or ranks wait for different ones. Another error, the same on
    /// every rank, means that the level did not get the revision; it is returned once. A revision that found the level
    /// busy at its turn did not go there.
    pub fn wait_for(&mut self, level: LevelKind) -> Result<()> {
        self.ours()?.untraced(|inner| inner.wait_for(level))
    }

    /// Advances the exchange between this rank and others, such as copies to other nodes. For programs that compute for
    /// a long time between two calls of their session. `wait`, `close` or the next checkpoint report failures; an error
    /// here means that the session is over. Local, never waits.
    pub fn progress(&mut self) -> Result<()> {
        self.ours()?.move_on()
    }

    /// Whether this rank's part of the last revision is durable. Also `true` if no revision is being saved: nothing was
    /// saved yet, or all ranks know that the last revision failed. Local, never waits.
    pub fn poll(&mut self) -> Result<bool> {
        self.ours()?.poll()
    }

    /// Sizes and times of the last checkpoint with a durable part of this rank. Local, never waits.
    pub fn last_record(&mut self) -> Result<Option<Record>> {
        Ok(self.ours()?.levels.nearest_mut().last_record())
    }

    /// Ends the session in order. Collective. Waits for the last revision. An error means that the revision, or the end
    /// itself, failed; the session is over all the same. If other ranks make another call meanwhile (`CallMismatch`),
    /// the session is over there too, and they can only close it.
    pub fn close(mut self) -> Result<()> {
        self.ours()?;
        let saved = if rehearsal::is_one() { self.save_the_end() } else { Ok(()) };
        let closed = self.inner.take().map_or(Ok(()), SessionState::close);
        saved.and(closed)
    }

    /// Saves the state at the end of a rehearsal: two runs end at the same step, but may have saved at different ones.
    /// Does nothing if the program's own revisions hold more than its regions, because this revision would lack it.
    /// Collective.
    fn save_the_end(&mut self) -> Result<()> {
        if self.has_more {
            return Ok(());
        }
        let saved = self.ours()?.answering(|inner| {
            // Some ranks may have restored streams, and others none: all get the error.
            let lacks = Error::argument("close", "the end of a rehearsal has no streams");
            let ready = if inner.program.restored.reading.has_streams() { Err(lacks) } else { inner.program.ready() };
            inner.checkpoint(ready)
        });
        match saved {
            Ok(number) => self.ours()?.report.iter().for_each(|report| report.end_saved(number)),
            Err(Error::InvalidArgument { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Ends the session of this rank without the others, for example after an error only on this rank. Its part of the
    /// last revision becomes durable, and the session is not marked as ended in order. With one rank it is
    /// [`close`](Self::close). If the job goes on when ranks fail, this may take 10 s. Local.
    pub fn leave(mut self) -> Result<()> {
        let inner = self.ours()?;
        if inner.epoch.group.size() == 1 { self.close() } else { Ok(()) }
    }
}
