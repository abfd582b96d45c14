//! Linked kernels: one built here with a name beside `_text`, as real ones have.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests stop at once and say what they skip"
)]

use std::process::Command;

use memwide_objects::{KernelFileError, Limits, LinkedKernel};

/// Of names at one place a table keeps one, and not `_text`.
const SOURCE: &str = "
 .text
 .globl _text, startup_64, work
 .type startup_64,@function
 .type work,@function
_text:
startup_64: nop
 .size startup_64, 16
 .org 0x40
work: nop
 .size work, 1
";
const LINKED: u64 = 0xffff_ffff_8100_0000;

#[test]
fn a_kernel_begins_at_text_whatever_else_is_named_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("kernel.s"), SOURCE).unwrap();
    let id = format!("-Wl,--build-id=0x{}", "ab".repeat(20));
    let link = |text: u64, to: &str| {
        let mut cc = Command::new("cc");
        cc.args(["-nostdlib", "-static", "-no-pie", "-Wl,-e,_text", &id]);
        cc.arg(format!("-Wl,-Ttext={text:#x}"));
        let output = cc.arg(at("kernel.s")).arg("-o").arg(at(to)).output();
        let output = output.ok()?;
        assert!(output.status.success(), "{output:?}");
        Some(std::fs::read(at(to)).unwrap())
    };
    let Some(file) = link(LINKED, "vmlinux") else {
        eprintln!("skipped: no C compiler `cc`");
        return;
    };
    let kernel = LinkedKernel::of(&file, Some(&[0xab; 20])).unwrap();
    assert_eq!(kernel.start(), LINKED);
    let table = kernel.table(&file, &Limits::default()).unwrap();
    let all = table.functions().iter();
    let all: Vec<_> = all.map(|one| (one.name, one.start)).collect();
    assert!(all.contains(&("work", 0x40)), "{all:?}");
    // What is no build id stands for a release, which the file does not tell.
    assert_eq!(LinkedKernel::of(&file, Some(&[1; 8])), Ok(kernel));
    assert_eq!(LinkedKernel::of(&file, None), Ok(kernel));
    let refused = LinkedKernel::of(&file, Some(&[0xcd; 20]));
    assert_eq!(refused, Err(KernelFileError::OtherBuild));
    let program = link(0x40_0000, "program").unwrap();
    let refused = LinkedKernel::of(&program, None);
    assert_eq!(refused, Err(KernelFileError::NoStart), "it is no kernel");
}
