//! The integer types a detector delivers counts in.

use serde::{Deserialize, Serialize};

/// The type of one count on the wire and in memory. Never narrowed, never widened silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CountType {
    /// 8-bit counts.
    U8,
    /// 16-bit counts.
    U16,
    /// 32-bit counts.
    U32,
}

impl CountType {
    /// Bytes of one count.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::U32 => 4,
        }
    }

    /// The value with which the detector marks a masked or saturated pixel: the largest of the type
    /// (SIMPLON stream, `pixel_mask_applied`; measured on EIGER and EIGER2 recordings).
    pub fn marker(self) -> u32 {
        match self {
            Self::U8 => u8::MAX.into(),
            Self::U16 => u16::MAX.into(),
            Self::U32 => u32::MAX,
        }
    }
}

impl std::fmt::Display for CountType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
        })
    }
}

/// A count: u8, u16 or u32.
pub trait Count:
    bytemuck::Pod
    + Ord
    + From<u8>
    + Into<u32>
    + Into<u64>
    + TryFrom<u32>
    + Default
    + Send
    + Sync
    + std::fmt::Debug
    + 'static
{
    /// The run-time name of this type.
    const TYPE: CountType;
}

impl Count for u8 {
    const TYPE: CountType = CountType::U8;
}
impl Count for u16 {
    const TYPE: CountType = CountType::U16;
}
impl Count for u32 {
    const TYPE: CountType = CountType::U32;
}
