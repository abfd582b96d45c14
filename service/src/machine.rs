//! How large this machine is.

/// Assumed where the machine does not say, in bytes.
const MEMORY_UNKNOWN_BYTES: u64 = 4 << 30;

/// Main memory, in bytes.
pub fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    #[expect(
        clippy::useless_conversion,
        reason = "the field's width depends on the machine"
    )]
    let total = u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit));
    if total == 0 {
        MEMORY_UNKNOWN_BYTES
    } else {
        total
    }
}
