//! A session: one job at work on one space. It ties the stages together and is the only part that
//! talks to the group.
//!
//! What must hold: every rank calls the same collective methods in the same order (`entry` tells them if they do not),
//! and every decision that ranks must share comes out of a collective, never out of what one rank sees.

mod again;
mod agreement;
mod ahead;
mod attempt;
mod begun;
mod bringing;
mod brought;
mod buffer;
mod catching_up;
mod changed;
mod checkpoint;
mod choice;
mod chosen;
mod closing;
mod copies;
mod copying;
mod diary;
mod domain;
mod due;
mod earlier;
mod early;
mod ended_unsaved;
mod entry;
mod epoch;
mod exchange;
mod failing;
mod fetch;
mod flag;
mod flaws;
mod held;
mod holders;
mod holds;
mod inner;
mod later;
mod layout;
mod level;
mod levels;
mod locking;
mod looked;
mod means;
mod missed;
mod need;
mod node;
mod open;
mod outputs;
mod outward;
mod places;
mod plan;
mod program;
mod progress;
mod ranks;
mod reading;
mod record;
mod recover;
mod redistribute;
mod remains;
mod report;
mod requests;
mod restore;
mod room;
mod run;
mod saved;
mod saver;
mod schedule;
mod settle;
mod shards;
mod stepping;
mod telling;
mod tracing;

pub use buffer::Got;
pub use early::Speculation;
pub use holders::Handed;
pub use level::LevelKind;
pub use plan::LevelPlan;
pub use record::Record;
pub use recover::Recovered;
pub use restore::Restored;
pub use run::{Failing, Stepped, run};
pub use saver::Saver;
pub use shards::{ShardItems, ShardsHere};

use crate::{
    capture::{Allocated, Look, OwnMemory, Region},
    config::Config,
    device::Device,
    error::{Error, Result},
    ground::Instant,
    group::Group,
    rehearsal,
    remark::remark,
    space::format::{Emptied, Item},
};
use entry::Call;
use inner::Inner;
use plan::Whence;
use remains::Remains;
use std::{
    path::Path,
    process,
    sync::{Arc, Weak},
};
use telling::node_name;

/// One job at work on one space. A session is used by one thread at a time, and only by the process that opened it: in
/// a forked child every method is refused, and dropping the session does nothing.
pub struct Session {
    /// `None` once the session is closed or dropped.
    inner: Option<Inner>,
    /// The process that the threads, locks and communicator of the session belong to.
    pid: u32,
    /// Of who alone begins revisions, if anybody.
    saver: Weak<()>,
    /// The program has begun revisions that have more than the regions.
    has_more: bool,
}

impl Session {
    /// Opens the space in the directory `path`, which is made if it is missing. Refused while data that a killed job
    /// had staged cannot be completed now, but could be another time. Collective.
    pub fn open(group: Box<dyn Group>, path: &Path, config: Config) -> Result<Session> {
        // Absolute, so that the program may change its directory.
        let path = rehearsal::place(path);
        Self::open_from(group, Whence::Path(path), &config)
    }

    /// Opens the space on `device`. Collective.
    pub fn open_on(group: Box<dyn Group>, device: Arc<dyn Device>, config: Config) -> Result<Session> {
        let (copies, former) = (Vec::new(), Vec::new());
        let plan = LevelPlan { kind: LevelKind::Pfs, device, every: 1, keep: config.keep, copies, former };
        Self::open_levels(group, vec![plan], config)
    }

    /// Opens several levels, the nearest first. A checkpoint saves to the nearest level and waits for that alone; the
    /// others are fed from there, each at its own pace. Collective.
    pub fn open_levels(group: Box<dyn Group>, levels: Vec<LevelPlan>, config: Config) -> Result<Session> {
        Self::open_from(group, Whence::Levels(levels), &config)
    }

    /// Says on standard error what the program's user should know and no call can refuse, on rank 0. For what is built on a
    /// session. Local.
    pub fn remark(&self, text: &str) {
        remark(self.rank(), text);
    }

    pub fn rank(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.epoch.group.rank())
    }

    pub fn size(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.epoch.group.size())
    }

    /// Goes on without the ranks that have failed: called on every rank that is left after an error of the kind
    /// `GroupFailed`, of this session or of the program's own messages, wherever each rank was. The ranks are those that
    /// the group goes on with (`Group::shrink`): fewer, or as many with others in the places of those that failed, which
    /// come out of `open` meanwhile. What is protected stays protected, a checkpoint that was begun is given up, and
    /// revisions from now on never mix with those before. `restore` comes next, on all ranks; after a change of the
    /// number of ranks, or of what each of them has, protect first what that is now. If ranks fail during the recovery,
    /// it begins again.
    ///
    /// `InvalidArgument`, by which the session stays as it was: the setting `recovery` is off, or the group cannot. After
    /// another error the session is over: the job is to be started again. (Paper 002, section 4.2.) Collective.
    pub fn recover(&mut self) -> Result<Recovered> {
        let noticed = Instant::now();
        let group = self.ours()?.going_on()?;
        let Some(inner) = self.inner.take() else { return Ok(Recovered::default()) };
        let (inner, recovered) = inner.go_on(group, noticed.elapsed())?;
        self.inner = Some(inner);
        Ok(recovered)
    }

    /// Adds a region to what is saved and restored. Local. `DuplicateName`: a region has the name. `InvalidArgument`, with both
    /// names: it has bytes of another region, which a restore would fill with both. Variables that `protect_globals` has found
    /// may have a name of their own besides.
    pub fn protect(&mut self, region: Region) -> Result<()> {
        self.ours()?.protect(region)
    }

    /// Memory for `bytes` bytes, in pages of 2 MiB where the system has them, of zeros; to be protected under `name`, or in
    /// parts. Local. It stays until `free`, or until the session and all that `OwnMemory` was cloned to are gone. With
    /// snapshots it is copied under write protection, which costs the program far less than a clone, unless `how` says
    /// otherwise. `InvalidArgument`: the name has memory already, or its address is taken. `DuplicateName`: a region has the name,
    /// and stays protected.
    pub fn allocate(&mut self, name: &str, bytes: u64, how: Allocated) -> Result<OwnMemory> {
        self.ours()?.allocate(name, bytes, how)
    }

    /// The names under which memory was allocated that is not freed. Local.
    pub fn allocated(&mut self) -> Result<Vec<String>> {
        Ok(self.ours()?.program.allocated.keys().cloned().collect())
    }

    /// `InvalidArgument` if a region of another name lies in the memory that was allocated under `name`, as a part of it: for
    /// callers that have no `OwnMemory`, whose memory is gone after `free`. Local.
    pub fn check_free(&mut self, name: &str) -> Result<()> {
        self.ours()?.check_free(name)
    }

    /// Protects the region `name` no longer, if it is protected, and lets go of its memory, which goes once nobody else has
    /// it, and no snapshot reads it. Local.
    pub fn free(&mut self, name: &str) -> Result<()> {
        self.ours()?.free(name)
    }

    /// Puts `region` in place of the one that is protected under its name, after a `realloc` or a change of its size.
    /// Local. The type stays; so does the place in a global array, if `region` says nothing of it. A name that no
    /// region has is REGION_MISSING. A region that is followed moves with what it follows, which must point to the new
    /// place already.
    pub fn move_region(&mut self, region: Region) -> Result<()> {
        self.ours()?.program.not_begun("move")?.regions.replace(region)
    }

    /// Moves the region `name` to `address`. `shape`: the new shape in elements, slowest dimension first, if it
    /// changes. Errors are those of `move_region`. Local.
    ///
    /// # Safety
    /// The promise is that of [`Region::new`].
    #[allow(unsafe_code)]
    pub unsafe fn move_to(&mut self, name: &str, address: *mut u8, shape: Option<&[u64]>) -> Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.ours()?.program.not_begun("move")?.regions.move_to(name, address, shape) }
    }

    /// Has `look` say where the region `name` lies, given where it was before: for programs that swap pointers. Local.
    /// `look` is called once here, and must find the region where it is protected; once at t1 of each checkpoint (with
    /// `begin` also at the `checkpoint` that ends it, whose size is the one at `begin`), and once at each restore. An
    /// error of `look` is an error of that call, on all ranks. A restore is refused while two regions lie in the same
    /// memory. `look` stays in force until the region is unprotected.
    pub fn follow(
        &mut self,
        name: &str,
        look: impl Fn(&Region) -> Result<Region> + Send + Sync + 'static,
    ) -> Result<()> {
        self.ours()?.program.not_begun("follow")?.regions.follow(name, Look::new(look))
    }

    /// As `follow`, for a region that the program can resize. If it was saved with another shape, a restore calls `resize`
    /// with that shape, slowest side first. Then it calls `look` again, which must find the region in that shape. The type and
    /// the number of sides stay. Boxes of global arrays, and arrays inside larger ones, are not resized. If `resize` fails, the
    /// restore fails on all ranks.
    pub fn follow_resizing(
        &mut self,
        name: &str,
        look: impl Fn(&Region) -> Result<Region> + Send + Sync + 'static,
        resize: impl Fn(&[u64]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        self.ours()?.program.not_begun("follow")?.regions.follow(name, Look::new(look).resizing(resize))
    }

    /// Has what changed of the region `name` found by its hashes, and not by the pages that were written: for memory that
    /// a network card, a GPU or another process writes to, past the page tables of this one. For as long as it is protected,
    /// wherever it moves. Changes nothing unless `capture = "incremental"` and `track` finds pages. A name that no region has
    /// is REGION_MISSING. Local.
    pub fn untrack(&mut self, name: &str) -> Result<()> {
        self.ours()?.program.not_begun("untrack")?.regions.untrack(name)
    }

    /// Says that all ranks have the same bytes in the region `name`, as of a table or of parameters. A restore on another number of
    /// ranks then fills it on all of them; anything larger than a single element that is no box and was not named so is
    /// `RankCount` there. It holds for as long as the region is protected, and each revision notes it; a restore takes the word of
    /// the program that saved or of the one that restores, and compares the bytes of all ranks. `RegionMissing`: no region has the
    /// name. `InvalidArgument`: it is a box of a global array. Local.
    pub fn same_on_all_ranks(&mut self, name: &str) -> Result<()> {
        self.ours()?.program.not_begun("same_on_all_ranks")?.regions.same_on_all_ranks(name)
    }

    /// Protects the region `name` no longer; revisions that hold it stay as they are. Local.
    pub fn unprotect(&mut self, name: &str) -> Result<()> {
        self.ours()?.unprotect(name)
    }

    /// Protects no region any longer, as `unprotect` of each. Local.
    pub fn unprotect_all(&mut self) -> Result<()> {
        self.ours()?.unprotect_all()
    }

    /// Protects the program's own variables, its .data and .bss, as regions whose names begin with `globals/`, to be
    /// restored into a fresh run of the same program. Local. Left out are what the loader and other libraries have there
    /// (copies of their variables, such as `stdout` and the handles of MPI, the table of their functions), Mainstay's own,
    /// what is protected by a name of its own already, and what `leave_out` has named. Variables of shared libraries and of
    /// threads are not among them.
    ///
    /// `handles`: the addresses by which the program knows this session, where variables hold them. After a restore these,
    /// pointers to the beginning of other regions, and pointers into the program that the linker filled in point to what
    /// they pointed to; all others hold the addresses of the run that saved them.
    ///
    /// A revision that holds the globals of another program is refused by `restore`: `OtherProgram`. `InvalidArgument`: the
    /// program is linked statically, or its file cannot be read; or a region is followed that lies among these variables, which
    /// come back with the pointers to them. Where one that has taken variables out of them moves later, the next checkpoint
    /// or restore is refused so.
    ///
    /// # Safety
    /// The promise is that of [`Region::new`], for all these variables.
    #[allow(unsafe_code)]
    pub unsafe fn protect_globals(&mut self, handles: &[usize]) -> Result<()> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.ours()?.protect_globals(handles) }
    }

    /// Protects the [`heap`](crate::heap) of the process: all memory that it has given out, and that it will give out, as
    /// regions whose names begin with `heap/`. Local; in one session at a time. `restore` gives back the heap that was saved, at
    /// the same addresses: memory that this process had from the heap, and that is not part of it, is gone then. It takes as many ranks as saved it. Between
    /// `begin` and the `checkpoint` that ends it the heap may not grow or shrink: `InvalidArgument`.
    ///
    /// # Safety
    /// During `checkpoint` and `restore` nobody else uses the heap. After `restore` the program uses no memory of the heap but
    /// that which was saved.
    #[allow(unsafe_code)]
    pub unsafe fn protect_heap(&mut self) -> Result<()> {
        self.ours()?.protect_heap()
    }

    /// Has `protect_globals`, which comes later, leave out the `bytes` bytes at `address`: they are not saved, and a restore
    /// leaves them as they are. Local.
    pub fn leave_out(&mut self, address: usize, bytes: u64) -> Result<()> {
        self.ours()?.program.not_begun("leave_out")?.globals.leave_out(address, bytes)
    }

    /// Has every revision from now on carry `value` under `name`, until it is set anew. Local. Names have 1 to 200
    /// bytes, values up to 64 KiB; there can be 1000 notes. A restore gives each rank its own notes back. An error once
    /// a checkpoint has begun, which has its notes already.
    pub fn note(&mut self, name: &str, value: &str) -> Result<()> {
        self.ours()?.program.not_begun("note")?.notes.set(name, value)
    }

    /// Names a file that the program appends to, on the rank that writes it alone: a restore or a checkpoint refuses a
    /// file that several ranks name. Local. The file is synced before a revision is published,
    /// its length at t1 is kept, and a restore cuts it back to that: restore before writing to
    /// it, and write out what the program buffers before a checkpoint. A file that is not there yet counts as empty. If
    /// a file is shorter than it was, `restore` fails before anything is filled. Any path to the file will do: it is known
    /// again by its inode, its place and its bytes. A file that is not surely the one stays as it is, and a line on
    /// standard error names it; files that this session has not named stay as they are.
    pub fn protect_output(&mut self, path: &Path) -> Result<()> {
        let inner = self.ours()?;
        inner.levels.check_not_own(path)?;
        inner.program.not_begun("protect_output")?.outputs.add(path)
    }

    /// Has the next collective call do nothing and return `error` on all ranks: for a front that has failed on this
    /// rank before the call, while the other ranks are in the call already. The other arguments of that call do not
    /// count. Local. Of several errors the first is told. A `due` at which the ranks do not meet leaves the error to
    /// the next call; a `checkpoint` that ends a begun one, which is local, returns the error on this rank, and its
    /// revision fails on all.
    pub fn refuse(&mut self, error: Error) {
        // If the session is not this process's, the call itself says so.
        if let Ok(inner) = self.ours() {
            inner.program.refuse(error);
        }
    }

    /// Fills the protected regions with the newest complete revision that can be read whole, the same on all ranks;
    /// `None` if the space holds none. Collective.
    ///
    /// All ranks together pass over a revision that is damaged, or that a device still cannot read after several tries;
    /// `skipped` tells of it. If no revision is left, that is an error, of the kind `Io` if nothing was damaged, and
    /// the regions are undefined. They are undefined too if the group fails, if a rank can have no more files or
    /// memory, or if the root of the new lineage, which comes last, cannot be written. Regions that do not fit, another
    /// number of ranks, a shard out of sight and a conflict of lineages are found before anything is filled.
    pub fn restore(&mut self) -> Result<Option<Restored>> {
        let inner = self.ours()?;
        let restored = inner.reading(|inner| inner.restore(None));
        inner.tick().and(restored)
    }

    /// As `restore`, of the revision of this number alone: the program goes on from there, and newer revisions are kept no
    /// longer from the next checkpoint on, but for held ones. `RevisionMissing` on all ranks if it is not there whole, before
    /// anything is filled. Collective, with the same number on all ranks.
    pub fn restore_revision(&mut self, revision: u64) -> Result<Option<Restored>> {
        let inner = self.ours()?;
        let restored = inner.reading(|inner| inner.restore(Some(revision)));
        inner.tick().and(restored)
    }

    /// Saves all protected regions as a new revision and returns its number at t2: the program may go on and change its
    /// memory. Collective: one small all-reduce and nothing after it, unless somebody has taken or released a hold
    /// since the last checkpoint.
    ///
    /// An error of this revision that shows later is told by `wait`, `poll` and `close`, or else by the next
    /// `checkpoint`, which then saves nothing: call it again. Refused (`NotRestored`) if it would push out a revision
    /// that an earlier job has saved and this session has not read; so are `begin` and `due`, and `put` once a revision
    /// has to go.
    pub fn checkpoint(&mut self) -> Result<u64> {
        self.refuse_without_saver();
        self.ours()?.answering(|inner| {
            let ready = inner.program.ready();
            inner.checkpoint(ready)
        })
    }

    /// t1 of a checkpoint that the program writes in pieces: `write` them, then `checkpoint` adds the regions and
    /// returns at t2. Collective. `bytes`: the most that this rank is going to write in pieces, one that lies over another
    /// counted once more, with the gaps between them; the first checkpoint of a space sizes the portions by it. Returns the number that the revision gets. If a
    /// rank left the checkpoint before without `checkpoint` or `abandon`, that one is given up, and `begin` fails on
    /// all ranks: call it again.
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

    /// Writes `bytes` at `offset` of the stream `name`: an item that exists in the revision that was begun, and grows
    /// as it is written. Pieces can come in any order and size; where they overlap the last one counts, and skipped
    /// bytes are zero. Local; the memory is the program's again when it returns. An error is told by `checkpoint` too,
    /// which then saves nothing.
    pub fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        self.ours()?.write(name, offset, bytes)
    }

    /// The length of the stream `name` as written since `begin`; 0 if nothing was. Local.
    pub fn written_bytes(&mut self, name: &str) -> Result<u64> {
        self.ours()?.program.written_bytes(name)
    }

    /// Gives up the checkpoint that was begun. Collective: all ranks do, or none; an error if a rank has ended it or
    /// none has begun. Nothing of the checkpoint is kept, and the revisions that all ranks have stay as they were. Its
    /// number is used up: the next checkpoint gets the one after it. Whoever asked for a checkpoint from outside gets
    /// the next one.
    pub fn abandon(&mut self) -> Result<()> {
        self.ours()?.abandon()
    }

    /// Reads from the stream `name` of the revision that the last `restore` brought back, and verifies. Returns how
    /// many bytes were read, fewer than asked for only at the end of the stream. Local; possible until the next
    /// checkpoint begins.
    pub fn read(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.ours()?.program.reading.read(name, offset, into)
    }

    /// The streams of this rank in the revision that the last `restore` brought back: names and bytes.
    pub fn streams(&mut self) -> Result<Vec<(String, u64)>> {
        self.ours()?.program.reading.streams()
    }

    /// The length of the stream `name`, as `streams` lists it.
    pub fn stream_bytes(&mut self, name: &str) -> Result<u64> {
        self.ours()?.program.reading.stream_bytes(name)
    }

    /// How many shards the revision has that the last `restore` brought back, and which of them this rank can read by
    /// itself with `read_shard`, without a message: those in the memory of its node, its own and the copies that it holds,
    /// or all in files that it sees. Where as many ranks saved it, of a level without copies its own alone. Local; empty
    /// before a restore, and once a checkpoint has begun.
    pub fn shards(&mut self) -> Result<ShardsHere> {
        Ok(self.ours()?.program.shards.here())
    }

    /// Has this rank read the shards `wanted` of the revision that the last `restore` brought back, whatever the number of
    /// ranks that saved it: those that lie on other nodes alone are sent, into memory of this rank, and of each that a level
    /// with copies has, a copy that is whole is taken. From then on `shard` tells of all shards; without any that is `wanted`
    /// that is all. Collective, with what each rank wants; until the next checkpoint begins. `InvalidArgument`: nothing was
    /// restored, a checkpoint has begun since, or there is no such shard. `Damaged`: no copy of a shard is whole.
    pub fn bring_shards(&mut self, wanted: &[u32]) -> Result<()> {
        self.ours()?.bring_shards(wanted)
    }

    /// What the shard consists of that rank number `shard` saved in the revision that the last `restore` brought back: of
    /// one that `shards` lists, and of any after `bring_shards`. Local; until the next checkpoint begins.
    pub fn shard(&mut self, shard: u32) -> Result<ShardItems> {
        self.ours()?.program.shards.items(shard)
    }

    /// Reads from the item `name`, a region or a stream, of the shard that rank number `shard` saved in the revision that
    /// the last `restore` brought back, and verifies. Returns how many bytes were read, fewer than asked for only at the
    /// item's end. `InvalidArgument`: `shards` does not list it; `bring_shards` brings it. Local; until the next checkpoint
    /// begins.
    pub fn read_shard(&mut self, shard: u32, name: &str, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.ours()?.program.shards.read(shard, name, offset, into)
    }

    /// The length of an item, as `read_shard` reads it.
    pub fn shard_item_bytes(&mut self, shard: u32, name: &str) -> Result<u64> {
        self.ours()?.program.shards.bytes(shard, name)
    }

    /// Has restores take another revision than the one that the last `restore` brought back, or the same from a farther
    /// level: for a layer on this session that has read its shards, and found `what` damaged. All ranks say so alike, and
    /// restore again; what that brings back tells of it. Local. `InvalidArgument`: nothing was restored, or a checkpoint has
    /// begun since.
    pub fn pass_over(&mut self, what: Vec<String>) -> Result<()> {
        let program = &mut self.ours()?.program;
        let Some(of) = program.shards.of() else {
            let why = "nothing was restored, or a checkpoint has begun since; call it between the two";
            return Err(Error::argument("pass_over", why));
        };
        program.passed_over.push((of, what));
        Ok(())
    }

    /// This rank's node: what `MAINSTAY_NODE` calls it, or else the kernel, as `mainstay status` does; the kernel's name for
    /// it; and the lowest rank of those that are on it. Local.
    pub fn node(&mut self) -> Result<(String, String, usize)> {
        let lowest = self.ours()?.epoch.node as usize;
        let (name, host) = node_name();
        Ok((name, host, lowest))
    }

    /// Whether this rank is to hold copies of other ranks' shards, as all do at first: not on a node that is about to fail.
    /// Waits for the last revision, and chooses the holders of all copies anew; what former ones hold counts until the next
    /// revision is complete, which goes to the new ones. It stays so through recoveries. Ranks that are to hold none hold on
    /// where the others are on fewer nodes than a shard has copies. An error of the last revision is told as by `wait`, and
    /// has changed nothing; after another one the session is over. Collective, with what each rank wants.
    pub fn hold_copies(&mut self, holds: bool) -> Result<Handed> {
        self.ours()?.hold_copies(holds)
    }

    /// The node that all objects are to leave before the next checkpoint, if somebody waits for that
    /// (`mainstay evacuate`); known on rank 0 alone, from a `due` that returned true to the checkpoint. Local.
    pub fn node_to_leave(&mut self) -> Result<Option<String>> {
        let listener = &self.ours()?.program.due.listener;
        Ok(listener.as_ref().and_then(|listener| listener.node_to_leave()).map(str::to_owned))
    }

    /// Has the next checkpoint tell whoever waits what came of `node_to_leave`: how many objects have left it, with what
    /// became of the copies there, or why they stay. On rank 0. Local.
    pub fn has_left(&mut self, came: std::result::Result<(u64, Handed), String>) -> Result<()> {
        if let Some(listener) = &mut self.ours()?.program.due.listener {
            listener.has_emptied(match came {
                Ok((objects, Handed { left, stay })) => Emptied::Moved { objects, copies: left, copies_stay: stay },
                Err(why) => Emptied::Refused(why),
            });
        }
        Ok(())
    }

    /// Saves `bytes` under `name`, with the protected regions if there are any, as the next revision, and waits until
    /// it is complete: durable on all ranks. Returns its number. A restore leaves it for `get`, unless a region has its name. Collective; each rank can give another number of bytes
    /// at each call. An error on any rank is told on all, and earlier revisions are as they were.
    pub fn put(&mut self, name: &str, bytes: &[u8]) -> Result<u64> {
        self.has_more = true;
        self.refuse_without_saver();
        self.ours()?.answering(|inner| inner.put(name, bytes))
    }

    /// Fills `into` from the beginning with what this rank saved under `name`, a region or a stream, in `revision`.
    /// Without one, the ranks together try the newest revision first and then older ones, as in `restore`. `None` if
    /// nothing was saved yet. Collective; every block of the shard is verified. If the last revision failed, or a rank
    /// left it unfinished, the call tells that instead, once: call it again.
    ///
    /// Nothing else changes: later checkpoints go on as if nobody had read. Too little room on any rank, a name that
    /// was not saved, a revision that is not there and another number of ranks are told before anything is filled;
    /// after another error `into` is undefined.
    pub fn get(&mut self, revision: Option<u64>, name: &str, into: &mut [u8]) -> Result<Option<Got>> {
        self.ours()?.reading(|inner| inner.get(revision, name, into))
    }

    /// How many bytes `get` would fill in on this rank, if nothing is damaged. Collective.
    pub fn get_bytes(&mut self, revision: Option<u64>, name: &str) -> Result<Option<u64>> {
        self.ours()?.reading(|inner| inner.get_bytes(revision, name))
    }

    /// The item that this rank saved under `name`: its type, shape and size, so that you can protect memory of that size before
    /// the restore. It comes from the revision that `restore` tries first, or from the one of this number. `None`: no revision
    /// is there, or none of that name in it. If another number of ranks saved the revision, the item is that of the first shard
    /// which has one. Collective: all ranks call it equally often, and each may give another name.
    ///
    /// Only `restore` verifies blocks. If it finds the newest revision damaged, it goes back to an older one, which may have
    /// other sizes. Regions of `follow_resizing` get the older size; for all others the restore fails. Then ask for
    /// the older revision here, protect that size, and call `restore_revision`.
    pub fn saved(&mut self, revision: Option<u64>, name: &str) -> Result<Option<Item>> {
        self.ours()?.reading(|inner| inner.saved(revision, name))
    }

    /// Whether a checkpoint should be taken now that the program has done `step` steps: `true` on all ranks, or on
    /// none. Every rank calls it at the same steps with the same number. A checkpoint is due by the settings
    /// `every_steps`, `every` and `mtbf`, by the signal `checkpoint_signal` on any rank, and when someone asks from
    /// outside (`mainstay checkpoint`).
    ///
    /// While the last revision is not durable on the nearest level of any rank, none is due by steps or time: it is due at
    /// the next step after that, unless `when_busy` says otherwise. A signal, and who asks from outside, are never put off.
    ///
    /// Most calls only count; about every `agree_every`, and where steps make a checkpoint due, one is collective, a small
    /// all-reduce (`session/schedule.rs` says how the ranks know when). That one gives up a checkpoint that was begun and not ended, as the next call
    /// tells. Refused, as calls that save are, if the program has not restored (`Start::Restored`).
    pub fn due(&mut self, step: u64) -> Result<bool> {
        self.ours()?.due(step)
    }

    /// A moment between two steps of the program at which it may be seen what it has written since the moment before: where
    /// one phase of a step ends and the next begins. With `trace` it is recorded, and a `predictor` learns from it which pages
    /// can be saved; else nothing happens. Local, never waits for a write.
    pub fn tick(&mut self) -> Result<()> {
        self.ours()?.tick()
    }

    /// Says that the program will not write `bytes` bytes of the region `name`, from `offset` on, again before its next
    /// checkpoint: with a `predictor` they are saved at once, in the background (paper 004 calls it user-level checkpointing).
    /// What is written again all the same is saved again. Without a predictor, and of memory whose pages are not told, nothing
    /// happens, nor of bytes that a region which is followed did not have when it was last asked for. `RegionMissing`: no
    /// region has the name; `InvalidArgument`: the region has fewer bytes, and is not followed. Local, never waits for a write.
    pub fn settled(&mut self, name: &str, offset: u64, bytes: u64) -> Result<()> {
        self.ours()?.settled(name, offset, bytes)
    }

    /// What saving early has come to on this rank. Local.
    pub fn speculation(&mut self) -> Result<Speculation> {
        Ok(self.ours()?.speculation())
    }

    /// Waits until the last revision is complete on all ranks. Collective. An error, the same on every rank, means that
    /// the revision is not complete; earlier ones are as they were. After a failed sync, or a failure of the group, the
    /// revision may yet be found complete when the space is opened again. All ranks are told of a failure once, here or
    /// by `checkpoint`. Then nothing is under way, and `wait` returns `Ok` until the next checkpoint, though the
    /// revision that failed is not there.
    pub fn wait(&mut self) -> Result<()> {
        self.ours()?.untraced(|inner| inner.wait_for_all(Call::Wait))
    }

    /// Waits until the last revision that went to the level `level` is complete there on all ranks; levels behind it go on
    /// meanwhile, and are not waited for. The nearest level is waited for in any case, and told of as `wait` does.
    /// Collective. `InvalidArgument` if the session has no such level, or ranks wait for different ones; another error, the
    /// same on every rank, means that the level did not get the revision, and is told once. A revision that found the level
    /// busy at its turn did not go there.
    pub fn wait_for(&mut self, level: LevelKind) -> Result<()> {
        self.ours()?.untraced(|inner| inner.wait_for(level))
    }

    /// Moves on what is under way between this rank and others, such as copies that go to other nodes: for programs that
    /// compute for long between two calls of their session. Local, never waits. What fails is told by `wait`, `close` or
    /// the next checkpoint; an error here means that the session is over.
    pub fn progress(&mut self) -> Result<()> {
        self.ours()?.move_on()
    }

    /// Whether this rank's part of the last revision is durable. Local, never waits. If another rank writes for this
    /// one, the medium is looked at, and a failure is told by `wait` alone. `true` also if nothing is under way:
    /// nothing was saved yet, or all ranks were told that the last revision failed.
    pub fn poll(&mut self) -> Result<bool> {
        self.ours()?.poll()
    }

    /// Sizes and times of the last checkpoint whose part of this rank is durable. Local, never waits.
    pub fn last_record(&mut self) -> Result<Option<Record>> {
        Ok(self.ours()?.levels.nearest_mut().last_record())
    }

    /// Ends the session in order. Collective. Waits for the last revision; an error says that the revision, or the end
    /// itself, failed, and the session is over all the same. If other ranks make another call meanwhile
    /// (`CallMismatch`), the session is over there too, and all that is left to them is to close it.
    pub fn close(mut self) -> Result<()> {
        self.ours()?;
        let saved = if rehearsal::is_one() { self.save_the_end() } else { Ok(()) };
        let closed = self.inner.take().map_or(Ok(()), Inner::close);
        saved.and(closed)
    }

    /// Saves the state at the end of a rehearsal: two runs end at the same step, but may have saved at different ones. Not
    /// where the program's own revisions have more than its regions: this one would lack it. Collective.
    fn save_the_end(&mut self) -> Result<()> {
        if self.has_more {
            return Ok(());
        }
        let saved = self.ours()?.answering(|inner| {
            // One rank may have restored streams, and another none: all are told.
            let lacks = Error::argument("close", "the end of a rehearsal has no streams");
            let ready = if inner.program.reading.has_streams() { Err(lacks) } else { inner.program.ready() };
            inner.checkpoint(ready)
        });
        match saved {
            Ok(number) => self.ours()?.report.iter().for_each(|report| report.end_saved(number)),
            Err(Error::InvalidArgument { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Ends the session of this rank without the others, as after an error that is this rank's alone: its part of the last
    /// revision becomes durable, and the session is not noted as ended in order. With one rank it is [`close`](Self::close).
    /// Local; in a job that goes on when ranks fail it may take 10 s.
    pub fn leave(mut self) -> Result<()> {
        let inner = self.ours()?;
        if inner.epoch.group.size() == 1 { self.close() } else { Ok(()) }
    }

    fn open_from(group: Box<dyn Group>, whence: Whence, config: &Config) -> Result<Session> {
        let inner = Inner::open(group, &whence, config, Remains::default())?;
        Ok(Session { inner: Some(inner), pid: process::id(), saver: Weak::new(), has_more: false })
    }

    fn ours(&mut self) -> Result<&mut Inner> {
        let is_ours = self.pid == process::id();
        match &mut self.inner {
            Some(inner) if is_ours => Ok(inner),
            _ if is_ours => Err(Error::argument("session", "a recovery that failed has ended it; start the job again")),
            _ => {
                let why = format!("it was opened by process {} and not by this child of it; open one here", self.pid);
                Err(Error::argument("session", why))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.pid != process::id() {
            // The threads that a drop would wait for, and the communicator, are the parent's.
            std::mem::forget(self.inner.take());
        }
    }
}
