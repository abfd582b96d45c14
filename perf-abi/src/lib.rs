//! The kernel's record format: bytes in, borrowed views out; perf.data reader and writer.
