//! The same recording as machines of both byte orders write it.

mod features;
mod out;
mod records;

pub(crate) use out::Out;
pub(crate) use records::{Amount, all_records};

use memwide_perf_abi::{Attr, AttrFlags, branch_sample, kind, read_format, sample};

/// Ids of the two events.
pub(crate) const IDS: [[u64; 2]; 2] = [[0x1_0000_0001, 0x1_0000_0002], [0x2_0000_0001, 7]];

/// An event with every field a sample can have, and one with a group of counters.
pub(crate) fn attrs(amount: Amount) -> [Attr; 2] {
    let every = sample::KNOWN & !sample::WEIGHT_STRUCT;
    let counters = match amount {
        Amount::PerfReads => 0,
        Amount::Everything => branch_sample::COUNTERS,
    };
    let full = Attr {
        kind: 1,
        config: 0x0102_0304_0506_0708,
        sample_period: 1000,
        sample_type: every,
        read_format: read_format::TOTAL_TIME_ENABLED
            | read_format::TOTAL_TIME_RUNNING
            | read_format::ID
            | read_format::LOST,
        flags: AttrFlags::default()
            .with_sample_id_all(true)
            .with_exclude_guest(true)
            .with_precise_ip(2)
            .with_mmap2(true)
            .with_comm_exec(true),
        wakeup: 3,
        bp_type: 5,
        config1: 0x1122_3344_5566_7788,
        config2: 0x99aa_bbcc_ddee_ff00,
        branch_sample_type: branch_sample::HW_INDEX | 8 | counters,
        sample_regs_user: 0b1011,
        sample_stack_user: 64,
        clockid: 1,
        sample_regs_intr: 0b110,
        aux_watermark: 0x0102_0304,
        sample_max_stack: 0x1234,
        aux_sample_size: 128,
        ..Attr::default()
    };
    let group = Attr {
        sample_type: sample::IDENTIFIER
            | sample::IP
            | sample::TID
            | sample::TIME
            | sample::ADDR
            | sample::ID
            | sample::CPU
            | sample::STREAM_ID
            | sample::PERIOD
            | sample::READ
            | sample::CALLCHAIN
            | sample::RAW
            | sample::WEIGHT_STRUCT
            | sample::DATA_SRC
            | sample::AUX,
        read_format: full.read_format | read_format::GROUP,
        flags: full.flags.with_precise_ip(1),
        branch_sample_type: 0,
        config: 9,
        ..full.clone()
    };
    [full, group]
}

/// Widths of an attr's flags: all bits but the two of `precise_ip`.
fn flag_widths() -> Vec<u32> {
    let mut widths = vec![1; 63];
    widths[15] = 2;
    widths
}

pub(crate) fn put_attr(out: &mut Out, attr: &Attr) {
    out.u32(attr.kind).u32(128);
    out.u64s(&[
        attr.config,
        attr.sample_period,
        attr.sample_type,
        attr.read_format,
    ]);
    out.bit_fields(attr.flags.0, &flag_widths());
    out.u32(attr.wakeup).u32(attr.bp_type);
    out.u64s(&[
        attr.config1,
        attr.config2,
        attr.branch_sample_type,
        attr.sample_regs_user,
    ]);
    out.u32(attr.sample_stack_user)
        .u32(attr.clockid.cast_unsigned());
    out.u64(attr.sample_regs_intr);
    out.u32(attr.aux_watermark);
    out.u16(attr.sample_max_stack).u16(0);
    out.u32(attr.aux_sample_size).u32(0);
    out.u64(attr.sig_data);
}

/// A file with header features.
pub(crate) fn file(big: bool, amount: Amount) -> Vec<u8> {
    let attrs = attrs(amount);
    let features = features::all(big, &attrs);
    let mut data = Out::new(big);
    all_records(&mut data, amount);
    let mut out = Out::new(big);
    let ids_at = 104;
    let attrs_at = ids_at + 4 * 8;
    let attr_size = 128 + 16;
    let data_at = attrs_at + 2 * attr_size;
    let data_len = u64::try_from(data.bytes.len()).unwrap();
    out.u64(u64::from_le_bytes(*b"PERFILE2")); // a number: turned round on the other machine
    out.u64s(&[
        104,
        attr_size,
        attrs_at,
        2 * attr_size,
        data_at,
        data_len,
        0,
        0,
    ]);
    let bits = features
        .iter()
        .fold(0u64, |bits, (number, _)| bits | 1 << number);
    out.u64s(&[bits, 0, 0, 0]);
    out.u64s(IDS.as_flattened());
    for (index, attr) in (0..).zip(&attrs) {
        put_attr(&mut out, attr);
        out.u64s(&[ids_at + 16 * index, 16]);
    }
    out.raw(&data.bytes);
    let count = u64::try_from(features.len()).unwrap();
    let mut at = data_at + data_len + 16 * count;
    for (_, bytes) in &features {
        let len = u64::try_from(bytes.len()).unwrap();
        out.u64s(&[at, len]);
        at += len;
    }
    for (_, bytes) in &features {
        out.raw(bytes);
    }
    out.bytes
}

/// The same as a pipe's file; `packed` records are compressed.
pub(crate) fn pipe(big: bool, amount: Amount, packed: bool) -> Vec<u8> {
    let attrs = attrs(amount);
    let mut out = Out::new(big);
    out.u64(u64::from_le_bytes(*b"PERFILE2")).u64(16);
    for (attr, ids) in attrs.iter().zip(IDS) {
        out.record(kind::HEADER_ATTR, 0, |out| {
            put_attr(out, attr);
            out.u64s(&ids);
        });
    }
    for (number, bytes) in features::all(big, &attrs) {
        if bytes.len() < 60_000 {
            out.record(kind::HEADER_FEATURE, 0, |out| {
                out.u64(number).raw(&bytes);
            });
        }
    }
    out.record(kind::HEADER_BUILD_ID, 1 | 1 << 15, |out| {
        out.u32(u32::MAX).raw(&[0xef; 20]).raw(&[16, 0, 0, 0]);
        out.fixed("[kernel.kallsyms]", 24);
    });
    out.record(kind::EVENT_UPDATE, 0, |out| {
        out.u64s(&[2, IDS[1][0]]).text("renamed");
    });
    let mut data = Out::new(big);
    all_records(&mut data, amount);
    if packed {
        let stream = zstd::encode_all(data.bytes.as_slice(), 1).unwrap();
        let (first, second) = stream.split_at(stream.len() / 2);
        out.record(kind::COMPRESSED, 0, |out| {
            out.raw(first);
        });
        out.record(kind::COMPRESSED2, 0, |out| {
            out.u64(u64::try_from(second.len()).unwrap()).raw(second);
            let pad = out.bytes.len().next_multiple_of(8) - out.bytes.len();
            out.raw(&vec![0; pad]);
        });
    } else {
        out.raw(&data.bytes);
    }
    out.bytes
}
