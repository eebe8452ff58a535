//! Where the chunks of a dataset lie, read in bulk: one pass over the index, whatever its kind.

use super::chunk_arrays;
use super::cursor::Cursor;
use super::error::Hdf5Error;
use super::messages::Index;
use super::storage::{Storage, UNDEFINED};
use super::{btree1, btree2};

/// Most chunks a dataset may have; a scan of 16,384 x 16,384 frames.
const MOST_CHUNKS: u64 = 1 << 28;

/// Where one chunk lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkLocation {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes stored; 0 when the chunk was never written.
    pub bytes: u64,
    /// Filters this chunk skipped, bit 0 the first.
    pub filter_mask: u32,
}

/// The chunks of a dataset as a grid, row-major.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    /// Number of chunks along each axis.
    chunks: Vec<u64>,
    num_chunks: u64,
    element_bytes: usize,
    /// How many chunks the other axes of an array index may have, slowest first: axis and count, None without limit.
    array_axes: Vec<(usize, Option<u64>)>,
}

impl Grid {
    /// `most` is what each axis may grow to: array indices count their elements in that shape.
    pub(super) fn new(
        shape: &[u64],
        most: &[Option<u64>],
        chunk: &[u64],
        element_bytes: usize,
    ) -> Result<Self, Hdf5Error> {
        let damaged = |why: String| Hdf5Error::Damaged { what: "chunks", address: 0, why };
        if shape.len() != chunk.len()
            || shape.len() != most.len()
            || shape.len() > 32
            || chunk.contains(&0)
            || shape.is_empty()
        {
            return Err(damaged(format!("got chunks of shape {chunk:?} for a dataset of shape {shape:?}")));
        }
        let chunks: Vec<u64> = shape.iter().zip(chunk).map(|(&axis, &chunk)| axis.div_ceil(chunk)).collect();
        let num_chunks = chunks
            .iter()
            .try_fold(1u64, |product, &axis| product.checked_mul(axis))
            .filter(|&count| count <= MOST_CHUNKS)
            .ok_or_else(|| {
                damaged(format!("shape {shape:?} in chunks of {chunk:?} is more than {MOST_CHUNKS} chunks"))
            })?;
        let mut array_axes: Vec<(usize, Option<u64>)> = most
            .iter()
            .zip(chunk)
            .map(|(most, &chunk)| most.map(|most| most.div_ceil(chunk)))
            .enumerate()
            .collect();
        // The axis without limit counts slowest, wherever it stands.
        if let Some(at) = array_axes.iter().position(|(_, most)| most.is_none()) {
            array_axes[..=at].rotate_right(1);
        }
        Ok(Self {
            shape: shape.to_vec(),
            chunk: chunk.to_vec(),
            chunks,
            num_chunks,
            element_bytes,
            array_axes,
        })
    }

    /// Bytes of a chunk before filters.
    fn chunk_bytes(&self) -> u64 {
        self.chunk.iter().fold(self.element_bytes as u64, |bytes, &axis| bytes.saturating_mul(axis))
    }

    /// Number of the chunk at a place counted in chunks, asked for axis by axis; None outside the dataset.
    fn number_at(
        &self,
        mut at: impl FnMut(usize) -> Result<u64, Hdf5Error>,
    ) -> Result<Option<u64>, Hdf5Error> {
        let mut number = Some(0);
        for (axis, &count) in self.chunks.iter().enumerate() {
            let at = at(axis)?;
            number = number.filter(|_| at < count).map(|number| number * count + at);
        }
        Ok(number)
    }

    /// Elements of an array index that are not beyond its limit.
    fn array_elements(&self) -> u64 {
        self.array_axes.iter().fold(1, |product: u64, (_, most)| product.saturating_mul(most.unwrap_or(1)))
    }

    /// Number of the chunk that an element of an array index stands for; None outside the dataset.
    fn of_array_element(&self, element: u64) -> Option<u64> {
        let mut place = [0; 32];
        let mut rest = element;
        for &(axis, most) in self.array_axes.iter().rev() {
            let at = match most {
                Some(most) => rest % most.max(1),
                None => rest,
            };
            rest = most.map_or(0, |most| rest / most.max(1));
            *place.get_mut(axis)? = at;
        }
        let mut number = 0;
        for (&at, &count) in place.iter().zip(&self.chunks) {
            if at >= count {
                return None;
            }
            number = number * count + at;
        }
        (rest == 0).then_some(number)
    }

    /// Copies a chunk into the whole, as far as it lies inside.
    pub(super) fn place(&self, number: u64, data: &[u8], whole: &mut [u8]) {
        let mut origin = vec![0; self.chunks.len()];
        let mut rest = number;
        for (axis, &count) in self.chunks.iter().enumerate().rev() {
            origin[axis] = rest % count.max(1) * self.chunk[axis];
            rest /= count.max(1);
        }
        let last = self.shape.len() - 1;
        let line = self.chunk[last] as usize * self.element_bytes;
        for (line_number, from) in data.chunks_exact(line.max(1)).enumerate() {
            let mut rest = line_number as u64;
            let mut at = 0;
            let mut stride = self.shape[last];
            let mut inside = true;
            for axis in (0..last).rev() {
                let place = origin[axis] + rest % self.chunk[axis];
                rest /= self.chunk[axis];
                inside &= place < self.shape[axis];
                at += place * stride;
                stride *= self.shape[axis];
            }
            let keep = (self.shape[last] - origin[last]).min(self.chunk[last]) as usize * self.element_bytes;
            let start = (at + origin[last]) as usize * self.element_bytes;
            if inside && let (Some(to), Some(from)) = (whole.get_mut(start..start + keep), from.get(..keep)) {
                to.copy_from_slice(from);
            }
        }
    }
}

/// What an index gave.
#[derive(Debug, Default)]
pub struct ChunkIndex {
    /// Every chunk, row-major; one that was never written, or whose entry cannot be trusted, has no bytes.
    pub chunks: Vec<ChunkLocation>,
    /// What is wrong with parts of the index, the first few of each kind.
    pub flaws: Vec<Hdf5Error>,
}

/// Flaws kept word by word; more say nothing new.
const MOST_FLAWS: usize = 8;

/// Reads the index. A part that cannot be read, and entries that contradict each other, are flaws: the rest is still good.
pub(super) fn read(
    storage: &Storage,
    grid: &Grid,
    index: Index,
    address: u64,
    filtered: bool,
) -> Result<ChunkIndex, Hdf5Error> {
    // An index entry takes at least as many bytes as an address, so the file bounds how many chunks it can name.
    let most = storage.num_bytes() / 4 + 64;
    let damaged = |why: String| Hdf5Error::Damaged { what: "chunk index", address, why };
    if grid.num_chunks > most {
        let bytes = storage.num_bytes();
        return Err(damaged(format!(
            "got {} chunks, a file of {bytes} bytes cannot index them",
            grid.num_chunks
        )));
    }
    let chunks = vec![ChunkLocation::default(); usize::try_from(grid.num_chunks).unwrap_or(0)];
    let mut found = Found { chunks, base: storage.base, ..Found::default() };
    if address == UNDEFINED {
        return Ok(ChunkIndex { chunks: found.chunks, flaws: Vec::new() });
    }
    let mut flaws = Vec::new();
    let mut flaw = |error| {
        if flaws.len() < MOST_FLAWS {
            flaws.push(error);
        }
        Ok(())
    };
    let chunk_bytes = grid.chunk_bytes();
    match index {
        Index::Single { filtered: None } => found.put(Some(0), address, chunk_bytes, 0),
        Index::Single { filtered: Some((bytes, mask)) } => found.put(Some(0), address, bytes, mask),
        Index::Implicit => {
            for element in 0..grid.array_elements().min(most) {
                let offset = address.saturating_add(element.saturating_mul(chunk_bytes));
                found.put(grid.of_array_element(element), offset, chunk_bytes, 0);
            }
        }
        Index::FixedArray | Index::ExtensibleArray => {
            let mut put = |element, offset, bytes, mask| {
                if offset != UNDEFINED {
                    found.put(grid.of_array_element(element), offset, bytes, mask);
                }
            };
            let sink = &mut chunk_arrays::Sink { put: &mut put, flaw: &mut flaw };
            match index {
                Index::FixedArray => chunk_arrays::fixed(storage, address, chunk_bytes, filtered, sink)?,
                _ => chunk_arrays::extensible(storage, address, chunk_bytes, filtered, sink)?,
            }
        }
        Index::Btree1 => {
            let mut entry = |key: &mut Cursor<'_>, child: u64| {
                let (bytes, mask) = (u64::from(key.u32()?), key.u32()?);
                let number =
                    grid.number_at(|axis| {
                        let start = key.uint(8)?;
                        match start % grid.chunk[axis] {
                            0 => Ok(start / grid.chunk[axis]),
                            _ => Err(key
                                .damaged(format!("got a chunk that starts at {start}, between two chunks"))),
                        }
                    })?;
                found.in_order(number);
                found.put(number, child, bytes, mask);
                Ok(())
            };
            let key_bytes = 8 + 8 * (grid.shape.len() + 1);
            btree1::Walk { storage, kind: 1, key_bytes, entry: &mut entry, flaw: &mut flaw }
                .visit(address)?;
        }
        Index::Btree2 => {
            let records = btree2::read(storage, address, &mut flaw)?;
            let fixed = usize::from(storage.offset_bytes) + 8 * grid.shape.len();
            let size_bytes = match records.kind {
                10 => 0,
                11 => records.record_bytes.saturating_sub(fixed + 4),
                other => return Err(Hdf5Error::Unsupported { what: "chunk record", got: other.to_string() }),
            };
            for record in records.iter() {
                let mut cursor = storage.cursor("chunk record", address, record);
                let offset = cursor.offset()?;
                let (bytes, mask) = match records.kind {
                    10 => (chunk_bytes, 0),
                    _ => (cursor.uint(size_bytes)?, cursor.u32()?),
                };
                let number = grid.number_at(|_| cursor.uint(8))?;
                if offset != UNDEFINED {
                    found.put(number, offset, bytes, mask);
                }
            }
        }
    }
    let doubts = found.settle(chunk_bytes, filtered);
    flaws.extend(doubts.into_iter().map(damaged));
    Ok(ChunkIndex { chunks: found.chunks, flaws })
}

/// Entries as they come, and those that contradict others.
#[derive(Debug, Default)]
struct Found {
    chunks: Vec<ChunkLocation>,
    base: u64,
    /// Entries for places outside the dataset.
    outside: u64,
    /// Numbers that cannot be trusted: named twice, or out of order.
    doubtful: Vec<usize>,
    last: Option<Option<u64>>,
}

impl Found {
    fn put(&mut self, number: Option<u64>, offset: u64, bytes: u64, filter_mask: u32) {
        let place = number.and_then(|number| usize::try_from(number).ok());
        let Some((place, location)) = place.and_then(|place| Some((place, self.chunks.get_mut(place)?)))
        else {
            self.outside += 1;
            return;
        };
        if location.bytes > 0 {
            self.doubtful.push(place);
        }
        *location = ChunkLocation { offset: offset.saturating_add(self.base), bytes, filter_mask };
    }

    /// Entries of an old B-tree come in rising order; of two that do not, either may be the damaged one.
    fn in_order(&mut self, number: Option<u64>) {
        if let Some(last) = self.last
            && number.is_some()
            && number <= last
        {
            let both = [number, last].into_iter().flatten().filter_map(|number| usize::try_from(number).ok());
            self.doubtful.extend(both);
        }
        self.last = Some(number);
    }

    /// Takes out the entries that cannot be trusted, and says why.
    fn settle(&mut self, chunk_bytes: u64, filtered: bool) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.outside > 0 {
            doubts.push(format!("{} chunks lie outside the dataset's shape", self.outside));
        }
        let doubtful = std::mem::take(&mut self.doubtful);
        let named_twice = self.take_out(doubtful.into_iter());
        if named_twice > 0 {
            doubts.push(format!("{named_twice} chunks are named twice or out of order"));
        }
        // A filter can make a chunk longer, but not by much: LZ4 adds 1 in 255.
        let most =
            if filtered { chunk_bytes.saturating_add(chunk_bytes / 4 + (1 << 16)) } else { chunk_bytes };
        let impossible =
            |chunk: &ChunkLocation| chunk.bytes > most || (!filtered && chunk.bytes < chunk_bytes);
        let impossible: Vec<_> = (0..self.chunks.len())
            .filter(|&place| self.chunks[place].bytes > 0 && impossible(&self.chunks[place]))
            .collect();
        let impossible = self.take_out(impossible.into_iter());
        if impossible > 0 {
            doubts.push(format!(
                "{impossible} chunks have impossible lengths (a chunk is {chunk_bytes} bytes)"
            ));
        }
        let overlapping = self.take_out(overlapping(&self.chunks).into_iter());
        if overlapping > 0 {
            doubts.push(format!("{overlapping} chunks claim the same bytes of the file"));
        }
        doubts
    }

    /// Returns how many there were to take out.
    fn take_out(&mut self, places: impl Iterator<Item = usize>) -> usize {
        let mut taken = 0;
        for place in places {
            if let Some(chunk) = self.chunks.get_mut(place).filter(|chunk| chunk.bytes > 0) {
                *chunk = ChunkLocation::default();
                taken += 1;
            }
        }
        taken
    }
}

/// Chunks that share bytes with others. One that reaches over several others is the wrong one; of two, either may be.
fn overlapping(chunks: &[ChunkLocation]) -> Vec<usize> {
    let end = |place: usize| chunks[place].offset.saturating_add(chunks[place].bytes);
    let mut by_offset: Vec<usize> = (0..chunks.len()).filter(|&place| chunks[place].bytes > 0).collect();
    if by_offset.windows(2).all(|pair| end(pair[0]) <= chunks[pair[1]].offset) {
        return Vec::new();
    }
    by_offset.sort_unstable_by_key(|&place| chunks[place].offset);
    let mut others = vec![0u8; chunks.len()];
    let mut pairs = Vec::new();
    for (at, &this) in by_offset.iter().enumerate() {
        // Three are enough to know, so that a file in which everything overlaps takes no longer.
        let reached = by_offset[at + 1..].iter().take(3).take_while(|&&next| chunks[next].offset < end(this));
        for &next in reached {
            others[this] = others[this].saturating_add(1);
            others[next] = others[next].saturating_add(1);
            pairs.push((this, next));
        }
    }
    let mut wrong = Vec::new();
    for (this, next) in pairs {
        match (others[this] > 1, others[next] > 1) {
            (true, false) => wrong.push(this),
            (false, true) => wrong.push(next),
            _ => wrong.extend([this, next]),
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(ranges: &[(u64, u64)]) -> Vec<ChunkLocation> {
        ranges.iter().map(|&(offset, bytes)| ChunkLocation { offset, bytes, filter_mask: 0 }).collect()
    }

    fn wrong(ranges: &[(u64, u64)]) -> Vec<usize> {
        let mut wrong = overlapping(&chunks(ranges));
        wrong.sort_unstable();
        wrong.dedup();
        wrong
    }

    #[test]
    fn chunks_side_by_side_in_any_order_do_not_overlap() {
        assert_eq!(wrong(&[(100, 10), (0, 50), (50, 50), (7, 0)]), [0; 0]);
    }

    #[test]
    fn of_two_that_overlap_both_are_doubted() {
        assert_eq!(wrong(&[(0, 50), (49, 10), (60, 10)]), [0, 1]);
        assert_eq!(wrong(&[(0, 50), (50, 10), (50, 10)]), [1, 2]);
    }

    #[test]
    fn one_that_reaches_over_several_is_the_wrong_one() {
        assert_eq!(wrong(&[(0, 10), (10, 10_000), (20, 10), (30, 10), (40, 10), (50, 10)]), [1]);
    }

    #[test]
    fn elements_of_an_array_count_in_the_shape_the_dataset_may_grow_to() {
        // 3 x 2 chunks now, 5 x 4 at most: element 4 * row + col.
        let grid = Grid::new(&[3, 2], &[Some(5), Some(4)], &[1, 1], 1).unwrap();
        assert_eq!(grid.array_elements(), 20);
        assert_eq!(
            [0, 1, 4, 9, 2, 12].map(|element| grid.of_array_element(element)),
            [Some(0), Some(1), Some(2), Some(5), None, None]
        );
        // The second axis without limit: it counts slowest.
        let grid = Grid::new(&[2, 3], &[Some(2), None], &[1, 1], 1).unwrap();
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|element| grid.of_array_element(element)),
            [Some(0), Some(3), Some(1), Some(4), Some(2), Some(5)]
        );
    }
}
