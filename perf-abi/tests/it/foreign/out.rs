//! Writes numbers in either byte order, field by field.

/// Bytes of a file of one byte order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Out {
    pub(crate) big: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Out {
    pub(crate) fn new(big: bool) -> Self {
        Self {
            big,
            bytes: Vec::new(),
        }
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        let bytes = if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.raw(&bytes)
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        let bytes = if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.raw(&bytes)
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        let bytes = if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.raw(&bytes)
    }

    pub(crate) fn u64s(&mut self, values: &[u64]) -> &mut Self {
        for value in values {
            self.u64(*value);
        }
        self
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// A text with its NUL, padded to 8 bytes.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.raw(text.as_bytes());
        let pad = 8 - text.len() % 8;
        self.bytes.extend(std::iter::repeat_n(0, pad));
        self
    }

    /// A text of `len` bytes with NULs behind it.
    pub(crate) fn fixed(&mut self, text: &str, len: usize) -> &mut Self {
        self.raw(text.as_bytes());
        self.bytes.extend(std::iter::repeat_n(0, len - text.len()));
        self
    }

    /// A header's string: length, text, padding to 64 bytes.
    pub(crate) fn string(&mut self, text: &str) -> &mut Self {
        let len = (text.len() + 1).next_multiple_of(64);
        self.u32(u32::try_from(len).unwrap());
        self.fixed(text, len)
    }

    /// Bit fields: on big-endian machines the first one stands at the top. `widths` must sum up to 64.
    pub(crate) fn bit_fields(&mut self, little: u64, widths: &[u32]) -> &mut Self {
        let mut below = 0;
        let mut big = 0;
        for width in widths {
            let field = (little >> below) & (u64::MAX >> (64 - width));
            below += width;
            big |= field << (64 - below);
        }
        assert_eq!(below, 64);
        let word = if self.big { big } else { little };
        self.u64(word)
    }

    /// A record; the size in its header is what `body` writes.
    pub(crate) fn record(&mut self, kind: u32, misc: u16, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.u32(kind).u16(misc).u16(0);
        body(self);
        let size = u16::try_from(self.bytes.len() - start).unwrap();
        let size = if self.big {
            size.to_be_bytes()
        } else {
            size.to_le_bytes()
        };
        self.bytes[start + 6..start + 8].copy_from_slice(&size);
    }
}
