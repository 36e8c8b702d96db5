//! Impossible arguments from a program.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use super::job::{Scene, small};
use mainstay_engine::{
    Config, Error, LevelKind, Region, Session,
    group::Solo,
    space::format::{ElementType, PlaceInWhole},
};
use std::time::Duration;

pub fn option_out_of_range(scene: &Scene) {
    let wrong = [
        Config { keep: 0, ..small() },
        Config { keep: 1001, ..small() },
        Config { io_threads: 65, ..small() },
        Config { chunk_bytes: Some(4095), ..small() },
        Config { chunk_bytes: Some(6000), ..small() },
        Config { chunk_bytes: Some((1 << 30) + 4096), pool_bytes: Some(1 << 40), ..small() },
        Config { pool_bytes: Some((128 << 10) - 1), ..small() },
        Config { pool_bytes: Some(u64::MAX), ..small() },
        Config { small_bytes: (64 << 10) + 1, ..small() },
        Config { threshold_bytes: Some(0), ..small() },
        Config { threshold_bytes: Some(4095), ..small() },
        Config { threshold_bytes: Some((1 << 30) + 1), ..small() },
        Config { buffer_bytes: 0, ..small() },
        Config { buffer_bytes: 6000, ..small() },
        Config { buffer_bytes: (1 << 30) + 4096, ..small() },
        Config { flush_every: Duration::ZERO, ..small() },
        Config { flush_every: Duration::from_micros(999), ..small() },
        Config { flush_every: Duration::from_millis(60_001), ..small() },
        Config { portion_bytes: 1, ..small() },
        Config { portion_bytes: (1 << 20) - 1, ..small() },
        Config { portion_bytes: u64::MAX, ..small() },
    ];
    for config in wrong {
        let error = Session::open(Box::new(Solo), &scene.space(), config.clone()).err();
        scene.check(0, "open", &error.unwrap_or_else(|| panic!("{config:?} was taken")));
    }
    scene.save(1);
    scene.comes_back(1, 2);
}

/// The session refuses a region `name` beside the regions of the job. The job still saves and comes back.
fn refused(scene: &Scene, element: ElementType, name: &str, shape: &[u64]) {
    let mut job = scene.open(0, Box::new(Solo));
    let mut memory = [0_u64; 4];
    // SAFETY: nothing is read or written: the region is refused.
    let region = unsafe { Region::array(name, memory.as_mut_ptr().cast(), element, shape) };
    scene.check(0, "protect", &job.protect(region).unwrap_err());
    job.save(1).unwrap();
    job.session.close().unwrap();
    scene.comes_back(1, 1);
}

pub fn level_unknown(scene: &Scene) {
    for name in ["scratch", "Memory", ""] {
        scene.check(0, "wait", &LevelKind::named(name).unwrap_err());
    }
}

pub fn name_odd(scene: &Scene) {
    for name in ["a b", "ä", "a\n", "a\\b", "a\0b", "tab\t", "💾"] {
        // SAFETY: an empty region.
        let error: Error = unsafe { Region::new(name, std::ptr::null_mut(), 0) }.unwrap_err();
        scene.check(0, "protect", &error);
    }
    refused(scene, ElementType::U64, "a b", &[4]);
}

pub fn name_empty(scene: &Scene) {
    refused(scene, ElementType::U64, "", &[4]);
}

pub fn name_long(scene: &Scene) {
    refused(scene, ElementType::U64, &"x".repeat(201), &[4]);
}

pub fn name_leaves_its_folder(scene: &Scene) {
    refused(scene, ElementType::U64, "a/../b", &[4]);
}

pub fn name_twice(scene: &Scene) {
    refused(scene, ElementType::U64, "field", &[4]);
}

pub fn memory_of_another(scene: &Scene) {
    let mut job = scene.open(0, Box::new(Solo));
    // SAFETY: nothing is read or written: the region is refused.
    let region = unsafe { Region::new("twin", job.state.step.as_mut_ptr().cast::<u8>().wrapping_add(4), 8) };
    scene.check(0, "protect", &job.protect(region).unwrap_err());
    job.save(1).unwrap();
    job.session.close().unwrap();
    scene.comes_back(1, 1);
}

pub fn name_unknown(scene: &Scene) {
    let mut job = scene.open(0, Box::new(Solo));
    scene.check(0, "unprotect", &job.session.unprotect("nothing").unwrap_err());
    job.save(1).unwrap();
    job.session.close().unwrap();
    scene.comes_back(1, 1);
}

pub fn settled_unknown(scene: &Scene) {
    not_settled(scene, "nothing", &[(0, 1)]);
}

pub fn settled_outside(scene: &Scene) {
    not_settled(scene, "step", &[(0, 1 << 20), (u64::MAX, 2)]);
}

/// The session refuses to take these bytes of region `name` as settled. The job still saves and comes back.
fn not_settled(scene: &Scene, name: &str, ranges: &[(u64, u64)]) {
    let mut job = scene.open(0, Box::new(Solo));
    for (offset, bytes) in ranges {
        scene.check(0, "settled", &job.session.settled(name, *offset, *bytes).unwrap_err());
    }
    job.save(1).unwrap();
    job.session.close().unwrap();
    scene.comes_back(1, 1);
}

pub fn shape_overflows(scene: &Scene) {
    refused(scene, ElementType::U64, "big", &[1 << 40, 1 << 40]);
    // More bytes than an address can count, though no product overflows.
    let shape = [1_u64 << 63];
    // SAFETY: refused.
    let error = unsafe { Region::array("big", std::ptr::null_mut(), ElementType::U8, &shape) }.unwrap_err();
    scene.check(0, "protect", &error);
}

pub fn too_many_dimensions(scene: &Scene) {
    refused(scene, ElementType::U8, "deep", &[1; 33]);
}

pub fn box_outside(scene: &Scene) {
    let mut job = scene.open(0, Box::new(Solo));
    let mut memory = [0_u64; 12];
    let place = PlaceInWhole { global_shape: vec![6, 4], offset: vec![4, 0] };
    // SAFETY: refused.
    let region = unsafe { Region::placed("u", memory.as_mut_ptr().cast(), ElementType::U64, &[3, 4], place) };
    scene.check(0, "protect", &job.protect(region).unwrap_err());
    job.save(1).unwrap();
    job.session.close().unwrap();
    scene.comes_back(1, 1);
}
