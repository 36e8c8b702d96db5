//! Objects that move: the part of a program's state that is cut into many more pieces than there are ranks, each of which
//! runs on some rank, is sent messages wherever that is, is saved by itself, and is restored by whichever rank has it at
//! hand (paper 002, FTC-Charm++).
//!
//! A layer on the engine's public interface and on a few functions for messages ([`Wire`]): it has no thread, and talks to
//! other ranks inside its collective calls alone. A program sends messages, and ends a step ([`Objects::step`]), in which
//! they are delivered, and those that their handlers send, until none is left.
//!
//! What must hold: all ranks know alike on which rank each object is; an object is on one rank; every decision that ranks
//! share comes out of what all of them have told, by the same computation.

pub mod balance;
mod checkpoint;
mod deliver;
mod exact;
mod graph;
pub mod holders;
mod index;
mod kind;
mod load;
mod migrate;
mod objects;
mod post;
mod restore;
mod tree;
mod wire;

pub use balance::Strategy;
pub use exact::Exact;
pub use index::{Key, id_of, place_of};
pub use kind::{Maker, Object};
pub use migrate::Balanced;
pub use objects::{Measured, Objects, Options};
pub use post::{Op, Post};
pub use restore::Came;
pub use wire::{Arriving, Wire, work_for_a_while, worth_waiting_for};
