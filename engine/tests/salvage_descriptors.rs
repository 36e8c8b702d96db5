//! A start that may open no more files counts no staged data as lost. The limit is the whole process's: this test is
//! alone in its file.

#[macro_use]
mod support;

use mainstay_engine::{Config, Session, Stage, group::Solo};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{fs::File, os::fd::AsRawFd, sync::Arc};
use support::{
    faulty::Faulty,
    killed::{Killed, LAST, SHAPE, names, pools_like},
};

/// The space is in memory: only the staged data in the pool needs files.
#[test]
fn a_start_that_may_open_no_more_files_ends_no_claim() {
    let killed = Killed::after(SHAPE, Some(3)).unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let mut refused = 0;
    for more in 0..20 {
        let (medium, pools) = (killed.medium(), pools_like(Some(killed.pools.path())));
        let open = || {
            let config = Config { stage: Stage::Direct, ..SHAPE.config(pools.path()) };
            Session::open_on(Box::new(Solo), Arc::new(Faulty(medium.view())), config).map(drop)
        };
        let next = File::open("/dev/null").unwrap().as_raw_fd() as u64;
        setrlimit(Resource::RLIMIT_NOFILE, next + more, hard).unwrap();
        let told = open();
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        refused += u64::from(told.is_err());
        open().unwrap();
        let step = killed.check_alone(&medium.end_processes(), LAST);
        step.unwrap_or_else(|why| panic!("with {more} files more, {told:?}: {why}"));
        assert_eq!(names(pools.path()), [""; 0]);
    }
    tell!("{refused} starts refused");
    assert!(refused > 0 && refused < 20);
}
