//! The element types in HDF5, as h5py writes them, so that numpy gets the types back.

use mainstay_engine::space::format::ElementType;
use rust_hdf5::{
    DatatypeMessage, H5Type,
    format::messages::datatype::{ByteOrder, EnumMember},
    types::{Complex32, Complex64},
};

/// Little-endian, as in the space.
pub fn datatype(element: ElementType) -> DatatypeMessage {
    match element {
        ElementType::Bytes | ElementType::U8 => DatatypeMessage::u8_type(),
        ElementType::I8 => DatatypeMessage::i8_type(),
        ElementType::I16 => DatatypeMessage::i16_type(),
        ElementType::U16 => DatatypeMessage::u16_type(),
        ElementType::I32 => DatatypeMessage::i32_type(),
        ElementType::U32 => DatatypeMessage::u32_type(),
        ElementType::I64 => DatatypeMessage::i64_type(),
        ElementType::U64 => DatatypeMessage::u64_type(),
        ElementType::F16 => DatatypeMessage::f16_type(),
        ElementType::BF16 => bf16(),
        ElementType::F32 => DatatypeMessage::f32_type(),
        ElementType::F64 => DatatypeMessage::f64_type(),
        // A compound of `r` and `i`.
        ElementType::C64 => Complex32::hdf5_type(),
        ElementType::C128 => Complex64::hdf5_type(),
        ElementType::Bool => bool(),
    }
}

/// The upper half of an f32. HDF5 converts any type with a sign, an exponent and a mantissa; since 2.0 it has a name
/// for this one.
fn bf16() -> DatatypeMessage {
    DatatypeMessage::FloatingPoint {
        size: 2,
        byte_order: ByteOrder::LittleEndian,
        sign_location: 15,
        bit_offset: 0,
        bit_precision: 16,
        exponent_location: 7,
        exponent_size: 8,
        mantissa_location: 0,
        mantissa_size: 7,
        exponent_bias: 127,
    }
}

fn bool() -> DatatypeMessage {
    let member = |name: &str, value| EnumMember { name: name.to_owned(), value: vec![value] };
    DatatypeMessage::Enum {
        base: Box::new(DatatypeMessage::i8_type()),
        members: vec![member("FALSE", 0), member("TRUE", 1)],
    }
}
