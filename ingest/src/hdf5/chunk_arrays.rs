//! Chunk indices that are arrays: fixed (extent known) and extensible (one unlimited axis).

use super::cursor::Cursor;
use super::error::Hdf5Error;
use super::storage::{Storage, UNDEFINED};

/// Takes a chunk's number, address, bytes and filter mask.
type Put<'a> = dyn FnMut(u64, u64, u64, u32) + 'a;

/// How one element of an array says where its chunk lies.
#[derive(Clone, Copy)]
struct Element {
    bytes: usize,
    size_width: usize,
    filtered: bool,
    chunk_bytes: u64,
}

/// Elements of a block: the number of the first, how many, and how many make a page.
#[derive(Clone, Copy)]
struct Span {
    first: u64,
    count: u64,
    page: u64,
}

impl Element {
    fn new(storage: &Storage, bytes: u8, filtered: bool, chunk_bytes: u64) -> Result<Self, Hdf5Error> {
        let bytes = usize::from(bytes);
        let fixed = usize::from(storage.offset_bytes) + if filtered { 4 } else { 0 };
        match bytes.checked_sub(fixed) {
            Some(size_width) if size_width <= 8 && (filtered || size_width == 0) => {
                Ok(Self { bytes, size_width, filtered, chunk_bytes })
            }
            _ => Err(Hdf5Error::Damaged {
                what: "chunk array",
                address: 0,
                why: format!("got elements of {bytes} bytes, expected {fixed} to {}", fixed + 8),
            }),
        }
    }

    /// Reads `count` elements, the first of which is chunk `first`.
    fn read(
        self,
        cursor: &mut Cursor<'_>,
        first: u64,
        count: u64,
        put: &mut Put<'_>,
    ) -> Result<(), Hdf5Error> {
        for number in first..first.saturating_add(count) {
            let offset = cursor.offset()?;
            if self.filtered {
                let bytes = cursor.uint(self.size_width)?;
                let mask = cursor.u32()?;
                put(number, offset, bytes, mask);
            } else {
                put(number, offset, self.chunk_bytes, 0);
            }
        }
        Ok(())
    }

    /// Reads a block of `count` elements that starts at `address`, page by page when it is longer than a page.
    fn read_block(
        self,
        storage: &Storage,
        address: u64,
        Span { first, count, page }: Span,
        initialised: Option<&[u8]>,
        put: &mut Put<'_>,
    ) -> Result<(), Hdf5Error> {
        let width = self.bytes as u64;
        if count <= page {
            let bytes = storage.read("chunk array", address, count.saturating_mul(width))?;
            return self.read(&mut storage.cursor("chunk array", address, &bytes), first, count, put);
        }
        for (number, start) in (0..count).step_by(page as usize).enumerate() {
            let in_page = page.min(count - start);
            let there = initialised.is_none_or(|bits| {
                bits.get(number / 8).is_some_and(|byte| byte >> (7 - number % 8) & 1 == 1)
            });
            if there {
                let at =
                    address.saturating_add(start.saturating_mul(width)).saturating_add(4 * number as u64);
                let bytes = storage.read("chunk array page", at, in_page * width)?;
                self.read(&mut storage.cursor("chunk array page", at, &bytes), first + start, in_page, put)?;
            }
        }
        Ok(())
    }
}

fn page_elements(cursor: &Cursor<'_>, bits: u8) -> Result<u64, Hdf5Error> {
    if (1..=40).contains(&bits) {
        return Ok(1 << bits);
    }
    Err(cursor.damaged(format!("got pages of 2^{bits} elements, expected 2^1 to 2^40")))
}

/// A fixed array.
pub(super) fn fixed(
    storage: &Storage,
    address: u64,
    chunk_bytes: u64,
    filtered: bool,
    put: &mut Put<'_>,
) -> Result<(), Hdf5Error> {
    let (offset_bytes, length_bytes) = (u64::from(storage.offset_bytes), u64::from(storage.length_bytes));
    let head = storage.read("fixed array", address, 8 + length_bytes + offset_bytes)?;
    let mut cursor = storage.cursor("fixed array", address, &head);
    cursor.signature(b"FAHD")?;
    cursor.skip(2)?;
    let element = Element::new(storage, cursor.u8()?, filtered, chunk_bytes)?;
    let bits = cursor.u8()?;
    let page = page_elements(&cursor, bits)?;
    let count = cursor.length()?;
    let block = cursor.offset()?;
    if block == UNDEFINED {
        return Ok(());
    }
    let head_bytes = 6 + offset_bytes;
    let head = storage.read("fixed array block", block, head_bytes)?;
    storage.cursor("fixed array block", block, &head).signature(b"FADB")?;
    let span = Span { first: 0, count, page };
    if count <= page {
        return element.read_block(storage, block + head_bytes, span, None, put);
    }
    let bitmap_bytes = count.div_ceil(page).div_ceil(8);
    let bitmap = storage.read("fixed array block", block + head_bytes, bitmap_bytes)?;
    // Behind the bitmap stands a checksum, then the pages.
    element.read_block(storage, block + head_bytes + bitmap_bytes + 4, span, Some(&bitmap), put)
}

/// The shape of an extensible array, derived from its header.
struct Extensible<'a> {
    storage: &'a Storage,
    element: Element,
    /// Bytes of a data block's own position.
    position_bytes: u64,
    page: u64,
    min_block: u64,
    num_elements: u64,
}

impl Extensible<'_> {
    /// Data blocks of a super block, and elements in each.
    fn super_block(&self, number: u32) -> (u64, u64) {
        let elements =
            1u64.checked_shl(number.div_ceil(2)).unwrap_or(u64::MAX).saturating_mul(self.min_block);
        (1u64.checked_shl(number / 2).unwrap_or(u64::MAX), elements)
    }

    /// A data block that holds `count` elements from `first` on.
    fn data_block(
        &self,
        address: u64,
        first: u64,
        count: u64,
        initialised: Option<&[u8]>,
        put: &mut Put<'_>,
    ) -> Result<(), Hdf5Error> {
        if address == UNDEFINED || first >= self.num_elements {
            return Ok(());
        }
        let head_bytes = 6 + u64::from(self.storage.offset_bytes) + self.position_bytes;
        let head = self.storage.read("array data block", address, head_bytes)?;
        self.storage.cursor("array data block", address, &head).signature(b"EADB")?;
        let paged = if count > self.page { 4 } else { 0 }; // the head of a paged block has its own checksum
        self.element.read_block(
            self.storage,
            address + head_bytes + paged,
            Span { first, count, page: self.page },
            initialised,
            put,
        )
    }
}

/// An extensible array.
pub(super) fn extensible(
    storage: &Storage,
    address: u64,
    chunk_bytes: u64,
    filtered: bool,
    put: &mut Put<'_>,
) -> Result<(), Hdf5Error> {
    let (offset_bytes, length_bytes) = (u64::from(storage.offset_bytes), u64::from(storage.length_bytes));
    let head = storage.read("extensible array", address, 12 + 6 * length_bytes + offset_bytes)?;
    let mut cursor = storage.cursor("extensible array", address, &head);
    cursor.signature(b"EAHD")?;
    cursor.skip(2)?;
    let element = Element::new(storage, cursor.u8()?, filtered, chunk_bytes)?;
    let element_bits = cursor.u8()?;
    let in_index = u64::from(cursor.u8()?);
    let min_block = u64::from(cursor.u8()?);
    let min_pointers = u64::from(cursor.u8()?);
    let page_bits = cursor.u8()?;
    let page = page_elements(&cursor, page_bits)?;
    for _ in 0..4 {
        cursor.length()?;
    }
    let num_elements = cursor.length()?; // the largest index set, plus one
    cursor.length()?;
    let index_block = cursor.offset()?;
    if !min_block.is_power_of_two() || !min_pointers.is_power_of_two() || element_bits > 64 {
        return Err(
            cursor.damaged(format!("blocks of {min_block}, {min_pointers} pointers, {element_bits} bits"))
        );
    }
    if index_block == UNDEFINED {
        return Ok(());
    }
    let position_bytes = u64::from(element_bits.div_ceil(8));
    let array = Extensible { storage, element, position_bytes, page, min_block, num_elements };
    let direct_supers = 2 * min_pointers.ilog2();
    let num_supers = 1 + u32::from(element_bits).saturating_sub(min_block.ilog2());
    let direct_blocks = 2 * (min_pointers - 1);
    let pointers = direct_blocks + u64::from(num_supers.saturating_sub(direct_supers));
    let bytes = 6 + offset_bytes + in_index * element.bytes as u64 + pointers * offset_bytes;
    let block = storage.read("array index block", index_block, bytes)?;
    let mut cursor = storage.cursor("array index block", index_block, &block);
    cursor.signature(b"EAIB")?;
    cursor.skip(2 + offset_bytes as usize)?;
    element.read(&mut cursor, 0, in_index, put)?;
    let mut first = in_index;
    for number in 0..num_supers {
        if first >= num_elements {
            break;
        }
        let (blocks, count) = array.super_block(number);
        if number < direct_supers {
            for _ in 0..blocks {
                array.data_block(cursor.offset()?, first, count, None, put)?;
                first = first.saturating_add(count);
            }
        } else {
            let super_block = cursor.offset()?;
            read_super_block(&array, super_block, first, blocks, count, put)?;
            first = first.saturating_add(blocks.saturating_mul(count));
        }
    }
    Ok(())
}

fn read_super_block(
    array: &Extensible<'_>,
    address: u64,
    mut first: u64,
    blocks: u64,
    count: u64,
    put: &mut Put<'_>,
) -> Result<(), Hdf5Error> {
    if address == UNDEFINED {
        return Ok(());
    }
    let storage = array.storage;
    let offset_bytes = u64::from(storage.offset_bytes);
    let head = 6 + offset_bytes + array.position_bytes;
    let bitmap = if count > array.page { (count / array.page).div_ceil(8) } else { 0 };
    let bytes = head.saturating_add(blocks.saturating_mul(bitmap + offset_bytes));
    let block = storage.read("array super block", address, bytes)?;
    let mut cursor = storage.cursor("array super block", address, &block);
    cursor.signature(b"EASB")?;
    cursor.skip((head - 4) as usize)?;
    let bitmaps = cursor.take((blocks * bitmap) as usize)?;
    for number in 0..blocks {
        let bits = bitmaps.get((number * bitmap) as usize..((number + 1) * bitmap) as usize);
        let initialised = bits.filter(|bits| !bits.is_empty());
        array.data_block(cursor.offset()?, first, count, initialised, put)?;
        first = first.saturating_add(count);
    }
    Ok(())
}
