//! The settings that a program gives; `None` stands for what is set elsewhere, or the default.

use crate::error::argument;
use mainstay_engine::{Config, Error, Stage};
use pyo3::{conversion::FromPyObjectOwned, prelude::*};
use std::path::PathBuf;

/// The keywords of `open`.
pub(crate) struct Settings<'py> {
    pub(crate) keep: Option<Bound<'py, PyAny>>,
    pub(crate) stage: Option<Bound<'py, PyAny>>,
    pub(crate) pool_bytes: Option<Bound<'py, PyAny>>,
    pub(crate) chunk_bytes: Option<Bound<'py, PyAny>>,
    pub(crate) io_threads: Option<Bound<'py, PyAny>>,
    pub(crate) portion_bytes: Option<Bound<'py, PyAny>>,
    pub(crate) pool_directory: Option<Bound<'py, PyAny>>,
}

impl Settings<'_> {
    pub(crate) fn config(&self) -> Result<Config, Error> {
        let mut config = Config::default();
        number("keep", &self.keep, &mut config.keep)?;
        number("pool_bytes", &self.pool_bytes, &mut config.pool_bytes)?;
        number("chunk_bytes", &self.chunk_bytes, &mut config.chunk_bytes)?;
        number("io_threads", &self.io_threads, &mut config.io_threads)?;
        number("portion_bytes", &self.portion_bytes, &mut config.portion_bytes)?;
        if let Some(stage) = &self.stage {
            config.stage = match stage.extract::<String>().as_deref() {
                Ok("pool") => Stage::Pool,
                Ok("direct") => Stage::Direct,
                _ => {
                    return Err(argument(
                        "stage",
                        format!("{} is no stage, it takes 'pool' or 'direct'", shown(stage)),
                    ));
                }
            };
        }
        if let Some(directory) = &self.pool_directory {
            config.pool_directory = path("pool_directory", directory)?;
        }
        Ok(config)
    }
}

pub(crate) fn path(name: &str, given: &Bound<'_, PyAny>) -> Result<PathBuf, Error> {
    given
        .extract()
        .map_err(|_| argument(name, format!("{} is no path, it takes a str or an os.PathLike", shown(given))))
}

fn number<T: for<'py> FromPyObjectOwned<'py>>(
    name: &str,
    given: &Option<Bound<'_, PyAny>>,
    into: &mut T,
) -> Result<(), Error> {
    if let Some(given) = given {
        let odd = || argument(name, format!("{} is out of range, it takes a whole number", shown(given)));
        *into = given.extract().ok().ok_or_else(odd)?;
    }
    Ok(())
}

fn shown(given: &Bound<'_, PyAny>) -> String {
    given.repr().map_or_else(|_| "what was given".to_owned(), |text| text.to_string())
}
