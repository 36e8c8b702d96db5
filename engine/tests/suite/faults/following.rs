//! Regions that are moved, or follow a pointer.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use super::job::{Rank, Scene, run};
use mainstay_engine::{Region, group::Solo, space::format::ElementType};
use std::sync::{
    Arc,
    atomic::{AtomicPtr, Ordering},
};

type Pointer = Arc<AtomicPtr<u64>>;

fn alone(scene: &Scene, refused: impl FnOnce(&mut Rank)) {
    let mut job = scene.open(0, Box::new(Solo));
    refused(&mut job);
    job.save(1).unwrap();
    job.session.close().unwrap();
    scene.comes_back(1, 1);
}

fn step(job: &mut Rank, element: ElementType) -> Region {
    // SAFETY: the state outlives the session.
    unsafe { Region::array("step", job.state.step.as_mut_ptr().cast(), element, &[1]) }.unwrap()
}

fn follow(job: &mut Rank, name: &str, pointer: &Pointer) -> mainstay_engine::Result<()> {
    let pointer = pointer.clone();
    // SAFETY: the scenes keep the target of the pointer.
    job.session.follow(name, move |region| unsafe { region.at(pointer.load(Ordering::Relaxed).cast(), None) })
}

pub fn move_unknown(scene: &Scene) {
    alone(scene, |job| {
        let mut memory = [0_u64; 4];
        // SAFETY: refused.
        let error = unsafe { job.session.move_to("nothing", memory.as_mut_ptr().cast(), None) }.unwrap_err();
        scene.check(0, "move", &error);
    });
}

pub fn move_of_another_type(scene: &Scene) {
    alone(scene, |job| {
        let region = step(job, ElementType::I64);
        scene.check(0, "move", &job.session.move_region(region).unwrap_err());
    });
}

pub fn follow_elsewhere(scene: &Scene) {
    alone(scene, |job| {
        let mut memory = [0_u64; 4];
        let pointer = Arc::new(AtomicPtr::new(memory.as_mut_ptr()));
        scene.check(0, "follow", &follow(job, "step", &pointer).unwrap_err());
    });
}

/// On rank 1 the pointer points to `elsewhere`, and `refused` returns the error. Once it points back, the job saves
/// again.
fn refused_where(scene: &Scene, elsewhere: impl Fn(&mut Rank) -> *mut u64 + Sync, refused: impl Fn(&mut Rank) + Sync) {
    run(scene.row.rust, |rank, group| {
        let mut job = scene.open(rank, group);
        let mut memory = vec![7_u64; 100];
        let pointer = Arc::new(AtomicPtr::new(memory.as_mut_ptr()));
        // SAFETY: it is unprotected before the memory goes.
        job.protect(unsafe { Region::array("cur", memory.as_mut_ptr().cast(), ElementType::U64, &[100]) }).unwrap();
        follow(&mut job, "cur", &pointer).unwrap();
        job.save(1).unwrap();
        job.session.wait().unwrap();
        if rank == 1 {
            pointer.store(elsewhere(&mut job), Ordering::Relaxed);
        }
        refused(&mut job);
        pointer.store(memory.as_mut_ptr(), Ordering::Relaxed);
        job.session.unprotect("cur").unwrap();
        job.save(3).unwrap();
        job.session.close().unwrap();
    });
    scene.comes_back(scene.row.rust, 3);
}

fn null(_: &mut Rank) -> *mut u64 {
    std::ptr::null_mut()
}

fn refused_restore(scene: &Scene) -> impl Fn(&mut Rank) + Sync {
    |job| {
        scene.check(job.rank, "restore", &job.session.restore().unwrap_err());
        job.holds(1);
    }
}

pub fn pointer_null(scene: &Scene) {
    refused_where(scene, null, |job| {
        scene.check(job.rank, "checkpoint", &job.save(2).unwrap_err());
        job.holds(2);
    });
}

pub fn pointer_null_at_restore(scene: &Scene) {
    refused_where(scene, null, refused_restore(scene));
}

pub fn pointers_to_the_same(scene: &Scene) {
    refused_where(scene, |job| job.state.field.as_mut_ptr().cast(), refused_restore(scene));
}
