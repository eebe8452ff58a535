//! Where the chunks of a dataset lie: a version 1 B-tree, which every HDF5 library reads
//! (HDF5 file format specification 3.0, III.A.1 "Version 1 B-trees", node type 1).

use super::object::Metadata;

/// Entries of a node, 2 K with K = 32: what a superblock of version 2 implies.
const NODE_ENTRIES: usize = 64;

/// The address that is none.
const NOWHERE: u64 = u64::MAX;

/// One chunk: one image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// Number of the image in its file, from 0.
    pub(super) image: u64,
    /// First byte in the file.
    pub(super) address: u64,
    /// Stored bytes.
    pub(super) bytes: u32,
}

/// An entry of a node: the first image below it, the stored bytes of that image, and what it points to.
#[derive(Clone, Copy)]
struct Entry {
    first_image: u64,
    bytes: u32,
    child: u64,
}

/// Writes the index of a dataset `[image][row][col]` with one chunk an image; returns the address of its root, which is
/// undefined where there is no chunk at all. Chunks come in rising order of their images; those that are not named were
/// never written (III.A.1: a key is the least offset below it, so that what lies between two keys is in no chunk).
pub(super) fn place_chunk_index(metadata: &mut Metadata, chunks: &[Chunk], num_images: u64) -> u64 {
    if chunks.is_empty() {
        return NOWHERE;
    }
    let mut entries: Vec<Entry> = chunks
        .iter()
        .map(|chunk| Entry { first_image: chunk.image, bytes: chunk.bytes, child: chunk.address })
        .collect();
    let mut level = 0;
    loop {
        let parents = place_level(metadata, &entries, level, num_images);
        match parents.as_slice() {
            [root] => return root.child,
            _ => entries = parents,
        }
        level += 1;
    }
}

/// Writes all nodes of one level side by side; returns the entries of the level above.
fn place_level(metadata: &mut Metadata, entries: &[Entry], level: u8, num_images: u64) -> Vec<Entry> {
    let node_bytes = 24 + NODE_ENTRIES * 8 + (NODE_ENTRIES + 1) * KEY_BYTES;
    let first_node = metadata.next_address();
    let num_nodes = entries.len().div_ceil(NODE_ENTRIES);
    let address_of = |node: usize| first_node + (node * node_bytes) as u64;
    let mut parents = Vec::with_capacity(num_nodes);
    for (node, members) in entries.chunks(NODE_ENTRIES).enumerate() {
        let mut bytes = Vec::with_capacity(node_bytes);
        bytes.extend(b"TREE");
        bytes.extend([1, level]);
        bytes.extend((members.len() as u16).to_le_bytes()); // at most 64
        bytes.extend(if node == 0 { NOWHERE } else { address_of(node - 1) }.to_le_bytes());
        bytes.extend(if node + 1 == num_nodes { NOWHERE } else { address_of(node + 1) }.to_le_bytes());
        for entry in members {
            push_key(&mut bytes, entry.bytes, entry.first_image);
            bytes.extend(entry.child.to_le_bytes());
        }
        let next = entries.get((node + 1) * NODE_ENTRIES);
        push_key(
            &mut bytes,
            next.map_or(0, |entry| entry.bytes),
            next.map_or(num_images, |entry| entry.first_image),
        );
        bytes.resize(node_bytes, 0);
        let child = metadata.place(&bytes);
        parents.extend(members.first().map(|first| Entry { child, ..*first }));
    }
    parents
}

/// Bytes of a key: size, filter mask, and the chunk's offset along three axes and inside the element.
const KEY_BYTES: usize = 8 + 4 * 8;

fn push_key(bytes: &mut Vec<u8>, stored: u32, image: u64) {
    bytes.extend(stored.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes()); // no filter was skipped
    bytes.extend(image.to_le_bytes());
    bytes.extend([0; 24]);
}
