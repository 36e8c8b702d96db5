//! An aggregator fails at each of its operations, and every promised revision is there.

use crate::support::{
    aggregating,
    faulty::{Failure, Faulty, Loss, Medium},
    often,
    program::{Mark, Program},
    run, whole,
};
use mainstay_engine::{Config, ErrorKind, Session};
use std::sync::Arc;

/// A job in which the `nth` operation of the aggregator fails. What was promised is there after it, with and without
/// the power. Returns whether there was such an operation.
fn fail_at(nth: u64, failure: Failure) -> bool {
    let medium = Medium::new(true);
    let config = Config {
        pool_bytes: Some(96 << 10),
        chunk_bytes: Some(16 << 10),
        portion_bytes: 1 << 20,
        io_threads: 1,
        ..aggregating(1)
    };
    let views = [0; 3].map(|_| medium.view());
    views[0].fails_in(nth, failure);
    let told = run(3, |rank, group| {
        let mut program = Program::new(rank);
        let opened = Session::open_on(group, Arc::new(Faulty(views[rank].clone())), config.clone());
        let Ok(mut session) = opened else { return (true, None) };
        program.protect(&mut session).unwrap();
        let (mut floor, mut failed, mut in_doubt) = (None, false, false);
        for step in 1..=4 {
            let mark = Mark { run: 1, step };
            program.fill(&mut session, mark, 50_000 * (1 + (rank + step as usize) % 3)).unwrap();
            // It may fail on one rank alone: the others learn it when all wait.
            let begun = session.checkpoint().map(drop);
            let saved = session.wait().and(begun);
            assert!(saved.is_err() || !in_doubt, "{mark:?} was saved after a failed sync");
            match saved {
                Ok(()) => floor = Some(mark),
                Err(error) => (failed, in_doubt) = (true, in_doubt | (error.kind() == ErrorKind::SyncFailed)),
            }
        }
        (session.close().is_err() | failed, floor)
    });
    assert!(told.iter().all(|(failed, floor)| (*failed, *floor) == told[0]), "the ranks were told {told:?}");
    assert!(told[0].0 || !views[0].has_failed(), "something failed and nobody was told");
    for loss in [Loss::Nothing, Loss::Everything, Loss::Seeded(nth)] {
        let medium = medium.lose_power(loss);
        whole::check(&medium.files()).unwrap();
        let found = run(3, |rank, group| {
            let mut program = Program::new(rank);
            let device = Arc::new(Faulty(medium.view()));
            let mut session = Session::open_on(group, device, config.clone()).unwrap();
            program.protect(&mut session).unwrap();
            program.restore(&mut session).unwrap()
        });
        assert!(found.iter().all(|mark| *mark == found[0] && *mark >= told[0].1), "{loss:?}: {found:?}, {told:?}");
    }
    views[0].has_failed()
}

#[test]
fn a_failure_of_any_operation_of_an_aggregator_loses_nothing_acknowledged() {
    for failure in [Failure::Io, Failure::Forgets] {
        let operations = (1..1000).step_by(often(9, 1)).take_while(|nth| fail_at(*nth, failure)).count();
        assert!(operations > often(11, 100), "{failure:?} in {operations} operations");
    }
}
