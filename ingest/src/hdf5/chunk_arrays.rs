//! Chunk indices that are arrays: fixed (extent known) and extensible (one unlimited axis). Every block has a checksum.

use super::btree1::OnFlaw;
use super::cursor::Cursor;
use super::error::Hdf5Error;
use super::storage::{Storage, UNDEFINED};

/// Takes a chunk's number, address, bytes and filter mask.
type Put<'a> = dyn FnMut(u64, u64, u64, u32) + 'a;

/// Where the elements of an array go, and what is wrong with parts of it.
pub(super) struct Sink<'a> {
    pub(super) put: &'a mut Put<'a>,
    pub(super) flaw: &'a mut OnFlaw<'a>,
}

impl Sink<'_> {
    /// Hands an error to `flaw`, which decides whether the rest is read.
    fn keep_on(&mut self, done: Result<(), Hdf5Error>) -> Result<(), Hdf5Error> {
        done.or_else(|error| (self.flaw)(error))
    }
}

/// How one element of an array says where its chunk lies.
#[derive(Clone, Copy)]
struct Element {
    bytes: usize,
    size_width: usize,
    filtered: bool,
    chunk_bytes: u64,
}

/// Elements of a block: the number of the first, and how many.
#[derive(Clone, Copy)]
struct Span {
    first: u64,
    count: u64,
}

impl Element {
    fn new(
        cursor: &Cursor<'_>,
        bytes: u8,
        filtered: bool,
        chunk_bytes: u64,
        offset_bytes: u8,
    ) -> Result<Self, Hdf5Error> {
        let bytes = usize::from(bytes);
        let fixed = usize::from(offset_bytes) + if filtered { 4 } else { 0 };
        match bytes.checked_sub(fixed) {
            Some(size_width) if size_width <= 8 && (filtered || size_width == 0) => {
                Ok(Self { bytes, size_width, filtered, chunk_bytes })
            }
            _ => {
                Err(cursor
                    .damaged(format!("got elements of {bytes} bytes, expected {fixed} to {}", fixed + 8)))
            }
        }
    }

    /// Reads the elements of a span.
    fn read(self, cursor: &mut Cursor<'_>, span: Span, sink: &mut Sink<'_>) -> Result<(), Hdf5Error> {
        for number in span.first..span.first.saturating_add(span.count) {
            let offset = cursor.offset()?;
            let (bytes, mask) = match self.filtered {
                true => (cursor.uint(self.size_width)?, cursor.u32()?),
                false => (self.chunk_bytes, 0),
            };
            (sink.put)(number, offset, bytes, mask);
        }
        Ok(())
    }

    /// Reads pages of `page` elements, each with its checksum; `initialised` has a bit for each that was ever written.
    fn read_pages(
        self,
        storage: &Storage,
        address: u64,
        span: Span,
        page: u64,
        initialised: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), Hdf5Error> {
        let width = self.bytes as u64;
        for (number, start) in (0..span.count).step_by(page as usize).enumerate() {
            if initialised.get(number / 8).is_none_or(|byte| byte >> (7 - number % 8) & 1 == 0) {
                continue;
            }
            let count = page.min(span.count - start);
            let at = address.saturating_add(start.saturating_mul(width)).saturating_add(4 * number as u64);
            let done = storage.read_checked("chunk array page", at, count * width + 4).and_then(|bytes| {
                let mut cursor = storage.cursor("chunk array page", at, &bytes);
                self.read(&mut cursor, Span { first: span.first + start, count }, sink)
            });
            sink.keep_on(done)?;
        }
        Ok(())
    }
}

/// Reads the version and the owner of a block and checks them.
fn check_owner(cursor: &mut Cursor<'_>, owner: u64) -> Result<(), Hdf5Error> {
    cursor.skip(2)?; // version, client
    let got = cursor.offset()?;
    if got == owner {
        return Ok(());
    }
    Err(cursor.damaged(format!("got a block of the array at {got}, expected one of that at {owner}")))
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
    sink: &mut Sink<'_>,
) -> Result<(), Hdf5Error> {
    let (offset_bytes, length_bytes) = (u64::from(storage.offset_bytes), u64::from(storage.length_bytes));
    let head = storage.read_checked("fixed array", address, 12 + length_bytes + offset_bytes)?;
    let mut cursor = storage.cursor("fixed array", address, &head);
    cursor.signature(b"FAHD")?;
    cursor.skip(2)?;
    let element_bytes = cursor.u8()?;
    let element = Element::new(&cursor, element_bytes, filtered, chunk_bytes, storage.offset_bytes)?;
    let bits = cursor.u8()?;
    let page = page_elements(&cursor, bits)?;
    let count = cursor.length()?;
    let block = cursor.offset()?;
    if block == UNDEFINED {
        return Ok(());
    }
    let head_bytes = 6 + offset_bytes;
    let span = Span { first: 0, count };
    let paged = count > page;
    // The checksum of the block covers its elements, or where those are in pages the bits that say which are there.
    let covered =
        if paged { count.div_ceil(page).div_ceil(8) } else { count.saturating_mul(element.bytes as u64) };
    let all = head_bytes.saturating_add(covered).saturating_add(4);
    let body = storage.read_checked("fixed array block", block, all)?;
    let mut cursor = storage.cursor("fixed array block", block, &body);
    cursor.signature(b"FADB")?;
    check_owner(&mut cursor, address)?;
    if !paged {
        return element.read(&mut cursor, span, sink);
    }
    let initialised = cursor.take(covered as usize)?;
    element.read_pages(storage, block.saturating_add(all), span, page, initialised, sink)
}

/// The shape of an extensible array, derived from its header.
struct Extensible<'a> {
    storage: &'a Storage,
    address: u64,
    element: Element,
    /// Bytes of a block's own position.
    position_bytes: u64,
    page: u64,
    min_block: u64,
    num_elements: u64,
    /// Number of the element behind those of the index block: positions count from there.
    in_index: u64,
}

impl Extensible<'_> {
    /// Data blocks of a super block, and elements in each.
    fn super_block(&self, number: u32) -> (u64, u64) {
        let elements =
            1u64.checked_shl(number.div_ceil(2)).unwrap_or(u64::MAX).saturating_mul(self.min_block);
        (1u64.checked_shl(number / 2).unwrap_or(u64::MAX), elements)
    }

    /// Signature, version, client, owner and position.
    fn head_bytes(&self) -> u64 {
        6 + u64::from(self.storage.offset_bytes) + self.position_bytes
    }

    fn check_position(&self, cursor: &mut Cursor<'_>, first: u64) -> Result<(), Hdf5Error> {
        check_owner(cursor, self.address)?;
        let (got, expected) = (cursor.uint(self.position_bytes as usize)?, first - self.in_index);
        if got == expected {
            return Ok(());
        }
        Err(cursor.damaged(format!("got a block of elements from {got} on, expected from {expected} on")))
    }

    /// A data block with the elements of a span.
    fn data_block(
        &self,
        address: u64,
        span: Span,
        initialised: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), Hdf5Error> {
        if address == UNDEFINED || span.first >= self.num_elements {
            return Ok(());
        }
        let paged = span.count > self.page;
        let covered = if paged { 0 } else { span.count.saturating_mul(self.element.bytes as u64) };
        let all = self.head_bytes().saturating_add(covered).saturating_add(4);
        let body = self.storage.read_checked("array data block", address, all)?;
        let mut cursor = self.storage.cursor("array data block", address, &body);
        cursor.signature(b"EADB")?;
        check_owner(&mut cursor, self.address)?;
        // The library counts the positions of blocks named in the index block otherwise than those of others: not checked.
        cursor.skip(self.position_bytes as usize)?;
        if !paged {
            return self.element.read(&mut cursor, span, sink);
        }
        self.element.read_pages(self.storage, address.saturating_add(all), span, self.page, initialised, sink)
    }

    /// A super block: `blocks` data blocks of `count` elements each, from `first` on.
    fn read_super_block(
        &self,
        address: u64,
        first: u64,
        (blocks, count): (u64, u64),
        sink: &mut Sink<'_>,
    ) -> Result<(), Hdf5Error> {
        if address == UNDEFINED {
            return Ok(());
        }
        let offset_bytes = u64::from(self.storage.offset_bytes);
        let bitmap = if count > self.page { (count / self.page).div_ceil(8) } else { 0 };
        let pointers = blocks.saturating_mul(bitmap + offset_bytes);
        let all = self.head_bytes().saturating_add(pointers).saturating_add(4);
        let body = self.storage.read_checked("array super block", address, all)?;
        let mut cursor = self.storage.cursor("array super block", address, &body);
        cursor.signature(b"EASB")?;
        self.check_position(&mut cursor, first)?;
        let bitmaps = cursor.take((blocks * bitmap) as usize)?;
        for number in 0..blocks {
            let bits = bitmaps.get((number * bitmap) as usize..((number + 1) * bitmap) as usize);
            let span = Span { first: first.saturating_add(number.saturating_mul(count)), count };
            let done = self.data_block(cursor.offset()?, span, bits.unwrap_or_default(), sink);
            sink.keep_on(done)?;
        }
        Ok(())
    }
}

/// An extensible array.
pub(super) fn extensible(
    storage: &Storage,
    address: u64,
    chunk_bytes: u64,
    filtered: bool,
    sink: &mut Sink<'_>,
) -> Result<(), Hdf5Error> {
    let (offset_bytes, length_bytes) = (u64::from(storage.offset_bytes), u64::from(storage.length_bytes));
    let head = storage.read_checked("extensible array", address, 16 + 6 * length_bytes + offset_bytes)?;
    let mut cursor = storage.cursor("extensible array", address, &head);
    cursor.signature(b"EAHD")?;
    cursor.skip(2)?;
    let element_bytes = cursor.u8()?;
    let element = Element::new(&cursor, element_bytes, filtered, chunk_bytes, storage.offset_bytes)?;
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
    let array =
        Extensible { storage, address, element, position_bytes, page, min_block, num_elements, in_index };
    let direct_supers = 2 * min_pointers.ilog2();
    let num_supers = 1 + u32::from(element_bits).saturating_sub(min_block.ilog2());
    let direct_blocks = 2 * (min_pointers - 1);
    let pointers = direct_blocks + u64::from(num_supers.saturating_sub(direct_supers));
    let bytes = 6 + offset_bytes + in_index * element.bytes as u64 + pointers * offset_bytes + 4;
    let block = storage.read_checked("array index block", index_block, bytes)?;
    let mut cursor = storage.cursor("array index block", index_block, &block);
    cursor.signature(b"EAIB")?;
    check_owner(&mut cursor, address)?;
    element.read(&mut cursor, Span { first: 0, count: in_index }, sink)?;
    let mut first = in_index;
    for number in 0..num_supers {
        if first >= num_elements {
            break;
        }
        let (blocks, count) = array.super_block(number);
        if number < direct_supers {
            for block in 0..blocks {
                let span = Span { first: first.saturating_add(block * count), count };
                let done = array.data_block(cursor.offset()?, span, &[], sink);
                sink.keep_on(done)?;
            }
        } else {
            let done = array.read_super_block(cursor.offset()?, first, (blocks, count), sink);
            sink.keep_on(done)?;
        }
        first = first.saturating_add(blocks.saturating_mul(count));
    }
    Ok(())
}
