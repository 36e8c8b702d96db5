//! Messages between ranks: of copies, of errors, of objects.

use crate::{
    Target,
    promises::{comes_back, told},
};
use mainstay_engine::fuzzing;
use mainstay_objects::fuzzing as objects;

pub(super) static TARGETS: [Target; 6] = [
    Target::new("copies", copies, 20_000),
    Target::new("failures", failures, 20_000),
    Target::new("object-index", object_index, 20_000),
    Target::new("object-results", object_results, 10_000),
    Target::new("object-messages", object_messages, 20_000),
    Target::new("object-moves", object_moves, 20_000),
];

fn copies(bytes: &[u8]) {
    comes_back(bytes, |bytes| told(fuzzing::copy_word(bytes)));
}

fn failures(bytes: &[u8]) {
    drop(told(fuzzing::failure(bytes)));
}

fn object_index(bytes: &[u8]) {
    comes_back(bytes, |bytes| told(objects::index(bytes)));
}

fn object_results(bytes: &[u8]) {
    told(objects::results(bytes));
}

fn object_messages(bytes: &[u8]) {
    told(objects::messages(bytes));
}

fn object_moves(bytes: &[u8]) {
    told(objects::arriving(bytes));
}
