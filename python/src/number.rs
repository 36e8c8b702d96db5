//! Whole numbers from Python. One that is none which the engine has is refused as the engine refuses, and not by an
//! `OverflowError`; what is no number at all is a `TypeError`.

use crate::error::raise;
use mainstay_engine::Error;
use pyo3::{exceptions::PyOverflowError, prelude::*};
use std::mem::size_of;

/// An argument of a call that is local.
pub(crate) struct Whole<T>(pub(crate) T);

impl<'a, 'py, T: TryFrom<u64>> FromPyObject<'a, 'py> for Whole<T> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let refused = || raise(given.py(), &refused::<T>("number", &given));
        match given.extract::<u64>() {
            Ok(number) => T::try_from(number).map(Whole).map_err(|_| refused()),
            Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => Err(refused()),
            Err(error) => Err(error),
        }
    }
}

/// An argument of a collective call, which the other ranks may be in already: whatever is wrong with it, they are told.
pub(crate) fn whole(name: &str, given: &Bound<'_, PyAny>) -> Result<u64, Error> {
    given.extract::<u64>().map_err(|_| refused::<u64>(name, given))
}

fn refused<T>(name: &str, given: &Bound<'_, PyAny>) -> Error {
    let bits = 8 * size_of::<T>();
    Error::argument(name, format!("{given} is none that can be; give a whole number from 0 on, below 2**{bits}"))
}
