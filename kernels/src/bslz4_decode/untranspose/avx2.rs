/// # Safety
/// placeholder
pub(super) unsafe fn untranspose<const BYTES: usize>(planes: &[u8], out: &mut [u8]) {
    super::portable::untranspose::<BYTES>(planes, out, 0);
}
