//! Messages of objects over the simulated group. They are looser than those of MPI: messages that nobody had received when
//! a rank failed arrive after the recovery.

use crate::group::{ProgramChannel, SimulatedGroup, count_message};
use mainstay_engine::{
    Result, current_world,
    group::{Group, Tested},
};
use mainstay_objects::{Arriving, Wire};
use std::{
    any::Any,
    cell::{Cell, RefCell},
    rc::Rc,
};

#[derive(Clone)]
pub(super) struct SimulatedWire(Rc<State>);

struct State {
    channel: ProgramChannel,
    group: RefCell<SimulatedGroup>,
    /// The next exchange carries messages to objects. Each part begins with its epoch.
    is_round: Cell<bool>,
    /// Parts that arrive late, with their senders.
    late: RefCell<Vec<Arriving>>,
    /// The last late part was announced in place of an empty part.
    is_offered: Cell<bool>,
}

/// A number below `end`, drawn by the cluster.
fn drawn(end: u8) -> u8 {
    let mut byte = [0];
    current_world().expect("a thread of the cluster").random(&mut byte);
    byte[0] % end
}

impl SimulatedWire {
    pub fn new(channel: ProgramChannel) -> SimulatedWire {
        let group = RefCell::new(channel.group());
        let (is_round, late, is_offered) = Default::default();
        SimulatedWire(Rc::new(State { channel, group, is_round, late, is_offered }))
    }

    /// The job goes on after a recovery.
    pub fn goes_on(&self) {
        let State { channel, group, is_round, late, .. } = &*self.0;
        let before = group.replace(channel.group());
        if is_round.take() {
            let parts = before.unreceived().into_iter().map(|(from, bytes)| Arriving { from, bytes });
            late.borrow_mut().extend(parts);
        }
    }

    /// Waits for the others, as the end of MPI does: messages of a rank that has left do not arrive.
    pub fn end(&self) {
        let _ = self.0.group.borrow().all_gather(&[]);
    }

    /// Sends and receives, and works meanwhile.
    fn carry(
        &self,
        leaving: &[(usize, &[u8])],
        arriving: &mut [Arriving],
        meanwhile: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let group = self.0.group.borrow();
        let mut under_way = Vec::new();
        for (at, one) in arriving.iter_mut().enumerate() {
            let room = Box::new(std::mem::take(&mut one.bytes));
            under_way.push((group.start_receive(one.from, room)?, at));
        }
        for (to, bytes) in leaving {
            count_message();
            under_way.push((group.start_send(*to, Box::new(bytes.to_vec()))?, usize::MAX));
        }
        let mut works = true;
        while works || !under_way.is_empty() {
            works = works && (drawn(3) == 0 || meanwhile());
            let before = under_way.len();
            for (message, at) in std::mem::take(&mut under_way) {
                match group.test(message)? {
                    Tested::UnderWay => under_way.push((message, at)),
                    Tested::Sent => {}
                    Tested::Received(room) => {
                        let room: Box<dyn Any> = room;
                        arriving[at].bytes = *room.downcast().expect("the memory that was given");
                    }
                }
            }
            if !works && under_way.len() == before && before > 0 {
                group.wait_for_some();
            }
        }
        Ok(())
    }
}

impl Wire for SimulatedWire {
    fn rank(&self) -> usize {
        self.0.group.borrow().rank()
    }

    fn ranks(&self) -> usize {
        self.0.group.borrow().size()
    }

    fn swap(&self, to: &[u64], from: &mut [u64]) -> Result<()> {
        let (rank, ranks) = (self.rank(), self.ranks());
        let bytes: Vec<u8> = to.iter().flat_map(|word| word.to_le_bytes()).collect();
        let words = to.len() / ranks;
        let State { is_round, late, is_offered, .. } = &*self.0;
        is_round.set(words == 2);
        for (told, from) in self.0.group.borrow().all_gather(&bytes)?.into_iter().zip(from.chunks_mut(words)) {
            let mine = told.as_chunks().0[rank * words..].iter();
            from.iter_mut().zip(mine).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        }
        let offers = |one: &&Arriving| words == 2 && one.from < ranks && one.from != rank && from[2 * one.from] == 0;
        is_offered.set(late.borrow().last().filter(offers).is_some());
        if let Some(Arriving { from: of, bytes }) = late.borrow().last().filter(|_| is_offered.get()) {
            from[2 * of] = bytes.len() as u64;
        }
        Ok(())
    }

    fn exchange(
        &self,
        leaving: &[(usize, &[u8])],
        arriving: &mut Vec<Arriving>,
        meanwhile: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let State { is_round, late, is_offered, .. } = &*self.0;
        let offered = if is_offered.take() { late.borrow_mut().pop() } else { None };
        if let Some(offered) = &offered {
            arriving.retain(|one| one.from != offered.from);
        }
        self.carry(leaving, arriving, meanwhile)?;
        is_round.set(false);
        arriving.extend(offered);
        Ok(())
    }
}
