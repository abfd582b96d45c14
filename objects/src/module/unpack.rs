//! Distributions pack the files of modules.

use lzma_rust2::XzReader;
use std::borrow::Cow;
use std::io::Read as _;

use crate::crc32;

/// Most bytes of a module's file, unpacked: those with debug information have some 100 MiB.
const UNPACKED_MAX: usize = 1 << 30;

/// Most bytes a packed byte may stand for, and bytes any file may have.
const UNPACKED_OF_A_BYTE: usize = 64;
const UNPACKED_ALWAYS: usize = 1 << 20;

/// Memory that unpacking may take, in KiB: the packer's strongest setting needs 65 MiB.
const XZ_MEMORY_KIB: u32 = 80 << 10;

/// A file that is packed with xz, zstd or gzip, unpacked; every other one as it is. `None` where it does not unpack, or not
/// within bounds.
pub fn unpack_module(file: &[u8]) -> Option<Cow<'_, [u8]>> {
    let most = file.len().saturating_mul(UNPACKED_OF_A_BYTE);
    let most = most.saturating_add(UNPACKED_ALWAYS).min(UNPACKED_MAX);
    match file {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let reader = XzReader::new_mem_limit(file, true, XZ_MEMORY_KIB);
            bounded(reader, most)
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => bounded(zstd::Decoder::new(file).ok()?, most),
        [0x1f, 0x8b, 8, ..] => gzip(file, most),
        _ => return Some(Cow::Borrowed(file)),
    }
    .map(Cow::Owned)
}

fn bounded(reader: impl std::io::Read, most: usize) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let read = reader.take(most as u64 + 1).read_to_end(&mut plain);
    (read.is_ok() && plain.len() <= most).then_some(plain)
}

/// Header of 10 bytes and what its flags say, deflated bytes, checksum and size.
fn gzip(file: &[u8], most: usize) -> Option<Vec<u8>> {
    let (head, mut rest) = file.split_first_chunk::<10>()?;
    let flags = *head.get(3)?;
    if flags & 4 != 0 {
        let (len, behind) = rest.split_first_chunk()?;
        rest = behind.get(usize::from(u16::from_le_bytes(*len))..)?;
    }
    for text in [8, 16] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if flags & 2 != 0 {
        rest = rest.get(2..)?;
    }
    let (rest, _) = rest.split_last_chunk::<4>()?;
    let (packed, sum) = rest.split_last_chunk()?;
    let plain = miniz_oxide::inflate::decompress_to_vec_with_limit(packed, most).ok()?;
    (crc32(0, &plain) == u32::from_le_bytes(*sum)).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_packs_unpacks_and_what_is_damaged_is_refused() {
        let plain: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut gzip = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3];
        gzip.extend(b"some.ko\0");
        gzip.extend(miniz_oxide::deflate::compress_to_vec(&plain, 6));
        gzip.extend(crc32(0, &plain).to_le_bytes());
        gzip.extend(u32::try_from(plain.len()).unwrap().to_le_bytes());
        let zstd = zstd::encode_all(&*plain, 3).unwrap();
        for packed in [gzip, zstd] {
            assert_eq!(unpack_module(&packed).as_deref(), Some(&*plain));
            let mut wrong = packed.clone();
            wrong.truncate(packed.len() / 2);
            assert_eq!(unpack_module(&wrong), None);
        }
        assert_eq!(unpack_module(b"\x7fELF").as_deref(), Some(&b"\x7fELF"[..]));
        assert_eq!(unpack_module(&[0x1f, 0x8b, 8]), None);
    }

    #[test]
    fn what_unpacks_to_more_than_any_file_is_refused() {
        let bomb = zstd::encode_all(&*vec![0_u8; 64 << 20], 3).unwrap();
        assert!(bomb.len() < 100_000);
        assert_eq!(unpack_module(&bomb), None);
    }
}
