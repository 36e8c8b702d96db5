//! Offers of groups beside collectives: messages in progress, the failed ranks, and a group without them; and the
//! errors of a group that lacks these.

use crate::support::processes::Meeting;
use mainstay_engine::{
    Error, ErrorKind, Result,
    group::{Divided, Group, Message, Solo, Tested, ThreadGroup},
};
use std::{any::Any, path::Path, sync::Arc, thread, time::Duration};

const LOOKS_MAX: usize = 10_000;

/// The bytes of a received message; `None` for a sent one.
fn through(group: &dyn Group, message: Message) -> Result<Option<Vec<u8>>> {
    for _ in 0..LOOKS_MAX {
        match group.test(message)? {
            Tested::UnderWay => thread::sleep(Duration::from_millis(1)),
            Tested::Sent => return Ok(None),
            Tested::Received(into) => return Ok((into as Box<dyn Any>).downcast().ok().map(|into| *into)),
        }
    }
    panic!("{message:?} never ends");
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Runs each rank in a thread of its own.
fn run(size: usize, rank: impl Fn(ThreadGroup) + Sync) {
    thread::scope(|scope| {
        for group in ThreadGroup::new(size) {
            scope.spawn(|| rank(group));
        }
    });
}

#[test]
fn messages_go_both_ways_at_once_and_arrive_in_their_order() {
    run(3, |group| {
        let (rank, size) = (group.rank(), group.size());
        let (next, last) = ((rank + 1) % size, (rank + size - 1) % size);
        let awaited: Vec<_> =
            (0..20).map(|nth| group.start_receive(last, Box::new(vec![0_u8; nth])).unwrap()).collect();
        let sent: Vec<_> =
            (0..20).map(|nth| group.start_send(next, Box::new(vec![rank as u8; nth])).unwrap()).collect();
        // A rank may test the last message first.
        for (nth, message) in awaited.into_iter().enumerate().rev() {
            assert_eq!(through(&group, message).unwrap(), Some(vec![last as u8; nth]));
        }
        for message in sent {
            assert_eq!(through(&group, message).unwrap(), None);
            assert_eq!(kind(group.test(message)), Some(ErrorKind::Internal), "it was through");
        }
    });
}

#[test]
fn what_is_sent_is_let_go_once_it_is_through_and_never_waits() {
    let shared: Arc<[u8]> = Arc::from(*b"staged once");
    run(2, |group| {
        if group.rank() == 0 {
            let message = group.start_send(1, Box::new(shared.clone())).unwrap();
            assert!(matches!(group.test(message).unwrap(), Tested::UnderWay), "nobody awaits it yet");
            group.all_max(&mut []).unwrap();
            assert_eq!(through(&group, message).unwrap(), None);
        } else {
            group.all_max(&mut []).unwrap();
            let message = group.start_receive(0, Box::new(vec![0_u8; shared.len()])).unwrap();
            assert_eq!(through(&group, message).unwrap().as_deref(), Some(&shared[..]));
        }
    });
    assert_eq!(Arc::strong_count(&shared), 1);
}

#[test]
fn a_message_of_another_length_is_an_error_and_the_next_one_is_whole() {
    run(2, |group| {
        if group.rank() == 0 {
            for bytes in [7, 8] {
                let message = group.start_send(1, Box::new(vec![bytes as u8; bytes])).unwrap();
                through(&group, message).unwrap();
            }
        } else {
            let [odd, whole] = [0, 1].map(|_| group.start_receive(0, Box::new(vec![0_u8; 8])).unwrap());
            assert_eq!(kind(through(&group, odd)), Some(ErrorKind::GroupFailed));
            assert_eq!(through(&group, whole).unwrap(), Some(vec![8; 8]));
        }
    });
}

/// Any rank may fail, even rank 0, and more than one. The remaining ranks keep their order, and messages under way end.
#[test]
fn those_that_are_left_go_on_without_those_that_failed() {
    run(4, |group| {
        let was = group.rank();
        let between_living = (was == 3).then(|| group.start_receive(2, Box::new(vec![0_u8; 8])).unwrap());
        assert!(group.failed().unwrap().is_empty());
        group.all_max(&mut []).unwrap();
        if was == 0 {
            return;
        }
        // The start itself fails if another rank has learned of the failure before.
        let awaited = group.start_receive(0, Box::new(vec![0_u8; 8])).and_then(|awaited| through(&group, awaited));
        assert_eq!(kind(awaited), Some(ErrorKind::GroupFailed));
        assert_eq!(group.failed().unwrap(), [0]);
        let left = group.shrink(Divided::Unknown).unwrap();
        assert_eq!((left.rank(), left.size(), left.failed().unwrap()), (was - 1, 3, vec![]));
        // Messages of the old group are stale.
        if let Some(message) = between_living {
            assert_eq!(kind(through(&group, message)), Some(ErrorKind::GroupFailed));
        }
        assert_eq!(kind(group.all_gather(&[])), Some(ErrorKind::GroupFailed));
        assert_eq!(left.all_gather(&[was as u8]).unwrap(), [[1], [2], [3]]);
        if was == 2 {
            return;
        }
        while left.failed().unwrap().is_empty() {
            thread::yield_now();
        }
        let (other, left) = (if was == 1 { 1 } else { 0 }, left.shrink(Divided::Unknown).unwrap());
        assert_eq!(left.all_gather(&[was as u8]).unwrap(), [[1], [3]]);
        let [sent, awaited] = [
            left.start_send(other, Box::new([was as u8])).unwrap(),
            left.start_receive(other, Box::new(vec![0_u8])).unwrap(),
        ];
        assert_eq!(through(&*left, awaited).unwrap(), Some(vec![4 - was as u8]));
        through(&*left, sent).unwrap();
    });
}

/// A rank fails while the others shrink: no rank waits for it.
#[test]
fn a_failure_while_they_shrink_is_one_more_that_is_left_out() {
    run(4, |group| {
        group.all_max(&mut []).unwrap();
        match group.rank() {
            0 => {}
            3 => {
                // The other ranks wait in `shrink` by now, or come to it later.
                while !matches!(group.all_max(&mut []), Err(Error::GroupFailed { .. })) {}
            }
            _ => {
                let left = group.shrink(Divided::Unknown).unwrap();
                assert_eq!(left.all_gather(&[group.rank() as u8]).unwrap(), [[1], [2]]);
            }
        }
    });
}

#[test]
fn a_group_without_these_says_so() {
    let group = Meeting::new(0, 2, Path::new("nowhere"));
    let told: Vec<Error> = [
        group.start_send(1, Box::new([])).err(),
        group.start_receive(1, Box::new([])).err(),
        group.failed().err(),
        group.shrink(Divided::Unknown).err(),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert_eq!(told.len(), 4);
    for error in told {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().starts_with("group: its ranks cannot "), "{error}");
    }
}

#[test]
fn a_rank_alone_has_none_that_fails() {
    assert!(Solo.failed().unwrap().is_empty());
    assert_eq!(Solo.shrink(Divided::Unknown).unwrap().size(), 1);
    assert_eq!(kind(Solo.start_send(0, Box::new([]))), Some(ErrorKind::Internal));
}
