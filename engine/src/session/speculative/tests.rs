//! Predictors that fail, lie, or name pages that do not exist.

use super::*;
use crate::{
    Capture, Session, Start,
    ground::sleep,
    group::Solo,
    predict::{Page, Predictor, Tick},
};
use tempfile::TempDir;

struct StepError;

impl Predictor for StepError {
    fn tick(&mut self, _: &Tick<'_>, _: &mut Vec<Page>) {
        panic!("a predictor that fails, as a test wants it");
    }

    fn checkpoint(&mut self) {}
}

struct FailingAtTheEnd;

impl Predictor for FailingAtTheEnd {
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>) {
        settled.extend(tick.written);
    }

    fn checkpoint(&mut self) {
        panic!("a predictor that fails at the end of an interval, as a test wants it");
    }
}

/// Names all written pages at once, and pages that do not exist.
struct StoredShard;

impl Predictor for StoredShard {
    fn tick(&mut self, tick: &Tick<'_>, settled: &mut Vec<Page>) {
        settled.extend(tick.written);
        settled.extend([0, 1, Page::MAX, 1 << 30, 7, 7]);
    }

    fn checkpoint(&mut self) {}
}

const BYTES: usize = 100 * BLOCK;

/// Runs a program that writes all its memory again and again, with `predictor`. Returns the statistics of early saving.
#[expect(unsafe_code, reason = "a region is memory")]
fn saved_by(predictor: Box<dyn Predictor>) -> Option<Speculation> {
    let folder = TempDir::new_in("/dev/shm").unwrap();
    let config = Config {
        capture: Capture::Incremental,
        predictor: Wanted::Idle,
        start: Start::Fresh,
        pool_bytes: Some(1 << 20),
        ..Config::default()
    };
    let mut session = Session::open(Box::new(Solo), folder.path(), config).unwrap();
    let mut memory = vec![0_u8; BYTES];
    // SAFETY: the memory outlives the session.
    session.protect(unsafe { Region::new("x", memory.as_mut_ptr(), BYTES as u64) }.unwrap()).unwrap();
    session.checkpoint().unwrap();
    session.inner.as_mut()?.resources.changing.as_mut()?.early.as_mut()?.predict_by(predictor);
    for round in 0..8 {
        for tick in 0..4 {
            memory.fill(round * 8 + tick);
            session.tick().unwrap();
            while session.speculation().unwrap().waiting > 0 {
                // A loop that keeps asking for the lock hardly ever leaves it to the thread that saves.
                sleep(Duration::from_micros(100));
            }
        }
        memory[..BLOCK].fill(0xff);
        session.checkpoint().unwrap();
        session.wait().unwrap();
        let mut back = vec![0; BYTES];
        session.get(None, "x", &mut back).unwrap().unwrap();
        assert!(back == memory, "round {round}");
    }
    let speculation = session.speculation().unwrap();
    session.close().unwrap();
    Some(speculation)
}

#[test]
fn a_predictor_that_panics_is_asked_no_more() {
    let Some(speculation) = saved_by(Box::new(StepError)) else { return };
    assert!(speculation.early == 0 && speculation.saved == 0 && speculation.off.contains("failed"), "{speculation:?}");
}

#[test]
fn so_is_one_that_panics_at_a_checkpoint() {
    let Some(speculation) = saved_by(Box::new(FailingAtTheEnd)) else { return };
    assert!(speculation.saved <= 4 * 100 && speculation.off.contains("failed"), "{speculation:?}");
}

#[test]
fn a_predictor_that_lies_is_not_believed_for_long() {
    let Some(speculation) = saved_by(Box::new(StoredShard)) else { return };
    // No early write was of use, and most pages were not written early.
    assert!(
        speculation.early == 0 && speculation.wasted == speculation.saved && speculation.saved < 8 * 3 * 100,
        "{speculation:?}"
    );
}
