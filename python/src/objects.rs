//! Objects that move, for the module `mainstay.objects`, which programs use.
//!
//! Invariant: while the program's functions run, nothing is borrowed that they may need. Their exceptions are errors
//! of the object, reported on all ranks. The interpreter is released only while ranks wait for each other, because
//! handlers run in between.

use crate::{
    buffer::Flat,
    error::{caused, guarded, raise},
    number::{Whole, Wholes},
    open::or_refuse,
    session::Session,
    wire::Alone,
};
use mainstay_engine::{Error, Result, Session as Engine};
use mainstay_objects::{Balanced, Key, Object, Objects as Core, Op, Options, Post, Wire, id_of, place_of};
use pyo3::{
    intern,
    prelude::*,
    types::{PyBytes, PyList},
};
use std::{
    any::Any,
    cell::{RefCell, RefMut},
    rc::Rc,
};

/// The exception of a function of the program, until the present call ends.
type Raised = Rc<RefCell<Option<PyErr>>>;

type BalancedTuple = (u64, u64, u64, u64, u64, u64);
type MeasuredTuple = (u64, Vec<(u32, u64, u64)>);
type CameTuple = (u64, usize, usize, usize, Vec<String>);

#[pyclass(name = "_Objects", unsendable)]
pub(crate) struct Objects {
    session: Py<Session>,
    /// `None` once they are closed.
    core: RefCell<Option<Core>>,
    post: Post,
    raised: Raised,
}

/// An object of the program, and its kind of `mainstay.objects`.
struct Moving {
    object: Py<PyAny>,
    kind: Py<PyAny>,
    raised: Raised,
}

/// Calls the program; its exception becomes an error with its text.
fn called<T>(raised: &Raised, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    let ending = || Error::GroupFailed { what: "the interpreter is ending; close objects before".to_owned() };
    Python::try_attach(|py| {
        call(py).map_err(|error| {
            let value = error.value(py);
            let kind = value.getattr(intern!(py, "kind")).and_then(|kind| kind.extract::<String>());
            let class = error.get_type(py).name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            let told = if kind.is_ok() { value.to_string() } else { format!("{class}: {value}") };
            if kind.is_ok_and(|kind| kind == "GroupFailed") {
                return Error::GroupFailed { what: told };
            }
            raised.borrow_mut().get_or_insert(error);
            Error::argument("the program says", told)
        })
    })
    .unwrap_or_else(|| Err(ending()))
}

impl Moving {
    /// The packed data, part by part.
    fn parts(&self, mut each: impl FnMut(&[u8])) -> Result<()> {
        called(&self.raised, |py| {
            let parts = self.kind.call_method1(py, intern!(py, "_parts"), (&self.object,))?;
            for part in parts.bind(py).cast::<PyList>()? {
                let part = Flat::to_read("its saved bytes", &part).map_err(|error| raise(py, &error))?;
                each(part.bytes());
            }
            Ok(())
        })
    }
}

impl Object for Moving {
    fn bytes(&self) -> Result<usize> {
        let mut bytes = 0;
        self.parts(|part| bytes += part.len())?;
        Ok(bytes)
    }

    fn pack(&self, into: &mut [u8]) -> Result<usize> {
        let mut at = 0;
        self.parts(|part| {
            if let Some(room) = into.get_mut(at..at + part.len()) {
                room.copy_from_slice(part);
            }
            at += part.len();
        })?;
        Ok(at)
    }

    fn unpack(&mut self, from: &[u8]) -> Result<usize> {
        called(&self.raised, |py| {
            if !self.kind.getattr(py, intern!(py, "_is_buffer"))?.is_truthy(py)? {
                let given = (&self.object, PyBytes::new(py, from));
                return self.kind.call_method1(py, intern!(py, "_fill"), given)?.extract(py);
            }
            let room = self.kind.call_method1(py, intern!(py, "_room"), (&self.object, from.len()))?;
            let mut room = Flat::to_fill("its saved bytes", room.bind(py)).map_err(|error| raise(py, &error))?;
            let room = room.bytes_mut();
            room.iter_mut().zip(from).for_each(|(to, byte)| *to = *byte);
            Ok(room.len())
        })
    }

    fn receive(&mut self, method: u32, bytes: &[u8], _: &Post) -> Result<()> {
        called(&self.raised, |py| {
            let given = (&self.object, method, PyBytes::new(py, bytes));
            self.kind.call_method1(py, intern!(py, "_receive"), given).map(drop)
        })
    }

    fn method(&self, method: u32) -> String {
        let name = called(&self.raised, |py| {
            self.kind.getattr(py, intern!(py, "_methods"))?.bind(py).get_item(method)?.extract()
        });
        name.unwrap_or_else(|_| method.to_string())
    }
}

#[pymethods]
impl Objects {
    #[new]
    fn new(
        py: Python<'_>,
        session: Py<Session>,
        strategy: &str,
        every: Whole<u64>,
        after_failure: Whole<u64>,
    ) -> PyResult<Objects> {
        let strategy = strategy.parse().map_err(|error| raise(py, &error))?;
        let wire: Box<dyn Wire> =
            session.get().wire(py).map_or_else(|| Box::new(Alone) as _, |wire| Box::new(wire) as _);
        let mut core = Core::new(wire, Options { strategy, every: every.0, after_failure: after_failure.0 });
        session.get().state.local(py, |open| core.attach(open.engine()?))?;
        let post = core.post();
        Ok(Objects { session, core: RefCell::new(Some(core)), post, raised: Raised::default() })
    }

    /// The number of the index at these coordinates; `None`: too many, or too large.
    #[staticmethod]
    fn index(at: Wholes<u64>) -> Option<u64> {
        id_of(&at.0)
    }

    #[staticmethod]
    fn place(index: u64, dimensions: usize) -> Vec<u64> {
        place_of(index, dimensions)
    }

    fn register(&self, py: Python<'_>, name: &str, dimensions: usize, kind: Py<PyAny>) -> PyResult<u32> {
        let raised = self.raised.clone();
        let make = move |id: u64| -> Result<Box<dyn Object>> {
            called(&raised, |py| {
                let object = kind.call_method1(py, intern!(py, "_make"), (id,))?;
                Ok(Box::new(Moving { object, kind: kind.clone_ref(py), raised: raised.clone() }) as Box<dyn Object>)
            })
        };
        self.with(py, "add", |core| core.register(name, dimensions, Box::new(make)))
    }

    fn create(&self, py: Python<'_>, kind: u32, index: u64) -> PyResult<Option<Py<PyAny>>> {
        self.with(py, "create", |core| Ok(object_of(py, core.create(Key { kind, id: index })?)))
    }

    fn get(&self, py: Python<'_>, kind: u32, index: u64) -> PyResult<Option<Py<PyAny>>> {
        self.with(py, "get", |core| Ok(core.get(Key { kind, id: index }).and_then(|object| object_of(py, object))))
    }

    fn here(&self, py: Python<'_>, kind: u32) -> PyResult<Vec<u64>> {
        self.with(py, "here", |core| {
            Ok(core.here().into_iter().filter(|key| key.kind == kind).map(|key| key.id).collect())
        })
    }

    fn rank(&self, py: Python<'_>, kind: u32, index: u64) -> PyResult<usize> {
        self.with(py, "rank", |core| {
            let key = Key { kind, id: index };
            let why = "no rank has made it, as far as this one knows";
            core.rank_of(key).ok_or_else(|| Error::argument(format!("object {}", core.name(key)), why))
        })
    }

    fn measured(&self, py: Python<'_>, kind: u32, index: u64) -> PyResult<MeasuredTuple> {
        self.with(py, "measured", |core| {
            let key = Key { kind, id: index };
            let on = core.rank_of(key).map_or_else(|| "on no rank".to_owned(), |rank| format!("on rank {rank}"));
            let elsewhere = || {
                Error::argument(
                    format!("object {}", core.name(key)),
                    format!("it is {on}, which alone knows; ask there"),
                )
            };
            let measured = core.measured(key).ok_or_else(elsewhere)?;
            Ok((measured.load, measured.sent.iter().map(|(to, bytes)| (to.kind, to.id, *bytes)).collect()))
        })
    }

    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, "len", |core| Ok(core.count()))
    }

    #[getter]
    fn steps(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, "steps", |core| Ok(core.steps()))
    }

    fn send(&self, kind: u32, index: u64, method: u32, data: &[u8]) {
        self.post.send(Key { kind, id: index }, method, data);
    }

    fn broadcast(&self, kind: u32, method: u32, data: &[u8]) {
        self.post.broadcast(kind, method, data);
    }

    fn contribute(&self, py: Python<'_>, result: Whole<u32>, op: &str, values: Vec<f64>) -> PyResult<()> {
        let result = result.0;
        let contributed = match op {
            "sum" => Ok(Op::Sum),
            "min" => Ok(Op::Min),
            "max" => Ok(Op::Max),
            other => Err(Error::argument("op", format!("{other:?} is none; there are: sum, min, max"))),
        }
        .and_then(|op| {
            let why = "another object contributes by another operation, or not as many values; let all do it alike";
            let is_alike = self.post.contribute(result, op, &values);
            is_alike.then_some(()).ok_or_else(|| Error::argument(format!("result {result} over objects"), why))
        });
        contributed.map_err(|error| raise(py, &error))
    }

    fn result(&self, result: Whole<u32>) -> Option<Vec<f64>> {
        self.post.result(result.0)
    }

    fn work(&self, units: Whole<u64>) {
        self.post.work(units.0);
    }

    fn step(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, "step", Core::step)
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<u64> {
        let session = self.session.get();
        let (flushed, raised) = session.state.flush(py);
        session.state.turn(py)?;
        let saved = self.with_session(py, "checkpoint", |core, engine| {
            or_refuse(engine, flushed);
            core.checkpoint(engine)
        });
        saved.map_err(|error| caused(py, error, raised))
    }

    fn restore(&self, py: Python<'_>) -> PyResult<Option<CameTuple>> {
        self.session.get().state.turn(py)?;
        let came = self.with_session(py, "restore", Core::restore)?;
        Ok(came.map(|came| {
            let restored = came.restored;
            (restored.revision, came.here, came.objects, came.elsewhere, restored.skipped)
        }))
    }

    fn balance(&self, py: Python<'_>, strategy: &str) -> PyResult<BalancedTuple> {
        self.with(py, "balance", |core| core.balance_by(strategy.parse()).map(tuple))
    }

    fn evacuate(&self, py: Python<'_>, ranks: Bound<'_, PyAny>) -> PyResult<BalancedTuple> {
        let ranks = ranks.extract::<Wholes<usize>>();
        // A rank that does not exist here is passed on, because the other ranks have made the same call.
        let named = ranks.as_ref().map_or_else(|_| vec![usize::MAX], |ranks| ranks.0.clone());
        let came = self.with(py, "evacuate", |core| core.evacuate(&named).map(tuple));
        ranks.and(came)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(mut core) = self.core.try_borrow_mut().map_err(|_| raise(py, &reentered("close")))?.take() else {
            return Ok(());
        };
        // A session that is closed, or that a failed recovery has ended, has nothing to forget.
        drop(self.session.get().state.local(py, |open| core.forget(open.engine()?)));
        Ok(())
    }
}

impl Objects {
    fn core(&self, call: &str) -> Result<RefMut<'_, Core>> {
        let core = self.core.try_borrow_mut().map_err(|_| reentered(call))?;
        RefMut::filter_map(core, Option::as_mut)
            .map_err(|_| Error::argument("objects", "they are closed; open them anew, and restore"))
    }

    fn with<T>(&self, py: Python<'_>, call: &str, work: impl FnOnce(&mut Core) -> Result<T>) -> PyResult<T> {
        let done = self.core(call).and_then(|mut core| guarded(|| work(&mut core)));
        self.told(py, done.map_err(|error| raise(py, &error)))
    }

    fn with_session<T>(
        &self,
        py: Python<'_>,
        call: &str,
        work: impl FnOnce(&mut Core, &mut Engine) -> Result<T>,
    ) -> PyResult<T> {
        let mut core = self.core(call).map_err(|error| raise(py, &error))?;
        let done = self.session.get().state.held(py, |engine| guarded(|| work(&mut core, engine)));
        drop(core);
        self.told(py, done)
    }

    fn told<T>(&self, py: Python<'_>, done: PyResult<T>) -> PyResult<T> {
        let cause = self.raised.borrow_mut().take();
        done.map_err(|error| caused(py, error, cause))
    }
}

fn reentered(call: &str) -> Error {
    Error::argument(call, "it was called by a handler of an object, which may send and contribute only")
}

fn object_of(py: Python<'_>, object: &dyn Object) -> Option<Py<PyAny>> {
    let object: &dyn Any = object;
    object.downcast_ref::<Moving>().map(|moving| moving.object.clone_ref(py))
}

fn tuple(balanced: Balanced) -> BalancedTuple {
    let Balanced { moved, busiest_before, busiest, average, sent_before, sent } = balanced;
    (moved, busiest_before, busiest, average, sent_before, sent)
}
