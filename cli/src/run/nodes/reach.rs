//! Checks that nodes answer: one command for each node, all in parallel, each with a time limit.

use crate::outside;
use std::{
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Number of nodes to check at a time.
const ABREAST: usize = 32;
pub const HOST: &str = "{host}";

#[derive(Debug, Clone)]
pub struct Reach {
    /// A shell line, with `{host}` for the name of the node.
    pub command: String,
    pub limit: Duration,
    /// Names of this machine, which always answers.
    pub here: Vec<String>,
}

impl Reach {
    /// For each of `names`, the reason that it does not answer, or `None` if it does.
    pub fn ask(&self, names: &[String]) -> Vec<Option<String>> {
        let (next, told) = (AtomicUsize::new(0), Mutex::new(vec![None; names.len()]));
        thread::scope(|scope| {
            for _ in 0..names.len().min(ABREAST) {
                scope.spawn(|| {
                    while let Some((index, name)) = names.iter().enumerate().nth(next.fetch_add(1, Relaxed)) {
                        let answer = self.ask_one(name).err();
                        told.lock().unwrap_or_else(PoisonError::into_inner)[index] = answer;
                    }
                });
            }
        });
        told.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask_one(&self, name: &str) -> Result<(), String> {
        if self.here.iter().any(|here| here == name) {
            return Ok(());
        }
        let line = self.command.replace(HOST, name);
        let answer = outside::ask(Command::new("sh").args(["-c", &line]), self.limit).map_err(|e| e.to_string())?;
        if answer.is_good() { Ok(()) } else { Err(answer.why(self.limit)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn reach(command: &str, limit_ms: u64) -> Reach {
        Reach { command: command.to_owned(), limit: Duration::from_millis(limit_ms), here: vec!["me".to_owned()] }
    }

    #[test]
    fn each_node_is_asked_by_its_name() {
        let names: Vec<String> = (0..40).map(|number| format!("n{number}")).chain(["me".to_owned()]).collect();
        let told = reach("test {host} != n7 || { echo no route to {host} >&2; exit 255; }", 60_000).ask(&names);
        let lost: Vec<(usize, &str)> =
            told.iter().enumerate().filter_map(|(at, why)| Some((at, why.as_deref()?))).collect();
        assert_eq!(lost, [(7, "no route to n7")]);
        assert_eq!(told.len(), 41);
        // This machine is not checked.
        assert_eq!(reach("false", 60_000).ask(&["me".to_owned()]), [None]);
    }

    #[test]
    fn nodes_that_hang_are_waited_for_at_the_same_time() {
        let names: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
        let started = Instant::now();
        let told = reach("sleep 600", 200).ask(&names);
        assert!(told.iter().all(|why| why.as_deref() == Some("no answer within 200ms")));
        // In sequence this would take 4 s, and without a limit ten minutes. The limit is generous for a busy machine.
        assert!(started.elapsed() < Duration::from_secs(200));
    }
}
