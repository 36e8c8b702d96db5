//! Ranks act in ways that do not fit together, or do not fit earlier jobs.

use super::job::{Rank, Scene, run, small};
use crate::support::bounded;
use mainstay_engine::{Config, LevelKind, LevelPlace, Session, Start};

pub fn calls_differ(scene: &Scene) {
    bounded("calls that differ", || {
        run(scene.row.rust, |rank, group| {
            let mut job = scene.open(rank, group);
            job.save(1).unwrap();
            let error = if rank == 0 { job.save(2).map(drop) } else { job.session.wait() }.unwrap_err();
            scene.check(rank, "every", &error);
            job.save(3).unwrap();
            job.session.close().unwrap();
        })
    });
    scene.comes_back(scene.row.rust, 3);
}

pub fn closed_beside_a_call(scene: &Scene) {
    bounded("a session that one rank closes", || {
        run(scene.row.rust, |rank, group| {
            let mut job = scene.open(rank, group);
            job.save(1).unwrap();
            job.session.wait().unwrap();
            if rank == 0 {
                scene.check(rank, "every", &job.save(2).unwrap_err());
                scene.check(rank, "every", &job.session.wait().unwrap_err());
                scene.check(rank, "every", &job.session.progress().unwrap_err());
            }
            scene.check(rank, "every", &job.session.close().unwrap_err());
        })
    });
    scene.comes_back(scene.row.rust, 1);
}

pub fn not_restored(scene: &Scene) {
    scene.save(scene.row.rust);
    run(scene.row.rust, |rank, group| {
        let mut job = scene.open(rank, group);
        scene.check(rank, "checkpoint", &job.save(3).unwrap_err());
        job.holds(3);
        job.session.close().unwrap();
    });
    scene.comes_back(scene.row.rust, 2);
    run(scene.row.rust, |rank, group| {
        let config = Config { start: Start::Fresh, ..small() };
        let mut job = Rank::new(rank, Session::open(group, &scene.space(), config).unwrap());
        job.save(4).unwrap();
        job.session.close().unwrap();
    });
    scene.comes_back(scene.row.rust, 4);
}

pub fn level_not_there(scene: &Scene) {
    bounded("a wait for a level that is not there", || {
        run(scene.row.rust, |rank, group| {
            let mut job = scene.open(rank, group);
            job.save(1).unwrap();
            scene.check(rank, "wait", &job.session.wait_for(LevelKind::Disk).unwrap_err());
            job.session.wait_for(LevelKind::Pfs).unwrap();
            job.session.close().unwrap();
        })
    });
    scene.comes_back(scene.row.rust, 1);
}

pub fn levels_differ(scene: &Scene) {
    bounded("waits for different levels", || {
        run(scene.row.rust, |rank, group| {
            let memory = LevelPlace::At(scene.folder.path().join("memory"));
            let session = Session::open(group, &scene.space(), Config { memory, ..small() });
            let mut job = Rank::new(rank, session.unwrap());
            job.save(1).unwrap();
            let level = [LevelKind::Memory, LevelKind::Pfs][rank];
            scene.check(rank, "wait", &job.session.wait_for(level).unwrap_err());
            job.session.close().unwrap();
        })
    });
    scene.comes_back(scene.row.rust, 1);
}
