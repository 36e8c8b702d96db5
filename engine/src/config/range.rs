//! The valid values of a key.

use super::LevelPlace;
use std::{
    ops::RangeInclusive,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

pub(super) fn any<T>(_: &T) -> bool {
    true
}

pub(super) fn within<T: PartialOrd>(range: RangeInclusive<T>) -> impl Fn(&T) -> bool {
    move |value| range.contains(value)
}

/// Multiples of `unit`, from `unit` on.
pub(super) fn multiples(unit: u64, max: u64) -> impl Fn(&u64) -> bool {
    move |value| (unit..=max).contains(value) && value.is_multiple_of(unit)
}

/// Zero, which means none, or a value accepted by `in_range`.
pub(super) fn or_zero<T: Default + PartialEq>(in_range: impl Fn(&T) -> bool) -> impl Fn(&T) -> bool {
    move |value| *value == T::default() || in_range(value)
}

/// `None`, which means a value found at run time, or a value accepted by `in_range`.
pub(super) fn or_auto<T>(in_range: impl Fn(&T) -> bool) -> impl Fn(&Option<T>) -> bool {
    move |value| value.as_ref().is_none_or(&in_range)
}

/// No path, or an absolute one, because the ranks of a job have separate working directories.
pub(super) fn is_place(place: &LevelPlace) -> bool {
    match place {
        LevelPlace::Off | LevelPlace::Auto => true,
        LevelPlace::At(path) => is_path(path) && path.is_absolute(),
    }
}

pub(super) fn is_path_or_none(path: &Option<PathBuf>) -> bool {
    path.as_deref().is_none_or(is_path)
}

pub(super) fn is_path(path: &Path) -> bool {
    !path.as_os_str().is_empty() && !path.as_os_str().as_bytes().contains(&0)
}
