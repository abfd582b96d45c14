//! Callchains: addresses with markers that say whose code follows.

use crate::context::Mode;
use memwide_perf_abi::Words;

/// Most frames taken of one chain; perf's own default limit.
pub(crate) const FRAMES_MAX: usize = 127;

/// Values from here on are markers (`PERF_CONTEXT_MAX`), not addresses.
const MARKERS_FROM: u64 = 4095_u64.wrapping_neg();

/// `PERF_CONTEXT_USER`.
pub(crate) const USER: u64 = 512_u64.wrapping_neg();

/// The innermost frame: its place among the words, whose code it is, its address.
pub(crate) fn innermost(chain: Words<'_>) -> Option<(usize, Mode, u64)> {
    let at = chain.iter().position(|word| word < MARKERS_FROM)?;
    let mut found = None;
    // None behind a marker that nobody knows, or where frames come later.
    let _ = walk(chain.first(at + 1), |mode, ip| found = Some((at, mode, ip)));
    found
}

/// Calls `each` for every frame, innermost first. False for a chain with a marker nobody knows: it is corrupt, and perf
/// discards all of it.
#[must_use]
pub(crate) fn walk(chain: Words<'_>, mut each: impl FnMut(Mode, u64)) -> bool {
    let mut mode = Mode::User;
    let mut frames = 0;
    for word in chain.iter() {
        if word < MARKERS_FROM {
            if frames == FRAMES_MAX {
                return true;
            }
            frames += 1;
            each(mode, word);
            continue;
        }
        mode = match word.wrapping_neg() {
            32 => Mode::Other, // hypervisor
            128 => Mode::Kernel,
            512 => Mode::User,
            2048 | 2176 | 2560 => Mode::Guest,
            640 => return true, // the user frames come later; a number follows that says which they are
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(words: &[u64]) -> Vec<(Mode, u64)> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut frames = Vec::new();
        let whole = walk(Words::new(&bytes), |mode, ip| frames.push((mode, ip)));
        if whole { frames } else { Vec::new() }
    }

    #[test]
    fn markers_say_whose_frames_follow() {
        let (kernel, user) = (128_u64.wrapping_neg(), 512_u64.wrapping_neg());
        assert_eq!(
            walked(&[kernel, 0xffff_ffff_8100_0000, user, 0x40, 0x50]),
            [
                (Mode::Kernel, 0xffff_ffff_8100_0000),
                (Mode::User, 0x40),
                (Mode::User, 0x50)
            ]
        );
        assert_eq!(walked(&[0x40]), [(Mode::User, 0x40)]);
    }

    #[test]
    fn the_innermost_frame_stands_behind_markers() {
        let (kernel, user) = (128_u64.wrapping_neg(), 512_u64.wrapping_neg());
        let deferred = 640_u64.wrapping_neg();
        for (words, found) in [
            (&[kernel, user, 0x40, 0x50][..], Some((2, Mode::User, 0x40))),
            (&[kernel, 7, user, 0x40], Some((1, Mode::Kernel, 7))),
            (&[0x40], Some((0, Mode::User, 0x40))),
            (&[kernel], None),
            (&[kernel, deferred, 0x1234], None),
            (&[u64::MAX, 0x40], None),
            (&[], None),
        ] {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(innermost(Words::new(&bytes)), found, "{words:x?}");
        }
    }

    #[test]
    fn the_number_of_user_frames_to_come_is_no_frame() {
        let (kernel, deferred) = (128_u64.wrapping_neg(), 640_u64.wrapping_neg());
        let address = 0xffff_ffff_8100_0000;
        assert_eq!(
            walked(&[kernel, address, deferred, 0x1234]),
            [(Mode::Kernel, address)]
        );
    }

    #[test]
    fn a_chain_with_an_unknown_marker_is_corrupt() {
        assert_eq!(walked(&[0x40, u64::MAX, 0x50]), []);
    }

    #[test]
    fn a_long_chain_is_cut_as_perf_cuts_it() {
        assert_eq!(walked(&[1; 500]).len(), FRAMES_MAX);
    }
}
