//! A class for each kind of error, with the same message as in Rust and C.

use mainstay_engine::{Error, ErrorKind};
use pyo3::{
    exceptions::{PyException, PyOSError, PySystemExit, PyTypeError, PyValueError},
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyTuple, PyType},
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// In the order of `ErrorKind::ALL`.
static CLASSES: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();

/// Adds `Error` and a class for each kind of error, under its name.
pub(crate) fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let base = class(
        py,
        "Error",
        &[py.get_type::<PyException>()],
        "An error of Mainstay. Its text says what happened and how to mend it.",
    )?;
    module.add("Error", &base)?;
    let mut classes = Vec::new();
    for kind in ErrorKind::ALL {
        let name = format!("{kind:?}");
        let bases = match kind {
            // A program that does not catch it ends normally.
            ErrorKind::NotNeeded => vec![py.get_type::<PySystemExit>()],
            kind => [base.clone()].into_iter().chain(natural_bases(py, kind)).collect(),
        };
        let class = class(py, &name, &bases, kind.meaning())?;
        module.add(&*name, &class)?;
        classes.push(class.unbind());
    }
    let _ = CLASSES.set(py, classes);
    Ok(())
}

/// The exception that Python itself would raise in such a case.
fn natural_bases(py: Python<'_>, kind: ErrorKind) -> Vec<Bound<'_, PyType>> {
    match kind {
        ErrorKind::InvalidArgument => vec![py.get_type::<PyValueError>(), py.get_type::<PyTypeError>()],
        ErrorKind::InvalidName | ErrorKind::DuplicateName => vec![py.get_type::<PyValueError>()],
        ErrorKind::Io | ErrorKind::DiskFull => vec![py.get_type::<PyOSError>()],
        _ => Vec::new(),
    }
}

fn class<'py>(py: Python<'py>, name: &str, bases: &[Bound<'py, PyType>], doc: &str) -> PyResult<Bound<'py, PyType>> {
    let body = PyDict::new(py);
    body.set_item("__module__", "mainstay")?;
    body.set_item("__doc__", doc)?;
    body.set_item("kind", name)?;
    let made = py.get_type::<PyType>().call1((name, PyTuple::new(py, bases)?, body))?;
    Ok(made.cast_into::<PyType>()?)
}

pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let index = ErrorKind::ALL.iter().position(|kind| *kind == error.kind());
    let class = CLASSES.get(py).zip(index).and_then(|(classes, index)| classes.get(index));
    let Some(class) = class else { return PyException::new_err(error.to_string()) };
    let raised = PyErr::from_type(class.bind(py).clone(), (error.to_string(),));
    if error.kind() == ErrorKind::NotNeeded {
        // By default the code would be the text, and the program would end with a failure.
        let _ = raised.value(py).setattr(intern!(py, "code"), 0);
    }
    if let Error::Io { source, .. } | Error::DiskFull { source, .. } = error
        && let Some(errno) = source.raw_os_error()
    {
        // Set separately, because OSError would compose another message.
        let _ = raised.value(py).setattr(intern!(py, "errno"), errno);
    }
    raised
}

/// Marks the error of a collective call, which all ranks get: if nobody catches it, only rank 0 prints it. After a
/// failure of ranks, rank 0 may be the lost one.
pub(crate) fn of_all<T>(py: Python<'_>, rank: usize, was_called: bool, called: PyResult<T>) -> PyResult<T> {
    called.inspect_err(|error| {
        let kind = error.value(py).getattr(intern!(py, "kind")).and_then(|kind| kind.extract::<String>());
        // No other rank can print an exception of this rank's own code.
        let is_alone = error.cause(py).is_some();
        if rank > 0 && was_called && !is_alone && kind.is_ok_and(|kind| kind != "GroupFailed" && kind != "NotNeeded") {
            let _ = error.value(py).setattr(intern!(py, "_is_rank_0s_too"), true);
        }
    })
}

/// An exception of this rank's program in a call is the cause of the error that all ranks get; a Ctrl-C in it stays
/// one.
pub(crate) fn caused(py: Python<'_>, error: PyErr, cause: Option<PyErr>) -> PyErr {
    match cause {
        Some(cause) if !cause.is_instance_of::<PyException>(py) => cause,
        Some(cause) => {
            error.set_cause(py, Some(cause));
            error
        }
        None => error,
    }
}

/// Runs `call` without the interpreter; a panic in it becomes an error.
pub(crate) fn detached<T: Send>(py: Python<'_>, call: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    py.detach(|| guarded(call))
}

/// Runs `call`; a panic in it becomes an error.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let panicked = |_| Err(Error::Internal { what: "a panic".to_owned() });
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked)
}
