//! Checks the nodes of a job at work: a launcher may not notice the loss of one.

use super::nodes::Reach;
use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

/// A node is lost after this many failed checks in a row.
const SILENT_LOOKS: usize = 2;

/// The nodes to check while the job runs.
pub struct Watch {
    pub reach: Reach,
    pub every: Duration,
    pub nodes: Vec<String>,
}

pub struct Watching {
    lost: Receiver<(String, String)>,
    /// Dropping it ends the thread.
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

    /// The lost node, and the evidence.
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

/// Returns once a node is lost, or once nobody waits for the result.
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
