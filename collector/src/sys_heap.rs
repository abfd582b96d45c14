//! What the C library's allocator keeps of memory that was freed.
#![expect(unsafe_code, reason = "mallopt")]

/// A block of this size or more is the system's own and goes back when it is freed, in bytes.
#[cfg(target_env = "gnu")]
const OWN_FROM: i32 = 256 << 10;

/// Has the allocator give large blocks back as soon as they are freed. For the whole process, before it starts threads.
///
/// Left to itself, glibc takes the largest block freed so far (up to 32 MiB) as the bound from then on and keeps what is
/// smaller, in each of eight heaps a CPU: symbols are read in blocks of that size, by whichever thread is free.
pub fn keep_little_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes numbers only and sets how the allocator works from now on; refused, it works as before.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_FROM);
    }
}
