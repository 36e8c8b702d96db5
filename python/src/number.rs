//! Arguments of local calls, and all whole numbers. A wrong type, or a number that the engine cannot take, fails like
//! an error of the engine, and not only with a `TypeError` or an `OverflowError`.

use crate::{error::raise, settings::shown};
use mainstay_engine::Error;
use pyo3::{
    exceptions::{PyOverflowError, PyTypeError},
    prelude::*,
    types::PyString,
};
use std::{mem::size_of, ops::Deref};

/// A number.
pub(crate) struct Whole<T>(pub(crate) T);

impl<'a, 'py, T: TryFrom<u64>> FromPyObject<'a, 'py> for Whole<T> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let refused = || raise(given.py(), &refused::<T>("number", &given));
        match given.extract::<u64>() {
            Ok(number) => T::try_from(number).map(Whole).map_err(|_| refused()),
            Err(error) => Err(or_own(error, &given, refused)),
        }
    }
}

/// A sequence of numbers.
pub(crate) struct Wholes<T>(pub(crate) Vec<T>);

impl<'a, 'py, T: TryFrom<u64>> FromPyObject<'a, 'py> for Wholes<T> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let refused = || refused_type(&given, "numbers", "is no sequence of whole numbers");
        let numbers = given.extract::<Vec<Bound<'_, PyAny>>>().map_err(|error| or_own(error, &given, refused))?;
        numbers.iter().map(|number| number.extract().map(|Whole(number)| number)).collect::<PyResult<_>>().map(Wholes)
    }
}

/// A name or a word; invalid Unicode in it is refused together with other forbidden characters.
#[derive(Clone)]
pub(crate) struct Text<'py>(Bound<'py, PyString>);

impl<'a, 'py> FromPyObject<'a, 'py> for Text<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let text = given.cast::<PyString>().map(|text| Text(text.to_owned()));
        text.map_err(|_| refused_type(&given, "text", "is none, it takes a str"))
    }
}

impl<'py> Deref for Text<'py> {
    type Target = Bound<'py, PyString>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A boolean.
pub(crate) struct Flag(pub(crate) bool);

impl<'a, 'py> FromPyObject<'a, 'py> for Flag {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        given.extract().map(Flag).map_err(|_| refused_type(&given, "bool", "is none, it takes True or False"))
    }
}

/// Exit status of a process.
pub(crate) struct Status(pub(crate) i32);

impl<'a, 'py> FromPyObject<'a, 'py> for Status {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let refused = || refused_type(&given, "status", "is none, it takes a whole number of 32 bits");
        given.extract().map(Status).map_err(|error| or_own(error, &given, refused))
    }
}

/// An argument of a collective call, which the other ranks may be in already: they learn of any mistake in it.
pub(crate) fn whole(name: &str, given: &Bound<'_, PyAny>) -> Result<u64, Error> {
    given.extract::<u64>().map_err(|_| refused::<u64>(name, given))
}

/// `refused` if Python has refused the value; an exception of the object's own code (KeyboardInterrupt) goes on.
fn or_own(error: PyErr, given: &Bound<'_, PyAny>, refused: impl FnOnce() -> PyErr) -> PyErr {
    let py = given.py();
    let is_of_python = error.is_instance_of::<PyOverflowError>(py) || error.is_instance_of::<PyTypeError>(py);
    if is_of_python { refused() } else { error }
}

fn refused_type(given: &Bound<'_, PyAny>, what: &str, why: &str) -> PyErr {
    raise(given.py(), &Error::argument(what, format!("{} {why}", shown(given))))
}

fn refused<T>(name: &str, given: &Bound<'_, PyAny>) -> Error {
    let bits = 8 * size_of::<T>();
    let given = shown(given);
    Error::argument(name, format!("{given} is none that can be; give a whole number from 0 on, below 2**{bits}"))
}
