//! What a person should know before the scan is over: seen in the frames so far.

use ssb::BrightField;

use crate::optics::ResolvedOptics;

/// What the optics and the bright field of the frames so far give reason to warn of.
pub(super) fn of(optics: &ResolvedOptics, field: &BrightField) -> Vec<String> {
    let known = optics.optics_at(field.sampling);
    let warnings = known.map(|known| ssb::warnings(&known, field)).unwrap_or_default();
    warnings.iter().map(ToString::to_string).collect()
}
