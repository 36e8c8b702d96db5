//! The readers of foreign bytes that no public function reaches alone, for `mainstay-fuzz`.

use crate::{
    Result, Wire,
    address::Slots,
    elf::{Executable, build_id, exports, imports},
    message::{Mailbox, Post, each_kind},
    rank::{Node, Rank, saved_pair},
    save::{SavedJob, check_fits, pair_from_bytes, pair_to_bytes, saved_parts},
    slot::Program,
};
use std::{ffi::OsString, fs::File, path::Path};

/// Ranks of the job that receives messages. Each is in a process of its own; this process has the first.
const RANKS: usize = 2;

/// The length of a program in memory, and the number of its names.
pub fn program(file: &File) -> Result<(usize, usize)> {
    let path = Path::new("program");
    let found = Executable::read(file, path)?;
    found.must_be_dynamic(path)?;
    let names = imports(file).len() + exports(file).len() + found.libraries.len();
    Ok((found.span(), names + usize::from(build_id(file).is_some())))
}

/// The record of a job, written again.
pub fn job(bytes: &[u8]) -> Result<Vec<u8>> {
    SavedJob::from_bytes(bytes)?.to_bytes()
}

/// The record of a job that runs this program.
pub fn job_of(program: &[OsString]) -> Result<Vec<u8>> {
    SavedJob::new(RANKS, &Program::find(program, &Default::default())?).to_bytes()
}

/// The record of a rank, written again. It fits the slot of its rank.
pub fn rank(bytes: &[u8]) -> Result<Vec<u8>> {
    let pair = pair_from_bytes(bytes)?;
    let number = pair.rank.number;
    check_fits(&pair, number, Slots::of(RANKS)?)?;
    saved_parts(Slots::of(RANKS)?.slot(number as usize), &pair.rank).count();
    pair_to_bytes(&pair)
}

/// The record of a new rank of the program.
pub fn rank_of(program: &[OsString]) -> Result<Vec<u8>> {
    let program = Program::find(program, &Default::default())?;
    let node = Node { number: 0, name: "n0".to_owned() };
    let mut rank = Rank::new(Slots::of(RANKS)?.slot(1), 1, &program, node, false)?;
    pair_to_bytes(&saved_pair(&mut rank, &Mailbox::default())?)
}

/// Takes in messages of another process. Returns the number of words and parts among them.
pub fn messages(messages: &[&[u8]]) -> Result<usize> {
    let others = Others(messages.iter().rev().map(|message| message.to_vec()).collect());
    let mut post = Post::new(Box::new(others), Slots::of(RANKS)?);
    post.begin(Slots::of(RANKS)?, vec![0, 1]);
    post.enter(0, Mailbox::default());
    post.poll()?;
    Ok(post.controls().len() + post.parts().len())
}

/// A message of each kind, with this body.
pub fn messages_of(body: &[u8]) -> Vec<Vec<u8>> {
    each_kind(body)
}

/// The messages that arrive, the last one first.
struct Others(Vec<Vec<u8>>);

impl Wire for Others {
    fn process(&self) -> usize {
        0
    }

    fn processes(&self) -> usize {
        RANKS
    }

    fn send(&mut self, _: usize, _: &[u8], _: &[u8]) -> mainstay_engine::Result<()> {
        Ok(())
    }

    fn receive(&mut self, takes: &mut dyn FnMut(usize, &[u8])) -> mainstay_engine::Result<bool> {
        Ok(self.0.pop().inspect(|message| takes(1, message)).is_some())
    }

    fn sum(&mut self, _: &mut [u64]) -> mainstay_engine::Result<()> {
        Ok(())
    }
}
