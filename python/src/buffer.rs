//! Memory of a Python object, by the buffer protocol.
//!
//! Invariant: while a `Buffer` lives, its address and length stay valid. An exported buffer keeps its exporter alive,
//! and well-behaved exporters refuse to be resized meanwhile.

use mainstay_engine::{
    Error, Region,
    space::format::{ElementType, PlaceInWhole},
};
use pyo3::{
    ffi, intern,
    prelude::*,
    types::{PyByteArray, PyBytes, PyWeakrefReference},
};
use std::{
    borrow::Cow,
    ffi::{CStr, c_char, c_int, c_void},
    ops::Deref,
};

/// `Py_buffer`. It is the same in every Python 3, and declared in the stable ABI from 3.11 on.
#[repr(C)]
struct View {
    buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: isize,
    itemsize: isize,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

#[allow(unsafe_code)]
unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut View, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut View);
}

/// `PyBUF_INDIRECT`: refuses no layout, because our own error names the problem.
const ANY_LAYOUT: c_int = 0x0118;
const FORMAT: c_int = 0x0004;
/// `PyBUF_SIMPLE`, `PyBUF_WRITABLE`: contiguous bytes, of any elements.
const SIMPLE: c_int = 0;
const WRITABLE: c_int = 1;
/// How many views of views are followed to find the owner of memory.
const OWNERS_MAX: usize = 16;
const OF_ADDRESSES: &str = "its elements are Python objects or pointers; their bytes mean nothing in another process";

/// Memory of a Python object, exported until this is dropped.
pub(crate) struct Buffer {
    view: Export,
    element: ElementType,
    /// The owners of the memory: a numpy array on a bytearray or a mapping does not hold it itself.
    owners: Vec<Export>,
    /// Whether one of these is an object of ctypes or of numpy, which may still get other memory.
    can_move: bool,
    /// With a weak reference to it, numpy refuses to move an array's memory, even with `refcheck=False`.
    _pins: Vec<Py<PyWeakrefReference>>,
}

/// One buffer of one object, exported until this is dropped.
struct Export(Box<View>);

// SAFETY: the view is only read, and released with the interpreter held.
#[allow(unsafe_code)]
unsafe impl Send for Export {}

impl Buffer {
    /// Holds the memory of `object`, to be saved under `name`. It must be in C order, writable, and have elements
    /// whose bytes mean the same in another process.
    pub(crate) fn hold(name: &str, object: &Bound<'_, PyAny>) -> Result<Buffer, Error> {
        let refuse = |why: String| Error::argument(format!("region {name:?}"), why);
        let (view, has_format) = export(object).map_err(refuse)?;
        let mut buffer =
            Buffer { view, element: ElementType::Bytes, owners: Vec::new(), can_move: false, _pins: Vec::new() };
        if buffer.view.readonly != 0 {
            return Err(refuse(
                "the buffer is read-only, and a restore could not fill it; protect a writable one (bytearray, \
                 array.array, a numpy array that is writeable; for a single number numpy.zeros((), \"i8\"))"
                    .to_owned(),
            ));
        }
        if !buffer.is_in_order() {
            return Err(refuse(if buffer.is_contiguous(true) {
                "the array is in Fortran's order; protect its transpose, array.T, which is the same memory".to_owned()
            } else {
                "its elements do not lie in C's order; protect the whole array that it is a part of, or a copy \
                 (numpy.ascontiguousarray)"
                    .to_owned()
            }));
        }
        if is_masked(object) {
            return Err(refuse(
                "the array is masked, and its mask is memory of its own; protect array.data and \
                 numpy.ma.getmaskarray(array), kept in a variable, under two names"
                    .to_owned(),
            ));
        }
        buffer.element = buffer.element_of(object, has_format).map_err(refuse)?;
        let owners = owners(object);
        // Objects without weak references (bytearray, array.array) protect themselves.
        buffer._pins =
            owners.iter().filter_map(|owner| PyWeakrefReference::new(owner).ok()).map(Bound::unbind).collect();
        // ctypes.resize does not ask, nor does __setstate__ of numpy.
        let asks_nobody = |name| owners.iter().any(|owner| owner.hasattr(name).unwrap_or(false));
        buffer.can_move = ["_b_needsfree_", "__array_interface__"].into_iter().any(asks_nobody);
        buffer.owners = owners.iter().skip(1).filter_map(|owner| Export::of(owner, ANY_LAYOUT).ok()).collect();
        Ok(buffer)
    }

    /// An error if an exporter has moved or shortened its memory anyway: the memory at the address is then not the
    /// program's.
    pub(crate) fn check(&self, py: Python<'_>, name: &str) -> Result<(), Error> {
        if !self.can_move || std::iter::once(&self.view).chain(&self.owners).all(|view| view.is_in_place(py)) {
            return Ok(());
        }
        let why = "its memory was moved or resized while it was protected; unprotect it before, and protect it again";
        Err(Error::argument(format!("region {name:?}"), why))
    }

    /// The memory as a region of the engine, which must not outlive this. `place`: its place in a global array.
    #[allow(unsafe_code)]
    pub(crate) fn region(&self, name: &str, place: Option<PlaceInWhole>) -> Result<Region, Error> {
        let apart = (!self.is_contiguous(false)).then(|| self.numbers(self.view.strides));
        let mut shape: Vec<u64> = self.shape().iter().map(|extent| *extent as u64).collect();
        let mut strides: Vec<u64> = apart.unwrap_or_default().iter().map(|stride| *stride as u64).collect();
        match (self.element, apart) {
            (ElementType::Bytes, None) => shape = vec![self.view.len as u64],
            (ElementType::Bytes, Some(_)) => {
                // The bytes of an element are a dimension of their own.
                shape.push(self.view.itemsize as u64);
                strides.push(1);
            }
            _ => {}
        }
        let bytes = shape.iter().try_fold(self.element.size(), |total, extent| total.checked_mul(*extent));
        if bytes != Some(self.view.len as u64) {
            let why = format!("its exporter contradicts itself: {} bytes, and shape {shape:?}", self.view.len);
            return Err(Error::argument(format!("region {name:?}"), why));
        }
        let address = self.view.buf.cast();
        // SAFETY: exported memory stays where it is; the session keeps this as long as the region.
        unsafe {
            let region = match place {
                Some(place) => {
                    let placed = Region::placed(name, address, self.element, &shape, place);
                    placed.map_err(|error| self.as_bytes(error))
                }
                None => Region::array(name, address, self.element, &shape),
            };
            if apart.is_some() { region?.spread(&strides) } else { region }
        }
    }

    /// The reason for which it cannot be at its place, if its elements are of a type that is bytes here.
    fn as_bytes(&self, error: Error) -> Error {
        match error {
            Error::InvalidArgument { what, why } if self.element == ElementType::Bytes && self.view.itemsize > 1 => {
                let bytes = self.view.itemsize;
                let hint = format!(
                    "elements of its type are bytes to Mainstay, {bytes} each; protect them as a last side of their own, \
                     array.view(\"u1\").reshape(*array.shape, {bytes}), of a global array with that side"
                );
                Error::argument(what, format!("{why}; {hint}"))
            }
            other => other,
        }
    }

    fn shape(&self) -> &[isize] {
        self.numbers(self.view.shape)
    }

    #[allow(unsafe_code)]
    fn numbers(&self, at: *const isize) -> &[isize] {
        if at.is_null() || self.view.ndim <= 0 {
            return &[];
        }
        // SAFETY: by the protocol, the array has one number for each dimension if it is given, until the release.
        unsafe { std::slice::from_raw_parts(at, self.view.ndim as usize) }
    }

    /// In C order, with or without gaps: each element follows the one before, without overlap.
    fn is_in_order(&self) -> bool {
        if self.is_contiguous(false) {
            return true;
        }
        let (shape, strides) = (self.shape(), self.numbers(self.view.strides));
        let direct = self.numbers(self.view.suboffsets).iter().all(|offset| *offset < 0);
        let mut span = self.view.itemsize;
        direct
            && shape.iter().zip(strides).rev().filter(|(extent, _)| **extent > 1).all(|(extent, stride)| {
                let fits = *stride >= span;
                span = span.saturating_add(stride.saturating_mul(extent - 1));
                fits
            })
    }

    /// Without gaps, in C's order or, with `reversed`, in Fortran's.
    fn is_contiguous(&self, reversed: bool) -> bool {
        if self.numbers(self.view.suboffsets).iter().any(|offset| *offset >= 0) {
            return false;
        }
        let (shape, strides) = (self.shape(), self.numbers(self.view.strides));
        if self.view.len == 0 || strides.is_empty() {
            return !reversed || shape.len() < 2;
        }
        let mut expected = self.view.itemsize;
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if !reversed {
            order.reverse();
        }
        order.into_iter().all(|dimension| {
            let fits = shape[dimension] == 1 || strides[dimension] == expected;
            expected *= shape[dimension];
            fits
        })
    }

    fn element_of(&self, object: &Bound<'_, PyAny>, has_format: bool) -> Result<ElementType, String> {
        let format = self.view.format(has_format);
        let dtype = object.getattr("dtype").ok();
        let says = |what: &str| dtype.as_ref().and_then(|dtype| dtype.getattr(what).ok());
        let is = |what: &str| says(what).is_some_and(|value| value.is_truthy().unwrap_or(false));
        if is("hasobject") || format.as_deref().is_some_and(holds_addresses) {
            return Err(format!("{OF_ADDRESSES}; protect arrays of numbers"));
        }
        let (element, swapped) = match &format {
            Some(format) => element_of_format(format, self.view.itemsize),
            // A type without a format in the protocol.
            None => match says("name").and_then(|name| name.extract::<String>().ok()).as_deref() {
                Some("bfloat16") => (ElementType::BF16, !is("isnative")),
                _ => (ElementType::Bytes, false),
            },
        };
        if swapped {
            return Err("its elements are in the other byte order; protect an array in this machine's order \
                        (array.astype(array.dtype.newbyteorder('=')))"
                .to_owned());
        }
        Ok(element)
    }
}

/// All bytes of a Python object, contiguous, for the length of a call.
pub(crate) struct Flat(Export);

impl Flat {
    pub(crate) fn to_read(what: &str, object: &Bound<'_, PyAny>) -> Result<Flat, Error> {
        Self::of(what, object, SIMPLE, "bytes to write (text has after encode()), all in a row in C's order")
    }

    pub(crate) fn to_fill(what: &str, object: &Bound<'_, PyAny>) -> Result<Flat, Error> {
        Self::of(what, object, WRITABLE, "memory to read into: writable, and all in a row in C's order")
    }

    fn of(what: &str, object: &Bound<'_, PyAny>, flags: c_int, wanted: &str) -> Result<Flat, Error> {
        let refuse = |error: PyErr| {
            let class = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            let told = error.value(object.py());
            Error::argument(what, format!("an object of type {class} has no {wanted}: {told}"))
        };
        let flat = Export::of(object, flags).map(Flat).map_err(refuse)?;
        if has_addresses(object) {
            return Err(Error::argument(what, format!("{OF_ADDRESSES}; give numbers, or the bytes of pickle.dumps")));
        }
        if is_masked(object) {
            let why = "the array is masked, and its mask is memory of its own; give its data, and the mask besides";
            return Err(Error::argument(what, why));
        }
        Ok(flat)
    }

    #[allow(unsafe_code)]
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.0.len <= 0 || self.0.buf.is_null() {
            return &[];
        }
        // SAFETY: by the protocol, this many contiguous bytes, until the release. If another thread of the program
        // writes to them meanwhile, the saved bytes are undefined, as with any file.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast(), self.0.len as usize) }
    }

    #[allow(unsafe_code)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.0.len <= 0 || self.0.buf.is_null() {
            return &mut [];
        }
        // SAFETY: as above, and asked for to be written to.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf.cast(), self.0.len as usize) }
    }
}

impl Export {
    #[allow(unsafe_code)]
    fn of(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Export> {
        let mut view = Box::new(View {
            buf: std::ptr::null_mut(),
            obj: std::ptr::null_mut(),
            len: 0,
            itemsize: 1,
            readonly: 0,
            ndim: 0,
            format: std::ptr::null_mut(),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            suboffsets: std::ptr::null_mut(),
            internal: std::ptr::null_mut(),
        });
        // SAFETY: the interpreter is held, the object lives, and the view is ours and has its final place.
        match unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } {
            0 => Ok(Export(view)),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    /// The format of its elements; `None`: the protocol has none, or was not asked.
    #[allow(unsafe_code)]
    fn format(&self, was_asked: bool) -> Option<Cow<'_, str>> {
        if self.format.is_null() {
            return was_asked.then_some("B".into());
        }
        // SAFETY: the protocol: a text that ends with a zero, until the release.
        Some(unsafe { CStr::from_ptr(self.format) }.to_string_lossy())
    }

    /// Whether the exporter would still export the same memory. An exporter that cannot say has not moved it.
    #[allow(unsafe_code)]
    fn is_in_place(&self, py: Python<'_>) -> bool {
        // SAFETY: the view owns a reference to its exporter; it may be null.
        let exporter = unsafe { Bound::from_borrowed_ptr_or_opt(py, self.obj) };
        let now = exporter.and_then(|exporter| Export::of(&exporter, ANY_LAYOUT).ok());
        now.is_none_or(|now| (now.buf, now.len) == (self.buf, self.len))
    }
}

impl Deref for Export {
    type Target = View;

    fn deref(&self) -> &View {
        &self.0
    }
}

impl Drop for Export {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // Without an interpreter there is nothing left to release.
        Python::try_attach(|_| {
            // SAFETY: filled by PyObject_GetBuffer, released once, with the interpreter held.
            unsafe { PyBuffer_Release(&raw mut *self.0) }
        });
    }
}

/// The buffer of `object`, and whether the protocol has a format for its elements.
fn export(object: &Bound<'_, PyAny>) -> Result<(Export, bool), String> {
    let py = object.py();
    let mut told = String::new();
    for flags in [ANY_LAYOUT | FORMAT, ANY_LAYOUT] {
        let error = match Export::of(object, flags) {
            Ok(view) => return Ok((view, flags & FORMAT != 0)),
            Err(error) => error,
        };
        if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) {
            let class = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            let instead = if class == "Tensor" {
                "protect tensor.numpy(), which has the same memory, of a tensor on a GPU that of a copy in memory of the host"
            } else {
                "protect a numpy array, an array.array, a bytearray or the like"
            };
            return Err(format!("an object of type {class} has no buffer to save from and restore into; {instead}"));
        }
        told = format!("its memory cannot be had: {}", error.value(py));
    }
    Err(told)
}

/// numpy's masked arrays export only their data.
fn is_masked(object: &Bound<'_, PyAny>) -> bool {
    object.hasattr("mask").unwrap_or(false) && object.hasattr("fill_value").unwrap_or(false)
}

/// Whether the elements of a buffer are addresses: objects filled with another process's addresses would crash.
fn has_addresses(object: &Bound<'_, PyAny>) -> bool {
    if object.is_exact_instance_of::<PyBytes>() || object.is_exact_instance_of::<PyByteArray>() {
        return false;
    }
    if let Ok(dtype) = object.getattr(intern!(object.py(), "dtype")) {
        return dtype.getattr(intern!(object.py(), "hasobject")).is_ok_and(|has| has.is_truthy().unwrap_or(false));
    }
    export(object).is_ok_and(|(view, has_format)| view.format(has_format).as_deref().is_some_and(holds_addresses))
}

/// `object`, and the owners of its memory.
fn owners<'py>(object: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    let mut owners = Vec::new();
    let mut owner = Some(object.clone());
    while let Some(object) = owner.take().filter(|owner| !owner.is_none() && owners.len() < OWNERS_MAX) {
        owner = ["base", "obj"].into_iter().find_map(|name| object.getattr_opt(name).ok().flatten());
        owners.push(object);
    }
    owners
}

/// Whether a format, of one element or of a structure, holds Python objects or pointers. ctypes uses `z` and `Z` for
/// pointers to texts; before a letter for a float, `Z` is a complex number.
fn holds_addresses(format: &str) -> bool {
    // Names of fields stand between colons.
    let of_text =
        |codes: &str| codes.contains('z') || codes.split('Z').skip(1).any(|rest| !rest.starts_with(['f', 'd', 'g']));
    format.split(':').step_by(2).any(|codes| codes.contains(['O', 'P', '&', 'X']) || of_text(codes))
}

/// The engine's type for a format of the module `struct`, with numpy's additions, and whether its bytes are in the
/// other order. Formats without a type are bytes.
fn element_of_format(format: &str, itemsize: isize) -> (ElementType, bool) {
    let (order, code) = match format.chars().next() {
        Some(order @ ('@' | '=' | '<' | '>' | '!' | '^')) => (order, &format[1..]),
        _ => ('@', format),
    };
    let element = match (code, itemsize) {
        ("?", 1) => ElementType::Bool,
        ("b", 1) => ElementType::I8,
        ("B", 1) => ElementType::U8,
        ("h", 2) => ElementType::I16,
        ("H", 2) => ElementType::U16,
        ("i" | "l", 4) => ElementType::I32,
        ("I" | "L", 4) => ElementType::U32,
        ("l" | "q" | "n", 8) => ElementType::I64,
        ("L" | "Q" | "N", 8) => ElementType::U64,
        ("e", 2) => ElementType::F16,
        ("f", 4) => ElementType::F32,
        ("d", 8) => ElementType::F64,
        ("Zf" | "F", 8) => ElementType::C64,
        ("Zd" | "D", 16) => ElementType::C128,
        _ => return (ElementType::Bytes, false),
    };
    let other = if cfg!(target_endian = "little") { matches!(order, '>' | '!') } else { order == '<' };
    (element, other && itemsize > 1)
}
