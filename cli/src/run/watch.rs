//! Looks after the nodes of a job at work: a launcher need not notice that one is lost.

use super::nodes::Reach;
use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

/// A node that does not answer so often, one look after the other, is lost.
const SILENT_LOOKS: usize = 2;

/// Who is asked while the job runs.
pub struct Watch {
    pub reach: Reach,
    pub every: Duration,
    pub nodes: Vec<String>,
}

pub struct Watching {
    lost: Receiver<(String, String)>,
    /// Dropped, it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    pub fn begin(watch: Watch) -> Watching {
        let (tell, lost) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            if let Some(found) = look(&watch, &ended) {
                let _ = tell.send(found);
            }
        });
        Watching { lost, end: Some(end), thread: Some(thread) }
    }

    /// The node that was lost, and why it is thought to be.
    pub fn lost(&self) -> Option<(String, String)> {
        self.lost.try_recv().ok()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            // No longer than a node may take to answer.
            let _ = thread.join();
        }
    }
}

/// Returns once a node is lost, or once nobody wants to know any more.
fn look(watch: &Watch, ended: &Receiver<()>) -> Option<(String, String)> {
    let mut silent = vec![0; watch.nodes.len()];
    while ended.recv_timeout(watch.every) == Err(RecvTimeoutError::Timeout) {
        for (at, why) in watch.reach.ask(&watch.nodes).into_iter().enumerate() {
            silent[at] = if why.is_some() { silent[at] + 1 } else { 0 };
            if let Some(why) = why.filter(|_| silent[at] >= SILENT_LOOKS) {
                return Some((watch.nodes[at].clone(), why));
            }
        }
    }
    None
}
