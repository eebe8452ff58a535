//! Large pieces of memory, asked for in a way that can be refused.

/// An empty vector with room for exactly `len` elements.
///
/// # Errors
/// The memory cannot be had; the text names `what` and the bytes it wanted.
pub(crate) fn room_for<T>(len: usize, what: &str) -> anyhow::Result<Vec<T>> {
    let mut room = Vec::new();
    room.try_reserve_exact(len).map_err(|_| {
        let bytes = (len as u128).saturating_mul(size_of::<T>() as u128);
        anyhow::anyhow!("{what}: {bytes} bytes of memory wanted, which cannot be had")
    })?;
    Ok(room)
}

/// A vector of `len` times `value`.
///
/// # Errors
/// As [`room_for`].
pub(crate) fn filled<T: Clone>(value: T, len: usize, what: &str) -> anyhow::Result<Vec<T>> {
    let mut room = room_for(len, what)?;
    room.resize(len, value);
    Ok(room)
}

/// The elements of an iterator that knows their number.
///
/// # Errors
/// As [`room_for`].
pub(crate) fn gathered<T>(elements: impl ExactSizeIterator<Item = T>, what: &str) -> anyhow::Result<Vec<T>> {
    let mut room = room_for(elements.len(), what)?;
    room.extend(elements);
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_refused_with_the_bytes_it_wanted() {
        let refused = filled(0u64, 1 << 60, "a map").unwrap_err().to_string();
        assert_eq!(refused, "a map: 9223372036854775808 bytes of memory wanted, which cannot be had");
        assert_eq!(filled(7u8, 3, "three").unwrap(), [7; 3]);
        assert_eq!(gathered([1.5f32, 2.5].iter().map(|x| x * 2.0), "two").unwrap(), [3.0, 5.0]);
    }
}
