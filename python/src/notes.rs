//! Notes of a program about its revisions.

use crate::settings::shown;
use mainstay_engine::{Error, Session};
use pyo3::{
    intern,
    prelude::*,
    types::{PyMapping, PyString},
};

/// Name and text of each note. A value is a str, or a number with the text `str(value)`.
pub(crate) fn notes(given: Option<&Bound<'_, PyAny>>) -> Result<Vec<(String, String)>, Error> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let odd = || Error::argument("notes", format!("{} is no mapping of names to texts and numbers", shown(given)));
    let items = given
        .cast::<PyMapping>()
        .map_err(|_| odd())?
        .items()
        .map_err(|error| Error::argument("notes", error.to_string()))?;
    items
        .iter()
        .map(|item| {
            let (name, value) = item.extract().map_err(|_| Error::argument("notes", "its items are no pairs"))?;
            note(&name, &value)
        })
        .collect()
}

/// The same for one note.
pub(crate) fn note(name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Result<(String, String), Error> {
    let py = name.py();
    let odd = |why: &str| Error::argument(format!("the note {name}"), why);
    let name = name.extract().map_err(|_| odd("its name is no text; give a dict from str to str or numbers"))?;
    // numpy's numbers are neither int nor float, but can be converted; its arrays too, according to their type.
    let has_sides =
        value.getattr(intern!(py, "ndim")).and_then(|sides| sides.extract()).is_ok_and(|sides: usize| sides > 0);
    let is_number = !has_sides
        && [intern!(py, "__index__"), intern!(py, "__float__")]
            .into_iter()
            .any(|can| value.hasattr(can).unwrap_or(false));
    if !is_number && !value.is_instance_of::<PyString>() {
        return Err(odd("its value is no text and no number; give str(value), or protect it"));
    }
    let text_of = |value: &Bound<'_, PyAny>| {
        value.str().and_then(|text| text.extract::<String>()).map_err(|_| odd("its text is no Unicode"))
    };
    let mut text = text_of(value)?;
    if is_number && text.contains('(') {
        // A tensor's text is not a number, and lacks digits.
        let number = value.call_method0(intern!(py, "item")).ok().map(|number| text_of(&number)).transpose()?;
        text = number.ok_or_else(|| odd("its text is no number; give int(value) or float(value)"))?;
    }
    Ok((name, text))
}

/// Sets the notes for all revisions from now on.
pub(crate) fn set(session: &mut Session, notes: &[(String, String)]) -> Result<(), Error> {
    notes.iter().try_for_each(|(name, value)| session.note(name, value))
}
