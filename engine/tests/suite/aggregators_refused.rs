//! Ranks that cannot write for others are refused when the space is opened.

use crate::support::{aggregating, run};
use mainstay_engine::{ErrorKind, Result, Session, group::Group};
use tempfile::TempDir;

#[test]
fn an_aggregator_that_does_not_see_the_files_of_its_member_is_refused() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let open = |aggregators| {
        run(4, |rank, group| {
            let opened = Session::open(group, folders[rank / 2].path(), aggregating(aggregators));
            opened.and_then(Session::close).map_err(|error| (error.kind(), error.to_string()))
        })
    };
    for told in open(1) {
        let (kind, text) = told.unwrap_err();
        assert!(
            kind == ErrorKind::InvalidArgument && text.contains("aggregators: rank 0 would write for rank "),
            "{text}"
        );
    }
    assert!(open(2).iter().all(|told| *told == Ok(())));
}

/// Ranks that can only call collectives.
pub struct Mute(pub Box<dyn Group>);

impl Group for Mute {
    fn rank(&self) -> usize {
        self.0.rank()
    }
    fn size(&self) -> usize {
        self.0.size()
    }
    fn ranks_here(&self) -> usize {
        self.0.ranks_here()
    }
    fn all_max(&self, values: &mut [u64]) -> Result<()> {
        self.0.all_max(values)
    }
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.0.all_gather(mine)
    }
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        self.0.broadcast(root, bytes)
    }
    fn can_send(&self) -> bool {
        false
    }
    fn send(&self, _: usize, _: &[u8]) -> Result<()> {
        unreachable!("it cannot")
    }
    fn receive(&self, _: usize, _: &mut [u8]) -> Result<()> {
        unreachable!("it cannot")
    }
}

/// At the opening, not at the first checkpoint. Where each writes for itself nothing is sent.
#[test]
fn a_group_that_cannot_send_is_refused() {
    let folder = TempDir::new().unwrap();
    let open = |aggregators| {
        run(3, |_, group| {
            let opened = Session::open(Box::new(Mute(group)), folder.path(), aggregating(aggregators));
            opened.and_then(Session::close).map_err(|error| (error.kind(), error.to_string()))
        })
    };
    for told in open(1) {
        let (kind, text) = told.unwrap_err();
        assert!(
            kind == ErrorKind::InvalidArgument && text.contains("aggregators: the group of this session has no send"),
            "{text}"
        );
    }
    assert!(open(3).iter().all(|told| *told == Ok(())));
}
