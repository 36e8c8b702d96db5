//! The beginning of a checkpoint, t1, in six steps: look at the program, plan the shard, seek room, agree with the other
//! ranks, take the room, stage. Each step returns its findings to the next one.
//!
//! Invariants: until `agree`, a rank decides nothing that the others must know. After `agree`, all ranks take the same
//! way until `stage`. From there on each rank goes its own way, and a later call reports its failure to all.

use super::{
    agreement::{Agreement, LEVELS_MAX, LevelFacts},
    changed::{ChangeTracker, PlannedShard, StagingPlan},
    copying::swap_sizes,
    entry::{Arrival, Call},
    flag::EqualOnAllRanks,
    level::{Level, LevelKind, lost_layout},
    open_checkpoint::{Feeds, OpenCheckpoint},
    outputs::compare_outputs,
    ranks::Entered,
    reading::Reading,
    shard_room::{RoomReport, ShardSizes},
    state::SessionState,
};
use crate::{
    capture::{Marked, Size, size_elsewhere, size_of_delta, tell_of_pointers},
    commit::{Allocation, RevisionKey},
    error::{Error, Result},
    ground::{Instant, unix_ns},
    group::agree,
    place::{ShardSpec, Site},
    space::format::PhaseRecord,
    stage::Publisher,
};
use std::time::Duration;

/// The state of this rank's program, as the checkpoint finds it.
struct FoundState {
    size: Size,
    outputs: Vec<Marked>,
    /// The ranks have not compared this rank's output files as they are now.
    has_new_outputs: bool,
    /// The reason why this rank cannot save its state.
    ready: Result<()>,
    /// The reason why the program may not save yet: it has not restored.
    read: Result<()>,
}

/// The shard that this rank would save.
struct ShardPlan {
    /// The changed parts on the nearest level; `None`: everything is saved.
    changed: Option<PlannedShard>,
    /// The size with room for a shard that shares blocks with older ones once its pieces have come.
    to_lead: Option<Size>,
    /// The size on farther levels.
    elsewhere: Size,
}

/// Room for the shard, as this rank finds it alone.
struct FoundRoom {
    pool: Result<()>,
    levels: Vec<RoomReport>,
}

/// The agreement of all ranks that this revision is saved.
struct Agreed {
    entry: Entered,
    all: Agreement,
    communication: Duration,
}

/// The places of the revision, on all of its levels.
struct TakenRoom {
    nearest: Allocation,
    feeds: Feeds,
}

impl SessionState {
    /// t1 of the checkpoint that `call` begins, with its only communication. Collective.
    pub(super) fn begin(&mut self, call: Call, announced: u64, ready: Result<()>) -> Result<u64> {
        let (started, t1_unix_ns) = (Instant::now(), unix_ns());
        let arrival = self.arrive_to_begin(call)?;
        let mut state = self.look_at_program(call, announced, ready);
        let plan = self.plan_shard(call, &mut state);
        let room = self.seek_room(&state, &plan);
        let agreed = self.agree_to_save(arrival, &state, &room)?;
        let taken = self.take_room(&state, &plan, room, &agreed)?;
        let phases = PhaseRecord {
            t1_unix_ns,
            step: self.program.due.step,
            communication_ns: agreed.communication.as_nanos() as u64,
            ..PhaseRecord::default()
        };
        Ok(self.begin_to_stage(started, phases, state, plan, taken, agreed.all.chunk))
    }

    /// Ends everything that a checkpoint would wait for. Collective.
    fn arrive_to_begin(&mut self, call: Call) -> Result<Arrival> {
        if self.program.due.to_all {
            // No level is to be busy when its turn comes.
            self.levels.split().1.iter_mut().for_each(|level| drop(level.settle()));
        }
        let arrival = self.arrive(call)?;
        // A checkpoint waits for no disk.
        self.finish_copies(call, Some(LevelKind::Memory))?;
        self.open_later_in(call)?;
        Ok(arrival)
    }

    /// Finds the regions, notes and output files, and their size. `announced`: bytes of pieces to come. Local.
    fn look_at_program(&mut self, call: Call, announced: u64, ready: Result<()>) -> FoundState {
        let SessionState { program, resources, .. } = self;
        let (outputs, marked) = match program.outputs.mark() {
            Ok(marked) => (marked, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        let has_new_outputs = program.outputs.look_for_new();
        let before = resources.pooled_bytes_of_heap(&program.regions);
        let looked = program.look();
        resources.foresee(resources.pooled_bytes_of_heap(&program.regions).saturating_sub(before));
        let size =
            Size::new(program.regions.all(), announced, resources.policy.small_below, program.notes.all(), &outputs);
        let ready = ready.and(marked).and(looked);
        FoundState { size, outputs, has_new_outputs, ready, read: self.check_read(call) }
    }

    /// Decides which parts of the shard are saved, and how large it is on each level. Local.
    fn plan_shard(&mut self, call: Call, state: &mut FoundState) -> ShardPlan {
        let changed = self.plan_changed(call, state).unwrap_or_else(|error| {
            state.ready = Err(error);
            None
        });
        let size = &state.size;
        let Some(_) = &self.resources.changing else {
            return ShardPlan { changed, to_lead: None, elsewhere: size.clone() };
        };
        // The changes among pieces show only once the pieces have come.
        let to_lead = (call == Call::Begin).then(|| size_of_delta(size));
        let least = size.at_least(to_lead.as_ref().map_or(0, Size::bytes));
        let of = |planned: Option<&PlannedShard>| size_elsewhere(&least, planned.map(|planned| &planned.plan));
        // Room decides later between the plan and the one without early blocks.
        let without = changed.as_ref().and_then(|planned| planned.without.as_deref());
        let elsewhere = of(changed.as_ref());
        let elsewhere = match without {
            Some(without) => elsewhere.at_least(of(Some(without)).bytes()),
            None => elsewhere,
        };
        ShardPlan { changed, to_lead, elsewhere }
    }

    /// The parts that changed since the last revision; `None`: everything counts as changed. An error if the program
    /// changed a region that it called unchanged. Local.
    fn plan_changed(&mut self, call: Call, state: &FoundState) -> Result<Option<PlannedShard>> {
        let (number, ranks, fills_later) = (self.epoch.next_number, self.epoch.group.size(), self.fills_later());
        let small_below = self.resources.policy.small_below;
        let Some(changing) = &mut self.resources.changing else { return Ok(None) };
        // From here on the checkpoint may use any free block.
        changing.stop_early();
        // Between begin and checkpoint the program goes on, and may change parts that were found clean.
        if call == Call::Begin || state.read.is_err() || state.ready.is_err() {
            return Ok(None);
        }
        let (level, regions) = (self.levels.nearest(), self.program.regions.all());
        changing.plan((level, number, fills_later), ranks, regions, &state.size, small_below)
    }

    /// Whether an I/O thread of this rank can complete an outline later.
    fn fills_later(&self) -> bool {
        self.resources.policy.publisher == Publisher::Threads
    }

    /// Looks for room in the pool and on each level that takes the revision. Local.
    fn seek_room(&mut self, state: &FoundState, plan: &ShardPlan) -> FoundRoom {
        if state.read.is_err() {
            return FoundRoom { pool: Ok(()), levels: self.levels.iter().map(|_| RoomReport::NoTurn).collect() };
        }
        let pool = self.resources.find_pool(&state.size, &self.program.regions);
        let (number, to_all) = (self.epoch.next_number, self.program.due.to_all);
        let (nearest, farther) = self.levels.split();
        let in_nearest = nearest.look_for_room(true, plan.on_nearest(&state.size), &self.epoch).with(&pool);
        let in_farther = farther.iter_mut().map(|level| {
            // The holder of a copy learns the sizes of its shards only after the agreement.
            let has_turn = !level.is_copy() && level.takes(number, to_all);
            if has_turn { level.look_for_room(false, plan.farther(), &self.epoch) } else { RoomReport::NoTurn }
        });
        let levels = [in_nearest].into_iter().chain(in_farther).collect();
        FoundRoom { pool, levels }
    }

    /// The communication of a checkpoint: all ranks save this revision, or none. Collective.
    fn agree_to_save(&mut self, arrival: Arrival, state: &FoundState, room: &FoundRoom) -> Result<Agreed> {
        let asked = Instant::now();
        let mut levels = [LevelFacts::default(); LEVELS_MAX];
        levels.iter_mut().zip(&room.levels).for_each(|(facts, room)| *facts = room.facts());
        let mine = Agreement {
            step: EqualOnAllRanks::of(self.program.due.step),
            levels,
            not_ready: state.ready.is_err().into(),
            new_outputs: state.has_new_outputs.into(),
            anything: (!state.size.is_empty()).into(),
            chunk: self.resources.chunk_facts(),
            early_batch_us: self.resources.changing.as_ref().map_or(0, ChangeTracker::early_batch_us),
            ..Agreement::default()
        };
        let (entry, agreed) = self.enter(arrival, mine)?;
        let (all, communication) = (agreed.all, asked.elapsed());
        self.resources.changing.iter().for_each(|changing| changing.begin_turns(all.early_batch_us));
        self.program.restored.reading = Reading::Over;
        self.program.restored.shards = Default::default();
        self.levels.iter_mut().for_each(|level| level.received = None);
        self.remark_unsaved(&entry);
        let previous = agreed.untold(self.epoch.group.with(&entry));
        self.levels.nearest_mut().history.failing.because(&previous);
        previous?;
        self.program.due.same_steps(all.step)?;
        if all.not_ready.is_set() {
            agree(self.epoch.group.with(&entry), state.ready.clone())?;
        }
        if all.new_outputs.is_set() {
            compare_outputs(self.epoch.group.with(&entry), &mut self.program.outputs)?;
        }
        state.read.clone()?;
        if !all.anything.is_set() {
            // A layout made for nothing would have no room for later data.
            let why = "no rank protects anything, or has announced bytes to begin; protect regions first, or give begin \
                       the bytes that will be written";
            return Err(Error::argument("checkpoint", why));
        }
        Ok(Agreed { entry, all, communication })
    }

    /// Takes room for the revision on all of its levels; makes a larger layout where it finds none. An error is the same
    /// on all ranks. Collective.
    fn take_room(
        &mut self,
        state: &FoundState,
        plan: &ShardPlan,
        room: FoundRoom,
        agreed: &Agreed,
    ) -> Result<TakenRoom> {
        let FoundRoom { pool, levels } = room;
        let mut rooms = levels.into_iter().zip(&agreed.all.levels);
        let (room, facts) = rooms.next().ok_or_else(lost_layout)?;
        let room = room.found().ok_or_else(lost_layout)?;
        let (level, sizes) = (self.levels.nearest_mut(), plan.on_nearest(&state.size));
        let again = |level: &Level, grows| pool.clone().and_then(|()| level.allocate(sizes, &level.complete, grows));
        let found = level.agree_on_room(&self.epoch, &agreed.entry, room, facts, sizes, &again);
        if let Err(error) = &found {
            level.history.failing.again(&Err(error.clone()));
        }
        let nearest = found?.swap_remove(0);
        Ok(TakenRoom { nearest, feeds: self.take_farther_room(plan, rooms, &agreed.entry)? })
    }

    /// Takes room on the farther levels whose turn it is, and that are not busy. An error is one of the group.
    /// Collective.
    fn take_farther_room<'a>(
        &mut self,
        plan: &ShardPlan,
        rooms: impl Iterator<Item = (RoomReport, &'a LevelFacts)>,
        entry: &Entered,
    ) -> Result<Feeds> {
        let (whole, to_all) = (&plan.elsewhere, self.program.due.to_all);
        let number = self.epoch.next_number;
        let mut feeds = Feeds::new();
        for ((index, level), (room, facts)) in (1..).zip(self.levels.split().1).zip(rooms) {
            if !level.takes(number, to_all) {
                continue;
            }
            if level.is_copy() && level.feeding.under_feed.is_some() {
                level.pass_over(RevisionKey::new(self.epoch.lineage, number));
                continue;
            }
            let (found, sizes) = if level.is_copy() {
                let group = self.epoch.group.with(entry);
                let sizes = swap_sizes(group, &mut self.epoch.post, level, whole, entry)?;
                (level.have_room_or_note(&self.epoch, entry, ShardSizes::of_writer(whole, &sizes))?, sizes)
            } else {
                (level.take_turn(&self.epoch, entry, room, facts, plan.farther())?, vec![whole.clone()])
            };
            if let Some(found) = found {
                let sites = (0..).zip(found).map(|(written, allocation)| level.site(written, allocation));
                let sites = sites.collect::<Option<Vec<Site>>>().ok_or_else(lost_layout)?;
                feeds.push((index, sites.into_iter().zip(sizes).collect()));
            }
        }
        Ok(feeds)
    }

    /// Numbers the revision, and begins to stage this rank's shard of it. Returns the number. Local.
    fn begin_to_stage(
        &mut self,
        started: Instant,
        phases: PhaseRecord,
        state: FoundState,
        plan: ShardPlan,
        taken: TakenRoom,
        chunk: [u64; 2],
    ) -> u64 {
        let TakenRoom { nearest: allocation, feeds } = taken;
        let restored = &self.program.restored;
        debug_assert!(matches!(restored.reading, Reading::Over) && restored.shards.of().is_none(), "still readable");
        let key = self.number_revision(&feeds);
        // Without room for the changes alone there is room for everything.
        let planned = plan.changed.and_then(|planned| planned.for_room(&allocation));
        let leads_to_early = planned.as_ref().is_some_and(|planned| !planned.early.is_empty());
        let (base, changes) = planned.map(|PlannedShard { base, plan, .. }| (base, plan)).unzip();
        let late = plan.to_lead.filter(|size| allocation.is_for(size, &[]));
        let is_late = late.is_some();
        let fills_later = self.fills_later();
        let changing = self.resources.changing.as_mut().filter(|_| is_late);
        let compared = changing.map(|changing| changing.compared(self.levels.nearest()));
        let base = base.or_else(|| compared.as_ref().map(|compared| compared.base.clone()));
        let mut size = changes.as_ref().map_or(late.unwrap_or(state.size), |changes| changes.size.clone());
        let changing = self.resources.changing.as_mut();
        size.annex.saved_early = changing.and_then(|changing| changing.tell_saved_early(leads_to_early));
        let changed = self.resources.changing.as_ref().map(ChangeTracker::outlines).map(|outlines| StagingPlan {
            base,
            plan: changes,
            is_late,
            is_indexed: outlines && fills_later,
        });
        let (shards, shard) = (self.epoch.group.size() as u32, self.epoch.group.rank() as u32);
        let intent = ShardSpec { key, shards, shard, size, outputs: state.outputs, started };
        let site = self.levels.nearest().site(0, allocation).ok_or_else(lost_layout);
        let staging = self
            .resources
            .fit_pool(chunk, key.number)
            .and_then(|()| self.resources.stage(intent, site?, phases, changed));
        self.program.begun = Some(OpenCheckpoint { number: key.number, staging, feeds, compared });
        key.number
    }

    /// The key of the revision, which from now on exists: its levels wait for it.
    fn number_revision(&mut self, feeds: &Feeds) -> RevisionKey {
        let key = self.epoch.next();
        self.program.restored.divided = self.program.regions.divided();
        tell_of_pointers(self.epoch.group.rank(), &self.program.regions);
        self.program.due.to_all = false;
        let (_, farther) = self.levels.split();
        feeds.iter().for_each(|(index, _)| farther[*index - 1].feeding.under_feed = Some(key));
        self.levels.keep_for_feeding((!feeds.is_empty()).then_some(key));
        key
    }
}

impl ShardPlan {
    /// The sizes on the nearest level of a shard that is `whole` without changes.
    fn on_nearest<'a>(&'a self, whole: &'a Size) -> ShardSizes<'a> {
        let (planned, to_lead) = (self.changed.as_ref(), self.to_lead.as_ref());
        ShardSizes { planned, to_lead, ..ShardSizes::of_owner(whole) }
    }

    /// The sizes on farther levels that are no copies.
    fn farther(&self) -> ShardSizes<'_> {
        ShardSizes::of_owner(&self.elsewhere)
    }
}
