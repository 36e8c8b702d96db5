//! The settings that a program passes. Others, and those passed as `None`, come from the environment, a file, or the
//! default.

use mainstay_engine::{Choice, Config, Error, Value};
use pyo3::{
    prelude::*,
    types::{PyBool, PyDict, PyString},
};
use std::path::PathBuf;

/// The settings in force if the program passed these keywords.
pub(crate) fn config(given: Option<&Bound<'_, PyDict>>) -> Result<Config, Error> {
    let (mut choice, mut hints) = (Choice::default(), None);
    for (name, value) in given.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        match name.to_string().as_str() {
            "hints" => hints = Some(value),
            name => set(&mut choice, name, &value)?,
        }
    }
    if let Some(hints) = hints {
        for (name, value) in pairs(&hints)? {
            choice.hint(&name, &value)?;
        }
    }
    Ok(Config::resolve(&choice)?.config)
}

fn set(choice: &mut Choice, name: &str, given: &Bound<'_, PyAny>) -> Result<(), Error> {
    // In Python a bool is an int, but it is none of these numbers.
    if !given.is_instance_of::<PyBool>() {
        if let Ok(text) = given.cast::<PyString>() {
            // No value can be invalid Unicode; the message can show it.
            return choice.set(name, Value::Text(&text.to_string_lossy()));
        }
        if let Ok(number) = given.extract() {
            return choice.set(name, Value::Integer(number));
        }
        if let Ok(number) = given.extract() {
            return choice.set(name, Value::Float(number));
        }
        if let Ok(path) = given.extract::<PathBuf>() {
            return choice.set(name, Value::Word(path.as_os_str()));
        }
    }
    choice.set(name, Value::Other(&shown(given)))
}

/// Names and values of a mapping; numbers are texts to MPI.
fn pairs(hints: &Bound<'_, PyAny>) -> Result<Vec<(String, String)>, Error> {
    let pair = |item: PyResult<Bound<'_, PyAny>>| {
        let (name, value): (String, Bound<'_, PyAny>) = item?.extract()?;
        Ok((name, value.str()?.to_string_lossy().into_owned()))
    };
    let read = || hints.call_method0("items")?.try_iter()?.map(pair).collect::<PyResult<Vec<_>>>();
    read().map_err(|_| Error::argument("hints", format!("{} is no mapping of names to values", shown(hints))))
}

/// The name in a collective call.
pub(crate) fn text(given: &Bound<'_, PyAny>) -> Result<String, Error> {
    // Invalid Unicode is refused together with other forbidden characters.
    let text = given.cast::<PyString>().map(|text| text.to_string_lossy().into_owned());
    text.map_err(|_| Error::argument("name", format!("{} is none, it takes a str", shown(given))))
}

pub(crate) fn path(name: &str, given: &Bound<'_, PyAny>) -> Result<PathBuf, Error> {
    given
        .extract()
        .map_err(|_| Error::argument(name, format!("{} is no path, it takes a str or an os.PathLike", shown(given))))
}

/// The value as Python shows it; of any length.
pub(crate) fn shown(given: &Bound<'_, PyAny>) -> String {
    const LENGTH_MAX: usize = 80;
    let text = given.repr().map_or_else(|_| "the given value".to_owned(), |text| text.to_string());
    match text.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
