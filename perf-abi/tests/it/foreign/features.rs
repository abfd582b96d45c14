//! Every header feature.

use memwide_perf_abi::Attr;
use memwide_perf_abi::file::feature;

use super::{IDS, Out, put_attr};

/// Numbers and bytes, lowest number first.
pub(crate) fn all(big: bool, attrs: &[Attr]) -> Vec<(u64, Vec<u8>)> {
    let mut features: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut add = |number: u32, write: &dyn Fn(&mut Out)| {
        let mut out = Out::new(big);
        write(&mut out);
        features.push((number, out.bytes));
    };
    add(feature::BUILD_ID, &|out| {
        out.record(0, 2 | 1 << 15, |out| {
            out.u32(u32::MAX)
                .raw(&[0xab; 20])
                .raw(&[20, 0, 0, 0])
                .fixed("/usr/bin/app", 64);
        });
    });
    for (number, text) in [
        (feature::HOSTNAME, "foreign"),
        (feature::OSRELEASE, "6.12.0"),
        (feature::VERSION, "6.12"),
        (feature::ARCH, "s390x"),
        (feature::CPUDESC, "a CPU"),
        (feature::CPUID, "IBM,8561"),
    ] {
        add(number, &|out| {
            out.string(text);
        });
    }
    add(feature::NRCPUS, &|out| {
        out.u32(4).u32(3);
    });
    add(feature::TOTAL_MEM, &|out| {
        out.u64(0x1234_5678_9abc);
    });
    add(feature::CMDLINE, &|out| {
        out.u32(2).string("perf").string("record");
    });
    add(feature::EVENT_DESC, &|out| {
        out.u32(2).u32(128);
        for ((attr, ids), name) in attrs.iter().zip(IDS).zip(["full", "group"]) {
            put_attr(out, attr);
            out.u32(2).string(name).u64s(&ids);
        }
    });
    add(feature::CPU_TOPOLOGY, &|out| {
        out.u32(1).string("0-3").u32(2).string("0-1").string("2-3");
        for cpu in 0..4 {
            out.u32(cpu / 2).u32(0);
        }
        out.u32(1).string("0-3");
        for _ in 0..4 {
            out.u32(0);
        }
    });
    add(feature::NUMA_TOPOLOGY, &|out| {
        out.u32(1).u32(0).u64s(&[1 << 30, 1 << 20]).string("0-3");
    });
    add(feature::PMU_MAPPINGS, &|out| {
        out.u32(2)
            .u32(1)
            .string("software")
            .u32(10)
            .string("ibs_op");
    });
    add(feature::GROUP_DESC, &|out| {
        out.u32(1).string("").u32(0).u32(2);
    });
    add(feature::CACHE, &|out| {
        out.u32(1).u32(1);
        for word in [1, 64, 64, 8] {
            out.u32(word);
        }
        out.string("Data").string("32K").string("0-1");
    });
    add(feature::SAMPLE_TIME, &|out| {
        out.u64s(&[1000, 9000]);
    });
    add(feature::MEM_TOPOLOGY, &|out| {
        out.u64s(&[1, 0x800_0000, 1, 0, 65, 65, 0x55, 1]);
    });
    add(feature::CLOCKID, &|out| {
        out.u64(1);
    });
    add(feature::CLOCK_DATA, &|out| {
        out.u32(1).u32(1).u64s(&[1_700_000_000_000_000_000, 5000]);
    });
    add(feature::CPU_PMU_CAPS, &|out| {
        out.u32(1).string("branches").string("32");
    });
    add(feature::HYBRID_TOPOLOGY, &|out| {
        out.u32(1).string("cpu_core").string("0-3");
    });
    add(feature::PMU_CAPS, &|out| {
        out.u32(1).u32(1).string("zen4_ibs_extensions").string("1");
        out.string("ibs_op");
    });
    add(feature::CPU_DOMAIN_INFO, &|out| {
        out.u32(17).u32(1).u32(2).u32(1).u32(0);
        out.string("MC").string("f").string("0-3");
    });
    add(feature::E_MACHINE, &|out| {
        out.u32(22).u32(1);
    });
    add(feature::CLN_SIZE, &|out| {
        out.u32(256);
    });
    features.sort_by_key(|(number, _)| *number);
    features
        .into_iter()
        .map(|(number, bytes)| (number.into(), bytes))
        .collect()
}
