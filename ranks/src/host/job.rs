//! A job as one process has it: begins or is brought back, runs, is saved, recovers, ends.

use super::{
    Ended, Options,
    moving::Balance,
    trap::{Trap, block_signals},
    turns::Turns,
};
use crate::{
    Error, Result, Wire,
    address::Slots,
    memory,
    message::{Mailbox, Post},
    rank::{Node, Rank, SavedPair, State},
    run_report,
    save::{Back, Saver, bring_back},
    slot::{Library, Program},
};
use mainstay_engine::{ErrorKind, Session, say};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How often process 0 asks whether a checkpoint is due, and every process looks for failed ones.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// The pause after a failed checkpoint, before the next one.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The words that hosts tell each other.
mod word {
    /// To all: save now.
    pub const SAVE: u64 = 1;
    /// To process 0: this one knows a reason to save.
    pub const IS_DUE: u64 = 2;
    /// To process 0: a rank has ended, with the exit code of the value.
    pub const RANK_ENDED: u64 = 3;
    /// To all: every rank has ended. The value is the exit code.
    pub const END: u64 = 4;
    /// To all: move ranks for an even load.
    pub const BALANCE: u64 = 5;
}

pub(super) struct Job<'a> {
    pub(super) session: &'a mut Session,
    pub(super) post: Post,
    pub(super) ranks: Vec<Rank>,
    pub(super) saver: Saver,
    program: Program,
    /// The number of ranks that the user asks for; 0: any.
    wanted: usize,
    with_libraries: bool,
    trap: Trap,
    asked_at: Instant,
    is_due: bool,
    /// The time of the last checkpoint, if it failed.
    failed_at: Option<Instant>,
    balance: Option<Balance>,
    pub(super) balanced_at: Instant,
    /// No rank runs in this process any more, because its node is about to fail.
    pub(super) is_given_up: bool,
    /// The ranks on their way to this process, by their numbers.
    pub(super) arriving: BTreeMap<u32, SavedPair>,
    tally: Tally,
}

/// On process 0: the ranks that have ended, and the first exit code that is not 0.
#[derive(Default)]
struct Tally {
    ended: usize,
    code: i32,
}

impl<'a> Job<'a> {
    pub fn new(session: &'a mut Session, wire: Box<dyn Wire>, options: &Options) -> Result<Job<'a>> {
        let program = Program::find(&options.program, &Library::in_folder(&options.library))?;
        block_signals();
        session.any_number_of_ranks()?;
        Ok(Job {
            session,
            post: Post::new(wire, Slots::of(options.ranks.max(1))?),
            ranks: Vec::new(),
            saver: Saver::default(),
            program,
            wanted: options.ranks,
            with_libraries: options.with_libraries,
            trap: Trap::set()?,
            asked_at: Instant::now(),
            is_due: false,
            failed_at: None,
            balance: options.balance,
            balanced_at: Instant::now(),
            is_given_up: false,
            arriving: BTreeMap::new(),
            tally: Tally::default(),
        })
    }

    /// Runs the job to its end, through failures of processes if the session survives them.
    pub fn run(mut self) -> Result<Ended> {
        let mut done = self.begin().and_then(|()| self.work());
        while let Err(error) = &done {
            if !is_of_group(error) || !self.recover()? {
                break;
            }
            done = self.begin().and_then(|()| self.work());
        }
        done
    }

    /// Brings the ranks of this process back from the newest revision, or starts them. Collective.
    fn begin(&mut self) -> Result<()> {
        let me = (self.post.process(), self.post.processes());
        let back = bring_back(self.session, &self.program, self.wanted, me);
        let back = match self.all_agree(back)? {
            Some(back) => back,
            None => {
                let started = self.started(me);
                self.all_agree(started)?
            }
        };
        self.wanted = back.slots.ranks;
        self.post.begin(back.slots, back.places);
        self.saver = Saver::default();
        self.tally = Tally::default();
        let mut codes = Vec::new();
        for (rank, mailbox) in back.ranks {
            self.post.enter(rank.number, mailbox);
            codes.extend(if let State::Ended(code) = rank.state { Some(code) } else { None });
            self.ranks.push(rank);
        }
        // No rank runs before every process has its own: they may use the same files.
        self.post.sum(&mut [0])?;
        codes.into_iter().try_for_each(|code| self.post.tell(0, word::RANK_ENDED, code as u64))
    }

    /// All processes go on, or none. Collective.
    fn all_agree<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if matches!(&outcome, Err(error) if is_of_group(error)) {
            return outcome;
        }
        let mut failed = [u64::from(outcome.is_err())];
        self.post.sum(&mut failed)?;
        match outcome {
            Ok(_) if failed[0] > 0 => Err(Error::Refused("another process cannot go on".to_owned())),
            outcome => outcome,
        }
    }

    /// The ranks of this process at the beginning of the program, in equal shares.
    fn started(&mut self, (process, processes): (usize, usize)) -> Result<Back> {
        let ranks = if self.wanted == 0 { processes } else { self.wanted };
        let slots = Slots::of(ranks)?;
        let (name, _, lowest) = self.session.node()?;
        let node = Node { number: lowest as u32, name };
        let places: Vec<u32> = (0..ranks).map(|rank| (rank * processes / ranks) as u32).collect();
        let mine = (0..ranks as u32).filter(|rank| places[*rank as usize] as usize == process);
        let new = |rank: u32| {
            let slot = slots.slot(rank as usize);
            Ok((Rank::new(slot, rank, &self.program, node.clone(), self.with_libraries)?, Mailbox::default()))
        };
        let ranks = mine.map(new).collect::<Result<Vec<_>>>()?;
        Ok(Back { slots, places, ranks })
    }

    fn work(&mut self) -> Result<Ended> {
        let mut turns = Turns::default();
        loop {
            let round = turns.run(&mut self.ranks, &mut self.post, &mut self.trap);
            self.tell_remarks();
            let round = round?;
            if let Some(code) = round.aborted {
                return Ok(Ended::Aborted(code));
            }
            for code in round.ended {
                self.post.tell(0, word::RANK_ENDED, code as u64)?;
            }
            let news = self.post.poll()?;
            if let Some(code) = self.obey()? {
                self.post.drain()?;
                self.save_end()?;
                if self.post.process() == 0 {
                    run_report::ended(code);
                }
                return Ok(Ended::Whole(code));
            }
            self.ask(round.end)?;
            turns.rest(round.has_run || news, &self.ranks, self.post.processes())?;
        }
    }

    /// Goes on without the processes that have failed. False: the session cannot. Collective.
    fn recover(&mut self) -> Result<bool> {
        self.saver.give_all_up(self.session)?;
        (self.ranks, self.arriving) = (Vec::new(), BTreeMap::new());
        // Also the slots of ranks that had arrived or come back in part.
        memory::clear_all().map_err(|error| Error::system("the slots of the ranks", error))?;
        loop {
            match self.session.recover() {
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::GroupFailed => {}
                Err(error) if error.kind() == ErrorKind::InvalidArgument => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Prints the remarks on the ranks' system calls at once: a rank may end because of a refused one.
    fn tell_remarks(&mut self) {
        for remark in self.ranks.iter_mut().flat_map(|rank| rank.system.remarks.drain(..)) {
            say(&remark);
        }
    }

    /// Obeys the words of other hosts. Returns the exit code of the job once it is to end.
    fn obey(&mut self) -> Result<Option<i32>> {
        for control in self.post.controls() {
            match control.word {
                word::SAVE => self.save()?,
                word::BALANCE => self.move_for_balance()?,
                word::IS_DUE => self.is_due = true,
                word::RANK_ENDED => {
                    let Tally { ended, code } = &mut self.tally;
                    *ended += 1;
                    *code = if *code == 0 { control.value as i32 } else { *code };
                    if *ended == self.post.slots().ranks {
                        let code = *code;
                        self.tell_all(word::END, code as u64)?;
                        return Ok(Some(code));
                    }
                }
                word::END => return Ok(Some(control.value as i32)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Asks, now and then, whether a checkpoint is due. Process 0 decides; the others report to it.
    fn ask(&mut self, now: Instant) -> Result<()> {
        if now < self.asked_at + ASK_EVERY {
            return Ok(());
        }
        self.asked_at = now;
        self.session.check()?;
        if self.failed_at.is_some_and(|failed| failed.elapsed() < AFTER_FAILURE) {
            return Ok(());
        }
        let is_due = self.session.is_due_here()?;
        if self.post.process() == 0 { self.decide(is_due) } else { self.report_due(is_due) }
    }

    fn report_due(&mut self, is_due: bool) -> Result<()> {
        if is_due && !self.is_due {
            self.post.tell(0, word::IS_DUE, 0)?;
        }
        self.is_due = is_due;
        Ok(())
    }

    /// Process 0 decides when to save and when to move ranks.
    fn decide(&mut self, is_due: bool) -> Result<()> {
        if is_due || std::mem::take(&mut self.is_due) {
            self.tell_all(word::SAVE, 0)?;
            self.save()?;
        }
        if self.balance.is_some_and(|balance| self.balanced_at.elapsed() >= balance.every) && self.post.processes() > 1
        {
            self.tell_all(word::BALANCE, 0)?;
            self.move_for_balance()?;
        }
        Ok(())
    }

    fn tell_all(&mut self, word: u64, value: u64) -> Result<()> {
        (1..self.post.processes()).try_for_each(|process| self.post.tell(process, word, value))
    }

    /// Saves all ranks, if a checkpoint is due. Collective.
    fn save(&mut self) -> Result<()> {
        if !self.session.due_now()? {
            return Ok(());
        }
        self.post.drain()?;
        self.leave_node()?;
        let saved = self.saver.save(self.session, &mut self.ranks, &mut self.post, &self.program);
        self.failed_at = saved.is_err().then(Instant::now);
        self.survive(saved)
    }

    /// Saves that the job has ended. Collective.
    fn save_end(&mut self) -> Result<()> {
        let lost = self.ranks.iter_mut().flat_map(|rank| rank.system.removed.all_lost()).collect();
        let saved = self.saver.save_end(self.session, lost, &self.program);
        self.survive(saved)
    }

    /// A job goes on after a failed checkpoint, unless another job has taken over its space or a process has failed.
    fn survive(&mut self, saved: Result<()>) -> Result<()> {
        match saved {
            Err(Error::Engine(error)) if !ends_job(&error) => {
                let advice = "the job goes on; the last revision stays as it was";
                self.session.remark(&format!("a checkpoint failed: {error} ({advice})"));
                Ok(())
            }
            saved => saved,
        }
    }

    /// Moves ranks for an even load. Collective.
    fn move_for_balance(&mut self) -> Result<()> {
        let Some(balance) = self.balance else { return Ok(()) };
        self.post.drain()?;
        self.balance(balance)
    }
}

fn ends_job(error: &mainstay_engine::Error) -> bool {
    matches!(error.kind(), ErrorKind::GroupFailed | ErrorKind::Fenced | ErrorKind::LineageConflict)
}

fn is_of_group(error: &Error) -> bool {
    matches!(error, Error::Engine(error) if error.kind() == ErrorKind::GroupFailed)
}
