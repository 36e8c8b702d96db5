//! Drawings in files.

use crate::exit::Failure;
use std::{error::Error, fs, path::Path};

/// Writes to `path` the SVG that `draw` makes.
pub fn write(path: &Path, draw: impl FnOnce(&mut String) -> Result<(), Box<dyn Error>>) -> Result<(), Failure> {
    let mut svg = String::new();
    draw(&mut svg).map_err(|e| Failure::refused(format!("drawing failed: {e}")))?;
    let name = mainstay_engine::printable_path(path);
    fs::write(path, svg).map_err(|e| Failure::refused(format!("writing {name} failed: {e}")))
}
