//! Memory of a Python object, by the buffer protocol.
//!
//! What must hold: while a `Buffer` lives, its address and length stay valid. An exported buffer keeps
//! its exporter alive, and well-behaved exporters refuse to be resized meanwhile.

use mainstay_engine::{Error, Region, space::format::ElementType};
use pyo3::{ffi, prelude::*, types::PyWeakrefReference};
use std::ffi::{CStr, c_char, c_int, c_void};

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

/// `PyBUF_INDIRECT`: nothing is refused for its layout, so that we can say what is wrong.
const ANY_LAYOUT: c_int = 0x0118;
const FORMAT: c_int = 0x0004;
/// How far the owner of memory is looked for, through views of views.
const OWNERS_MAX: usize = 16;

/// Memory of a Python object, exported to us until this is dropped.
pub(crate) struct Buffer {
    view: Box<View>,
    element: ElementType,
    /// With a weak reference to it, numpy refuses to move an array's memory, even with `refcheck=False`.
    _pins: Vec<Py<PyWeakrefReference>>,
}

// SAFETY: the view is only read, and released with the interpreter held.
#[allow(unsafe_code)]
unsafe impl Send for Buffer {}

impl Buffer {
    /// Holds the memory of `object`, which is to be saved under `name`: contiguous in C's order, writable,
    /// of elements whose bytes mean the same in another process.
    pub(crate) fn hold(name: &str, object: &Bound<'_, PyAny>) -> Result<Buffer, Error> {
        let refuse = |why: String| Error::argument(format!("region {name:?}"), why);
        let (mut buffer, has_format) = export(object).map_err(refuse)?;
        if buffer.view.readonly != 0 {
            return Err(refuse(
                "the buffer is read-only, and a restore could not fill it; protect a writable one (bytearray, \
                 array.array, a numpy array that is writeable)"
                    .to_owned(),
            ));
        }
        if !buffer.is_contiguous(false) {
            return Err(refuse(if buffer.is_contiguous(true) {
                "the array is in Fortran's order; protect its transpose, array.T, which is the same memory".to_owned()
            } else {
                "the buffer is not contiguous; protect the whole array that it is a part of, or a copy \
                 (numpy.ascontiguousarray)"
                    .to_owned()
            }));
        }
        buffer.element = buffer.element_of(object, has_format).map_err(refuse)?;
        buffer._pins = pins(object);
        Ok(buffer)
    }

    /// As a region of the engine; it must not outlive this.
    #[allow(unsafe_code)]
    pub(crate) fn region(&self, name: &str) -> Result<Region, Error> {
        let shape: Vec<u64> = match self.element {
            ElementType::Bytes => vec![self.view.len as u64],
            _ => self.shape().iter().map(|extent| *extent as u64).collect(),
        };
        // SAFETY: exported memory stays where it is; the session keeps this as long as the region.
        unsafe { Region::array(name, self.view.buf.cast(), self.element, &shape) }
    }

    fn shape(&self) -> &[isize] {
        self.numbers(self.view.shape)
    }

    #[allow(unsafe_code)]
    fn numbers(&self, at: *const isize) -> &[isize] {
        if at.is_null() || self.view.ndim <= 0 {
            return &[];
        }
        // SAFETY: the protocol: where they are given, there is one for each dimension, until the release.
        unsafe { std::slice::from_raw_parts(at, self.view.ndim as usize) }
    }

    /// In C's order, or, with `reversed`, in Fortran's.
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

    #[allow(unsafe_code)]
    fn element_of(&self, object: &Bound<'_, PyAny>, has_format: bool) -> Result<ElementType, String> {
        let format = if self.view.format.is_null() {
            has_format.then_some("B".into())
        } else {
            // SAFETY: the protocol: a text that ends with a zero, until the release.
            Some(unsafe { CStr::from_ptr(self.view.format) }.to_string_lossy())
        };
        let dtype = object.getattr("dtype").ok();
        let says = |what: &str| dtype.as_ref().and_then(|dtype| dtype.getattr(what).ok());
        let is = |what: &str| says(what).is_some_and(|value| value.is_truthy().unwrap_or(false));
        if is("hasobject") || format.as_deref().is_some_and(holds_addresses) {
            return Err("its elements are Python objects or pointers, whose bytes mean nothing in another process; \
                        protect arrays of numbers"
                .to_owned());
        }
        let (element, swapped) = match &format {
            Some(format) => element_of_format(format, self.view.itemsize),
            // A type that the protocol has no format for.
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

impl Drop for Buffer {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // Without an interpreter there is nothing left to release.
        Python::try_attach(|_| {
            // SAFETY: filled by PyObject_GetBuffer, released once, with the interpreter held.
            unsafe { PyBuffer_Release(&raw mut *self.view) }
        });
    }
}

/// The buffer of `object`, and whether the protocol has a format for its elements.
#[allow(unsafe_code)]
fn export(object: &Bound<'_, PyAny>) -> Result<(Buffer, bool), String> {
    let py = object.py();
    let mut told = String::new();
    for flags in [ANY_LAYOUT | FORMAT, ANY_LAYOUT] {
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
        if unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } == 0 {
            return Ok((Buffer { view, element: ElementType::Bytes, _pins: Vec::new() }, flags & FORMAT != 0));
        }
        let error = PyErr::fetch(py);
        if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) {
            let class = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            return Err(format!(
                "an object of type {class} has no buffer to save from and restore into; protect a numpy array, an array.array, a \
                 bytearray or the like"
            ));
        }
        told = format!("its memory cannot be had: {}", error.value(py));
    }
    Err(told)
}

/// Weak references to `object` and to what its memory belongs to.
fn pins(object: &Bound<'_, PyAny>) -> Vec<Py<PyWeakrefReference>> {
    let mut pins = Vec::new();
    let mut owner = Some(object.clone());
    while let Some(object) = owner.take().filter(|owner| !owner.is_none() && pins.len() < OWNERS_MAX) {
        // What takes no weak references (bytearray, array.array) looks after itself.
        if let Ok(pin) = PyWeakrefReference::new(&object) {
            pins.push(pin.unbind());
        }
        owner = ["base", "obj"].into_iter().find_map(|name| object.getattr_opt(name).ok().flatten());
    }
    pins
}

/// Whether a format, of one element or of a structure, holds Python objects or pointers.
fn holds_addresses(format: &str) -> bool {
    // Names of fields stand between colons.
    format.split(':').step_by(2).any(|codes| codes.contains(['O', 'P', '&', 'X']))
}

/// The engine's type for a format of the module `struct`, with numpy's additions, and whether its bytes
/// are in the other order. What has no type is bytes.
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
