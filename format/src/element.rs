//! The types of elements.

use serde::{Deserialize, Serialize};

/// Type of a region's elements; `Bytes` if none was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[repr(u8)]
pub enum ElementType {
    #[default]
    Bytes = 0,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    Bool,
}

impl ElementType {
    pub const ALL: [(ElementType, &'static str, u64); 16] = [
        (Self::Bytes, "bytes", 1),
        (Self::I8, "i8", 1),
        (Self::U8, "u8", 1),
        (Self::I16, "i16", 2),
        (Self::U16, "u16", 2),
        (Self::I32, "i32", 4),
        (Self::U32, "u32", 4),
        (Self::I64, "i64", 8),
        (Self::U64, "u64", 8),
        (Self::F16, "f16", 2),
        (Self::BF16, "bf16", 2),
        (Self::F32, "f32", 4),
        (Self::F64, "f64", 8),
        (Self::C64, "c64", 8),
        (Self::C128, "c128", 16),
        (Self::Bool, "bool", 1),
    ];

    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).map(|(element, ..)| *element)
    }

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The name of the type in numpy. Numpy has no bfloat16 and writes such values as 2 untyped bytes; so does this.
    pub fn numpy(self) -> &'static str {
        match self {
            Self::Bytes | Self::U8 => "|u1",
            Self::I8 => "|i1",
            Self::I16 => "<i2",
            Self::U16 => "<u2",
            Self::I32 => "<i4",
            Self::U32 => "<u4",
            Self::I64 => "<i8",
            Self::U64 => "<u8",
            Self::F16 => "<f2",
            Self::BF16 => "|V2",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
            Self::C64 => "<c8",
            Self::C128 => "<c16",
            Self::Bool => "|b1",
        }
    }

    /// Bytes of one element.
    pub fn size(self) -> u64 {
        Self::ALL[self as usize].2
    }
}
