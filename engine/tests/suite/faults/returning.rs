//! The job that comes back differs from the job that saved.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use super::job::{Rank, Scene, run, small};
use crate::support::{filled, spread::Part};
use mainstay_engine::{
    Reader, Region, Session,
    device::{Device, Disk},
    space::format::ElementType,
};
use std::{path::PathBuf, sync::Arc};

/// Rank `odd` protects other regions than before. The job is refused, its memory does not change, and the next job
/// comes back.
fn refused(scene: &Scene, odd: usize, change: impl Fn(&mut Rank) + Sync) {
    let ranks = scene.row.rust;
    scene.save(ranks);
    run(ranks, |rank, group| {
        let mut job = scene.open(rank, group);
        filled(&mut job.state, rank, 50);
        if rank == odd {
            change(&mut job);
        }
        scene.check(rank, "restore", &job.session.restore().unwrap_err());
        job.holds(50);
        job.session.close().unwrap();
    });
    scene.comes_back(ranks, 2);
}

/// Protects `step` anew with another name, type, or shape.
fn protect_step(job: &mut Rank, name: &str, element: ElementType, shape: &[u64]) {
    let _ = job.session.unprotect(name);
    let memory = Box::leak(Box::new([50_u64; 2]));
    // SAFETY: leaked: it outlives everything.
    let region = unsafe { Region::array(name, memory.as_mut_ptr().cast(), element, shape) };
    job.protect(region).unwrap();
}

pub fn region_of_another_size(scene: &Scene) {
    refused(scene, 0, |job| protect_step(job, "step", ElementType::U64, &[2]));
}

pub fn region_of_another_type(scene: &Scene) {
    refused(scene, 0, |job| protect_step(job, "step", ElementType::I64, &[1]));
}

pub fn region_of_another_shape(scene: &Scene) {
    refused(scene, 0, |job| protect_step(job, "step", ElementType::U64, &[1, 1]));
}

pub fn region_not_protected(scene: &Scene) {
    refused(scene, 1, |job| job.session.unprotect("step").unwrap());
}

pub fn region_not_saved(scene: &Scene) {
    refused(scene, 0, |job| protect_step(job, "more", ElementType::U64, &[2]));
}

fn other_ranks(scene: &Scene) {
    scene.save(2);
    run(scene.row.rust, |rank, group| {
        let mut job = scene.open(rank, group);
        filled(&mut job.state, rank, 50);
        scene.check(rank, "restore", &job.session.restore().unwrap_err());
        job.holds(50);
        job.session.close().unwrap();
    });
    scene.comes_back(2, 2);
}

pub fn more_ranks(scene: &Scene) {
    other_ranks(scene);
}

pub fn fewer_ranks(scene: &Scene) {
    other_ranks(scene);
}

/// Rank 0 has the rows 0..2 of a global array, and rank 1 the rows 3..6, unless `odd` gives others.
fn protect_rows(job: &mut Rank, rows: u64, odd: &[[u64; 2]; 2]) {
    let [from, to] = odd[job.rank];
    // Leaked: it outlives everything.
    let part = Box::leak(Box::new(Part::new(&[rows, 4], vec![from..to, 0..4])));
    job.protect(part.region("u")).unwrap();
}

fn other_boxes(scene: &Scene, rows: u64, odd: [[u64; 2]; 2]) {
    const SAVED: [[u64; 2]; 2] = [[0, 2], [3, 6]];
    run(2, |rank, group| {
        let mut job = scene.open(rank, group);
        protect_rows(&mut job, 6, &SAVED);
        job.save(1).unwrap();
        job.session.close().unwrap();
    });
    run(2, |rank, group| {
        let mut job = scene.open(rank, group);
        filled(&mut job.state, rank, 50);
        protect_rows(&mut job, rows, &odd);
        scene.check(rank, "restore", &job.session.restore().unwrap_err());
        job.holds(50);
        job.session.close().unwrap();
    });
    run(2, |rank, group| {
        let mut job = scene.open(rank, group);
        protect_rows(&mut job, 6, &SAVED);
        job.restores(1);
        job.session.close().unwrap();
    });
}

pub fn box_not_saved(scene: &Scene) {
    other_boxes(scene, 6, [[0, 3], [3, 6]]);
}

pub fn global_array_of_another_shape(scene: &Scene) {
    other_boxes(scene, 7, [[0, 2], [3, 6]]);
}

pub fn reader_of_no_revision(scene: &Scene) {
    scene.save(1);
    scene.check(0, "open", &Reader::open(&scene.space(), Some(7), "test").err().unwrap());
    assert_eq!(Reader::open(&scene.space(), Some(2), "test").unwrap().key().number, 2);
}

pub fn shard_out_of_sight(scene: &Scene) {
    let node = |node: usize| -> PathBuf { scene.space().join(format!("node{node}")) };
    let open = |group, rank, path: PathBuf| {
        let device: Arc<dyn Device> = Arc::new(Disk::make(&path).unwrap());
        Rank::new(rank, Session::open_on(group, device, small()).unwrap())
    };
    run(2, |rank, group| {
        let mut job = open(group, rank, node(rank));
        job.save(1).unwrap();
        job.save(2).unwrap();
        job.session.close().unwrap();
    });
    run(2, |rank, group| {
        let mut job = open(group, rank, node(1 - rank));
        filled(&mut job.state, rank, 50);
        scene.check(rank, "restore", &job.session.restore().unwrap_err());
        job.holds(50);
    });
    run(2, |rank, group| drop(open(group, rank, node(rank)).restores(2)));
}

/// Runs a job of one rank with the globals of this program.
#[track_caller]
fn with_globals(scene: &Scene, work: impl Fn(&mut Rank) + Sync) {
    run(1, |rank, group| {
        let mut job = scene.open(rank, group);
        // SAFETY: those of a program in Rust are left out; no other test has any.
        unsafe { job.session.protect_globals(&[]) }.unwrap();
        work(&mut job);
        job.session.close().unwrap();
    });
}

pub fn globals_of_another_program(scene: &Scene) {
    with_globals(scene, |job| {
        job.session.note("globals/program", "build id 00").unwrap();
        job.save(1).unwrap();
    });
    with_globals(scene, |job| {
        filled(&mut job.state, 0, 50);
        scene.check(0, "restore", &job.session.restore().unwrap_err());
        job.holds(50);
    });
}

pub fn left_out_too_late(scene: &Scene) {
    with_globals(scene, |job| {
        scene.check(0, "protect", &job.session.leave_out(4096, 8).unwrap_err());
        job.save(2).unwrap();
    });
    with_globals(scene, |job| drop(job.restores(2)));
}
