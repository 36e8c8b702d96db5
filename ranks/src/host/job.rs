//! A job as one process has it: begins or is brought back, runs, is saved, ends.

use super::{
    Ended, Rank, State,
    trap::{Trap, block_signals},
    turns::Turns,
};
use crate::{
    Result, Wire,
    message::{Mailbox, Post},
    save::{Back, Saver, bring_back},
    slot::{Program, Slots},
};
use mainstay_engine::Session;
use std::time::{Duration, Instant};

/// How often process 0 asks whether a checkpoint is due.
const ASK_EVERY: Duration = Duration::from_millis(1);

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
}

pub(super) struct Job<'a> {
    session: &'a mut Session,
    pub(super) post: Post,
    pub(super) ranks: Vec<Rank>,
    program: Program,
    saver: Saver,
    trap: Trap,
    asked: Instant,
    is_due: bool,
    /// On process 0: the ranks that have ended, and the first exit code that is not 0.
    ended: usize,
    code: i32,
}

impl<'a> Job<'a> {
    /// The job, from the newest revision of the space or from the beginning of the program. Collective.
    pub fn begin(session: &'a mut Session, wire: Box<dyn Wire>, program: Program, wanted: usize) -> Result<Job<'a>> {
        block_signals();
        session.any_number_of_ranks()?;
        let me = (wire.process(), wire.processes());
        let Back { slots, places, ranks, saver } = match bring_back(session, &program, wanted, me)? {
            Some(back) => back,
            None => started(&program, if wanted == 0 { me.1 } else { wanted }, me)?,
        };
        let mut post = Post::new(wire, slots);
        post.begin(places, 0);
        let (mut here, mut codes) = (Vec::new(), Vec::new());
        for (rank, mailbox) in ranks {
            post.enter(rank.number, mailbox);
            codes.extend(if let State::Ended(code) = rank.state { Some(code) } else { None });
            here.push(rank);
        }
        // No rank runs before every process has its own: they may use the same files.
        post.sum(&mut [0])?;
        codes.into_iter().try_for_each(|code| post.tell(0, word::RANK_ENDED, code as u64))?;
        Ok(Job {
            session,
            post,
            ranks: here,
            program,
            saver,
            trap: Trap::set()?,
            asked: Instant::now(),
            is_due: false,
            ended: 0,
            code: 0,
        })
    }

    pub fn run(mut self) -> Result<Ended> {
        let mut turns = Turns::default();
        loop {
            let ran = turns.run(&mut self.ranks, &mut self.post, &mut self.trap)?;
            self.tell_remarks();
            if let Some(code) = ran.aborted {
                return Ok(Ended::Aborted(code));
            }
            for code in ran.ended {
                self.post.tell(0, word::RANK_ENDED, code as u64)?;
            }
            let news = self.post.poll()?;
            if let Some(code) = self.obey()? {
                self.finish()?;
                return Ok(Ended::Whole(code));
            }
            self.ask()?;
            turns.rest(ran.any || news, &self.ranks, self.post.processes())?;
        }
    }

    /// Prints the remarks on the ranks' system calls at once: a rank may end because of a refused one.
    fn tell_remarks(&mut self) {
        for remark in self.ranks.iter_mut().flat_map(|rank| rank.system.remarks.drain(..)) {
            eprintln!("mainstay: {remark}");
        }
    }

    /// Does what other hosts have told this one. Returns the exit code of the job once it is to end.
    fn obey(&mut self) -> Result<Option<i32>> {
        for control in self.post.told() {
            match control.word {
                word::SAVE => self.save()?,
                word::IS_DUE => self.is_due = true,
                word::RANK_ENDED => {
                    self.ended += 1;
                    self.code = if self.code == 0 { control.value as i32 } else { self.code };
                    if self.ended == self.post.slots().ranks {
                        self.tell_all(word::END, self.code as u64)?;
                        return Ok(Some(self.code));
                    }
                }
                word::END => return Ok(Some(control.value as i32)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Process 0 decides when to save; another tells it what it knows.
    fn ask(&mut self) -> Result<()> {
        if self.asked.elapsed() < ASK_EVERY {
            return Ok(());
        }
        self.asked = Instant::now();
        let is_due = self.session.is_due_here()?;
        if self.post.process() == 0 {
            if is_due || std::mem::take(&mut self.is_due) {
                self.tell_all(word::SAVE, 0)?;
                self.save()?;
            }
        } else if is_due != self.is_due {
            self.is_due = is_due;
            if is_due {
                self.post.tell(0, word::IS_DUE, 0)?;
            }
        }
        Ok(())
    }

    fn tell_all(&mut self, word: u64, value: u64) -> Result<()> {
        (1..self.post.processes()).try_for_each(|process| self.post.tell(process, word, value))
    }

    /// Saves all ranks, if a checkpoint is due. Collective.
    fn save(&mut self) -> Result<()> {
        if self.session.due_now()? {
            self.post.drain()?;
            self.saver.save(self.session, &mut self.ranks, &mut self.post, &self.program)?;
        }
        Ok(())
    }

    /// The last revision says that the job has ended: the next start is a new one.
    fn finish(&mut self) -> Result<()> {
        self.post.drain()?;
        self.saver.save_end(self.session, &self.program)
    }
}

/// The ranks of this process at the beginning of the program, in equal shares.
fn started(program: &Program, ranks: usize, (process, processes): (usize, usize)) -> Result<Back> {
    let slots = Slots::of(ranks)?;
    let places: Vec<u32> = (0..ranks).map(|rank| (rank * processes / ranks) as u32).collect();
    let mine = (0..ranks as u32).filter(|rank| places[*rank as usize] as usize == process);
    let new = |rank: u32| Ok((Rank::new(slots.slot(rank as usize), rank, program)?, Mailbox::default()));
    let ranks = mine.map(new).collect::<Result<Vec<_>>>()?;
    Ok(Back { slots, places, ranks, saver: Saver::default() })
}
