//! How much work one file may cause.

use super::DebugError;

/// Steps for each byte of debug information. Real files are read about once; units that share tables read those again.
const STEPS_PER_BYTE: u64 = 48;

/// Steps that any file may take.
const STEPS_ALWAYS: u64 = 1 << 20;

/// Steps that are left. A step is about a byte looked at, or up to some ten bytes kept.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    bytes: usize,
}

impl Budget {
    /// Of a file with so many bytes of debug information.
    pub(super) fn of(bytes: usize) -> Self {
        let left = STEPS_ALWAYS.saturating_add((bytes as u64).saturating_mul(STEPS_PER_BYTE));
        Self { left, bytes }
    }

    /// More bytes of debug information came.
    pub(super) fn grow(&mut self, bytes: usize) {
        let more = (bytes as u64).saturating_mul(STEPS_PER_BYTE);
        self.left = self.left.saturating_add(more);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Pays for steps.
    pub(super) fn pay(&mut self, steps: usize) -> Result<(), DebugError> {
        let Some(left) = self.left.checked_sub(steps as u64) else {
            self.left = 0;
            return Err(DebugError::Effort { bytes: self.bytes });
        };
        self.left = left;
        Ok(())
    }
}
