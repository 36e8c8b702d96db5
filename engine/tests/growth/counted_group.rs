//! A group that counts for its rank.
//!
//! The costs are those of the usual algorithms. An all-reduce and an all-gather take log2 P steps, a broadcast as many.
//! In each step of an all-reduce a rank gets all values; an all-gather brings the bytes of every other rank once, and a
//! broadcast brings its bytes once.

use super::{
    allocated::uncounted,
    counts::{Counter, Quantity},
};
use mainstay_engine::{
    Result,
    group::{Divided, Group, Incoming, Message, Outgoing, Tested},
};

pub struct CountedGroup {
    group: Box<dyn Group>,
    counter: Counter,
    on_node: usize,
}

impl CountedGroup {
    /// `on_node`: the number of ranks of each node.
    pub fn new(group: Box<dyn Group>, counter: &Counter, on_node: usize) -> CountedGroup {
        CountedGroup { group, counter: counter.clone(), on_node }
    }

    fn steps(&self) -> u64 {
        u64::from(self.size().next_power_of_two().ilog2())
    }

    fn met(&self, bytes: usize) {
        self.counter.add(Quantity::Steps, self.steps());
        self.counter.add(Quantity::CollectiveBytes, bytes as u64);
    }
}

impl Group for CountedGroup {
    fn rank(&self) -> usize {
        self.group.rank()
    }

    fn size(&self) -> usize {
        self.group.size()
    }

    fn ranks_here(&self) -> usize {
        self.on_node
    }

    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        self.met(size_of_val(values) * self.steps() as usize);
        uncounted(|| self.group.all_max(values))
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let all = uncounted(|| self.group.all_gather(mine))?;
        self.met(all.iter().map(Vec::len).sum::<usize>() - mine.len());
        let counted = all.clone();
        uncounted(|| drop(all));
        Ok(counted)
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let sent = uncounted(|| {
            let mut sent = bytes.clone();
            self.group.broadcast(root, &mut sent).map(|()| sent)
        })?;
        self.met(sent.len());
        bytes.clone_from(&sent);
        uncounted(|| drop(sent));
        Ok(())
    }

    fn start_send(&self, to: usize, bytes: Outgoing) -> Result<Message> {
        self.counter.add(Quantity::Messages, 1);
        self.group.start_send(to, bytes)
    }

    fn start_receive(&self, from: usize, mut into: Incoming) -> Result<Message> {
        self.counter.add(Quantity::MessageBytes, (*into).as_mut().len() as u64);
        self.group.start_receive(from, into)
    }

    fn test(&self, message: Message) -> Result<Tested> {
        self.group.test(message)
    }

    fn failed(&self) -> Result<Vec<usize>> {
        self.group.failed()
    }

    fn shrink(&self, divided: Divided) -> Result<Box<dyn Group>> {
        let group = uncounted(|| self.group.shrink(divided))?;
        Ok(Box::new(CountedGroup::new(group, &self.counter, self.on_node)))
    }
}
