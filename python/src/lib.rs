//! The module `mainstay._engine`: translates Python's calls into the engine's.
//!
//! One noun a file. The interpreter is released while the engine works; only the ranks' collectives (`group`) take it
//! back. Invariants: protected memory is held as an exported buffer, so nobody frees or moves it (`buffer`); a
//! function's buffer is held during a call (`follow`). No Python code runs inside a collective. Every panic and every
//! error has a class of its own (`error`).

mod agreement;
mod buffer;
mod ears;
mod enter;
mod error;
mod follow;
mod got;
mod group;
mod member;
mod memory;
mod messages;
mod mpi;
mod notes;
mod number;
mod objects;
mod open;
mod ranks;
mod reader;
mod record;
mod recovered;
mod regroup;
mod restored;
mod session;
mod settings;
mod spawn;
mod speculation;
mod stream;
mod wire;
mod world;

#[pyo3::pymodule(name = "_engine")]
mod engine {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::{
        got::Got,
        objects::Objects,
        ranks::Ranks,
        reader::{Item, Reader, Shard, read},
        record::Record,
        recovered::Recovered,
        restored::{ListedRevision, Restored},
        session::{Session, open},
        speculation::Speculation,
        world::finalize,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::error::add_classes(module)?;
        // Only for tests.
        module.getattr("__all__")?.call_method1("remove", ("_Ranks",))?;
        // Programs use `mainstay.objects` instead.
        module.getattr("__all__")?.call_method1("remove", ("_Objects",))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
