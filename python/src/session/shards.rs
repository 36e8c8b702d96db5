//! The shards of the restored revision, on whichever node they are.

use super::Session;
use crate::{
    number::{Text, Whole},
    open::or_refuse,
    reader::{ReadsShards, Shard, contents_of},
};
use mainstay_engine::{Error, Reader};
use pyo3::{prelude::*, types::PyBytes};

#[pymethods]
impl Session {
    /// Lets this rank read the shards of these numbers with read_shard(), on whichever node they are. Returns all
    /// shards of the restored revision, with their `items` and `notes`: shard r is the one that rank r saved,
    /// whatever the number of ranks now. Without numbers it does only that. Shards that only other nodes have are
    /// sent into memory of this rank. Collective; each rank passes the shards that it wants. Valid until the next
    /// checkpoint begins. InvalidArgument: nothing was restored, a checkpoint has begun since, or there is no such
    /// shard; Damaged: every copy of a shard is damaged.
    #[pyo3(signature = (shards=None))]
    fn bring_shards(&self, py: Python<'_>, shards: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Py<Shard>>> {
        let wanted = shards.map_or(Ok(Vec::new()), numbers);
        self.state.turn(py)?;
        let told = self.state.call(py, |engine| {
            let wanted = or_refuse(engine, wanted);
            engine.bring_shards(&wanted)?;
            let shards = engine.shards()?;
            (0..shards.shard_count()).map(|shard| contents_of(shards, shard)).collect::<Result<Vec<_>, Error>>()
        })?;
        (0..).zip(told).map(|(number, (items, notes))| Shard::of(py, number, &items, notes)).collect()
    }

    /// Returns up to `bytes` bytes, or all, from `offset` on of the item `name` of a shard of bring_shards(): fewer
    /// only at its end. Local, verified; valid until the next checkpoint begins.
    #[pyo3(
        signature = (shard, name, offset=Whole(0), bytes=None),
        text_signature = "($self, shard, name, offset=0, bytes=None)"
    )]
    fn read_shard<'py>(
        &self,
        py: Python<'py>,
        shard: Whole<u32>,
        name: Text<'_>,
        offset: Whole<u64>,
        bytes: Option<Whole<u64>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.read_item(py, (shard, name), offset, bytes)
    }

    /// Like read_shard(), into `buffer`; returns the number of bytes read.
    fn readinto_shard(
        &self,
        py: Python<'_>,
        shard: Whole<u32>,
        name: Text<'_>,
        offset: Whole<u64>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        self.read_item_into(py, (shard, name), offset, buffer)
    }
}

impl ReadsShards for Session {
    fn reading<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Reader) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.state.call(py, |engine| call(engine.shards()?))
    }
}

/// The numbers of shards.
fn numbers(shards: &Bound<'_, PyAny>) -> Result<Vec<u32>, Error> {
    let told = || Error::argument("shards", format!("{shards} is no sequence of their numbers, from 0 on"));
    let each = shards.try_iter().map_err(|_| told())?;
    each.map(|number| number.and_then(|number| number.extract()).map_err(|_: PyErr| told())).collect()
}
