//! Records of every type, samples with every field.

use memwide_perf_abi::{kind, misc};

use super::{IDS, Out};

/// How much to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    /// What perf 6.1 turns round rightly.
    PerfReads,
    /// All there is.
    Everything,
}

/// The sample id of the first event.
fn sample_id(out: &mut Out, time: u64) {
    out.u32(100).u32(101).u64(time);
    out.u64(IDS[0][0]).u64(0x77).u32(3).u32(0).u64(IDS[0][0]);
}

pub(crate) fn all_records(out: &mut Out, amount: Amount) {
    side_band(out);
    if amount == Amount::Everything {
        side_band_perf_leaves(out);
        perfs_own(out);
    }
    for time in [5000, 5001, 5002] {
        full_sample(out, time, amount);
        group_sample(out, time + 10);
    }
    out.record(kind::FINISHED_ROUND, 0, |_| {});
}

fn side_band(out: &mut Out) {
    out.record(kind::COMM, misc::COMM_EXEC, |out| {
        out.u32(100).u32(100).text("worker");
        sample_id(out, 1000);
    });
    out.record(kind::FORK, 0, |out| {
        out.u32(100).u32(1).u32(101).u32(1).u64(1001);
        sample_id(out, 1001);
    });
    out.record(kind::MMAP, misc::USER, |out| {
        out.u32(100).u32(100).u64s(&[0x40_0000, 0x1000, 0]);
        out.text("/usr/bin/app");
        sample_id(out, 1002);
    });
    out.record(kind::MMAP2, misc::USER, |out| {
        out.u32(100).u32(100).u64s(&[0x50_0000, 0x1000, 0x200]);
        out.u32(8).u32(1).u64s(&[4711, 3]);
        out.u32(5).u32(2).text("/usr/lib/lib.so");
        sample_id(out, 1003);
    });
    out.record(kind::MMAP2, misc::USER | misc::MMAP_BUILD_ID, |out| {
        out.u32(100).u32(100).u64s(&[0x60_0000, 0x1000, 0]);
        out.raw(&[20, 0, 0, 0]).raw(&[0xcd; 20]);
        out.u32(5).u32(2).text("/usr/lib/other.so");
        sample_id(out, 1004);
    });
    out.record(kind::LOST, 0, |out| {
        out.u64s(&[IDS[0][0], 3]);
        sample_id(out, 1005);
    });
    out.record(kind::LOST_SAMPLES, 0, |out| {
        out.u64(4);
        sample_id(out, 1006);
    });
    for kind in [kind::THROTTLE, kind::UNTHROTTLE] {
        out.record(kind, 0, |out| {
            out.u64s(&[1007, IDS[0][0], 0x77]);
            sample_id(out, 1007);
        });
    }
    out.record(kind::AUX, 0, |out| {
        out.u64s(&[4096, 512, 9]);
        sample_id(out, 1008);
    });
    out.record(kind::ITRACE_START, 0, |out| {
        out.u32(100).u32(101);
        sample_id(out, 1009);
    });
    out.record(kind::SWITCH, misc::SWITCH_OUT, |out| sample_id(out, 1010));
    out.record(kind::SWITCH_CPU_WIDE, 0, |out| {
        out.u32(5).u32(6);
        sample_id(out, 1011);
    });
    out.record(kind::NAMESPACES, 0, |out| {
        out.u32(100)
            .u32(101)
            .u64s(&[2, 3, 0xf000_0001, 4, 0xf000_0002]);
        sample_id(out, 1012);
    });
    out.record(kind::CGROUP, 0, |out| {
        out.u64(77).text("/system.slice/app");
        sample_id(out, 1013);
    });
    out.record(kind::TEXT_POKE, 0, |out| {
        out.u64(0xffff_ffff_8100_0000).u16(3).u16(5);
        out.raw(&[1, 2, 3, 4, 5, 6, 7, 8]).raw(&[0; 4]);
        sample_id(out, 1014);
    });
    out.record(kind::AUX_OUTPUT_HW_ID, 0, |out| {
        out.u64(0x0123_4567_89ab_cdef);
        sample_id(out, 1015);
    });
    out.record(kind::EXIT, 0, |out| {
        out.u32(300).u32(1).u32(300).u32(1).u64(1016);
        sample_id(out, 1016);
    });
}

/// perf 6.1 does not turn these, or not whole.
fn side_band_perf_leaves(out: &mut Out) {
    out.record(kind::READ, 0, |out| {
        out.u32(100).u32(101).u64s(&[10, 20, 30, IDS[0][0], 1]);
        sample_id(out, 1020);
    });
    out.record(kind::KSYMBOL, 0, |out| {
        out.u64(0xffff_ffff_c000_0000).u32(64).u16(1).u16(0);
        out.text("bpf_prog_1");
        sample_id(out, 1021);
    });
    out.record(kind::BPF_EVENT, 0, |out| {
        out.u16(1).u16(0).u32(12).raw(&[1, 2, 3, 4, 5, 6, 7, 8]);
        sample_id(out, 1022);
    });
    out.record(kind::CALLCHAIN_DEFERRED, misc::USER, |out| {
        out.u64s(&[
            0x00c0_0c1e,
            3,
            (-512i64).cast_unsigned(),
            0x40_0010,
            0x40_0020,
        ]);
        sample_id(out, 1023);
    });
    // A type nobody knows: its bytes stay, its sample id is turned.
    out.record(60, 0, |out| {
        out.raw(&[1, 2, 3, 4, 5, 6, 7, 8]);
        sample_id(out, 1024);
    });
}

fn perfs_own(out: &mut Out) {
    out.record(kind::ID_INDEX, 0, |out| {
        out.u64s(&[2, IDS[0][0], 0, 1, u64::MAX, IDS[1][0], 1, 2, 100]);
    });
    out.record(kind::AUXTRACE_INFO, 0, |out| {
        out.u32(4).u32(0).u64s(&[11, 12]);
    });
    out.record(kind::AUXTRACE_ERROR, 0, |out| {
        for word in [1, 2, 3, 100, 101, 2] {
            out.u32(word);
        }
        out.u64s(&[0x40_0000, 1030]).fixed("lost", 64).u32(7).u32(8);
    });
    out.record(kind::THREAD_MAP, 0, |out| {
        out.u64(2).u64(100).fixed("worker", 16);
        out.u64(101).fixed("other", 16);
    });
    out.record(kind::CPU_MAP, 0, |out| {
        out.u16(0).u16(2).u16(1).u16(3);
    });
    out.record(kind::CPU_MAP, 0, |out| {
        out.u16(1)
            .u16(1)
            .u16(8)
            .raw(&[0; 4])
            .u64(0b1011)
            .raw(&[0; 6]);
    });
    out.record(kind::CPU_MAP, 0, |out| {
        out.u16(2).raw(&[1, 0]).u16(4).u16(9);
    });
    out.record(kind::STAT_CONFIG, 0, |out| {
        out.u64s(&[1, 2, 1]);
    });
    out.record(kind::STAT, 0, |out| {
        out.u64(IDS[0][0]).u32(3).u32(1).u64s(&[10, 20, 30]);
    });
    out.record(kind::STAT_ROUND, 0, |out| {
        out.u64s(&[1, 1031]);
    });
    out.record(kind::EVENT_UPDATE, 0, |out| {
        out.u64s(&[1, IDS[0][0], 2.5f64.to_bits()]);
    });
    out.record(kind::TIME_CONV, 0, |out| {
        out.u64s(&[31, 12345, 99, 1, u64::MAX])
            .raw(&[1, 1, 0, 0, 0, 0, 0, 0]);
    });
    out.record(kind::BPF_METADATA, 0, |out| {
        out.fixed("prog", 256)
            .u64(1)
            .fixed("license", 64)
            .fixed("free", 256);
    });
    out.record(kind::FINISHED_INIT, 0, |_| {});
    out.record(kind::AUXTRACE, 0, |out| {
        out.u64s(&[16, 4096, 3]);
        for word in [1, 101, 2, 0] {
            out.u32(word);
        }
    });
    out.raw(b"sixteen bytes of"); // no record
}

/// Fields up to the period.
fn head(out: &mut Out, id: u64, time: u64) {
    out.u64(id).u64(0x40_0123);
    out.u32(100).u32(101).u64(time).u64(0x7fff_1234_5678);
    out.u64(id).u64(0x77).u32(3).u32(0).u64(1000 + time);
}

fn full_sample(out: &mut Out, time: u64, amount: Amount) {
    out.record(kind::SAMPLE, misc::USER, |out| {
        head(out, IDS[0][1], time);
        out.u64s(&[time * 10, 20, 30, IDS[0][1], 1]);
        out.u64s(&[3, (-512i64).cast_unsigned(), 0x40_0123, 0x40_0456]);
        out.u32(12).raw(b"raw data 123");
        out.u64s(&[2, 5]);
        for branch in [1, 2] {
            out.u64s(&[0x40_0000 + branch, 0x40_1000 + branch]);
            let flags = 2 | (0x1234 << 4) | (branch << 20) | (1 << 24) | (1 << 30);
            out.bit_fields(flags, &[1, 1, 1, 1, 16, 4, 2, 4, 3, 31]);
        }
        if amount == Amount::Everything {
            out.u64s(&[0x0101, 0x0202]);
        }
        out.u64s(&[2, 0xa1, 0xa2, 0xa3]); // user registers
        out.u64(16).u64s(&[0x1111_2222_3333_4444, 0x5555]).u64(8);
        out.u64s(&[55, 0x1_0608_0842, 0x33]); // weight, data_src, transaction
        out.u64s(&[2, 0xb1, 0xb2]); // registers at the interrupt
        out.u64s(&[0x1234_5000, 77, 4096, 2 << 20]);
        out.u64(16).raw(b"aux bytes, 16 of");
    });
}

fn group_sample(out: &mut Out, time: u64) {
    out.record(kind::SAMPLE, misc::KERNEL, |out| {
        head(out, IDS[1][0], time);
        out.u64s(&[2, 20, 30]);
        out.u64s(&[time * 10, IDS[1][0], 0, time * 20, IDS[0][0], 1]);
        out.u64s(&[2, (-128i64).cast_unsigned(), 0xffff_ffff_8100_0000]);
        out.u32(4).raw(b"four");
        out.u64(0x0003_0002_0000_0001); // the parts of a weight are parts of one number
        out.u64(0x1_0608_0842);
        out.u64(0);
    });
}
