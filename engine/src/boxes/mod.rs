//! Boxes in arrays of n dimensions: their common cells, the boxes that cover another, and the places of their cells as
//! bytes.
//!
//! Only numbers. Invariant: no product overflows, because no checked array has 2^63 bytes.

mod cells;
mod rows;

pub(crate) use cells::{Cells, Uncovered, cover};
pub(crate) use rows::Rows;
