//! Bytes of code as instructions, in the syntax of objdump.

use iced_x86::{Decoder, DecoderOptions, Formatter as _, GasFormatter};
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::InstDecoder;

/// Bytes passed over where nothing can be decoded on machines whose instructions differ in length.
const STEP: usize = 1;

/// What the code is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// x86 with 32 or 64 bits.
    X86 {
        /// Bits of its addresses.
        bits: u32,
    },
    /// 64-bit Arm.
    Aarch64,
    /// Another, by its number in ELF headers.
    Other(u16),
}

impl Machine {
    /// By its number in ELF headers.
    pub fn of_number(number: u16) -> Self {
        match number {
            3 => Self::X86 { bits: 32 },
            62 => Self::X86 { bits: 64 },
            183 => Self::Aarch64,
            other => Self::Other(other),
        }
    }
}

/// The code of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// What it is for.
    pub machine: Machine,
    /// Address of the first byte, as samples have it.
    pub start: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Its address.
    pub address: u64,
    /// Its bytes' number.
    pub len: u64,
    /// As objdump writes it; `(bad)` for what is none.
    pub text: String,
}

/// All instructions of a function; empty for machines whose code cannot be read here.
pub fn disassemble(code: &Code) -> Vec<Instruction> {
    match code.machine {
        Machine::X86 { bits } => x86(code, bits),
        Machine::Aarch64 => aarch64(code),
        Machine::Other(_) => Vec::new(),
    }
}

fn x86(code: &Code, bits: u32) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(bits, &code.bytes, code.start, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_branch_leading_zeros(false);
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(false);
    options.set_rip_relative_addresses(true);
    options.set_small_hex_numbers_in_decimal(false);
    let mut all = Vec::new();
    while decoder.can_decode() {
        let (at, address) = (decoder.position(), decoder.ip());
        let mut decoded = decoder.decode();
        let mut text = String::new();
        if decoded.is_invalid() {
            text.push_str("(bad)");
            // Whatever was taken for it, the next byte may begin one.
            if decoder.set_position(at + STEP).is_err() {
                break;
            }
            decoder.set_ip(address.wrapping_add(STEP as u64));
            decoded.set_len(STEP);
        } else {
            formatter.format(&decoded, &mut text);
        }
        all.push(Instruction {
            address,
            len: decoded.len() as u64,
            text,
        });
    }
    all
}

fn aarch64(code: &Code) -> Vec<Instruction> {
    let decoder = InstDecoder::default();
    let words = code.bytes.chunks_exact(4).zip((0..).step_by(4));
    let instruction = |(word, offset): (&[u8], u64)| {
        let decoded = decoder.decode(&mut U8Reader::new(word));
        Instruction {
            address: code.start + offset,
            len: 4,
            text: decoded.map_or_else(|_| "(bad)".to_owned(), |decoded| decoded.to_string()),
        }
    };
    words.map(instruction).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(machine: Machine, bytes: &[u8], expected: &[(u64, &str)]) {
        let code = Code {
            machine,
            start: 0x1000,
            bytes: bytes.to_vec(),
        };
        let all = disassemble(&code);
        let texts: Vec<_> = all.iter().map(|i| (i.address, i.text.as_str())).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn instructions_of_x86_read_as_objdump_writes_them() {
        check(
            Machine::X86 { bits: 64 },
            &[0x48, 0x8b, 0x04, 0xcf, 0x75, 0xfa, 0xc3],
            &[
                (0x1000, "mov (%rdi,%rcx,8),%rax"),
                (0x1004, "jne 0x1000"),
                (0x1006, "ret"),
            ],
        );
    }

    #[test]
    fn instructions_of_arm_have_four_bytes() {
        check(
            Machine::Aarch64,
            &[0x20, 0x00, 0x40, 0xf9, 0xc0, 0x03, 0x5f, 0xd6, 0x00],
            &[(0x1000, "ldr x0, [x1]"), (0x1004, "ret")],
        );
    }

    #[test]
    fn what_is_no_instruction_does_not_end_the_rest() {
        check(
            Machine::X86 { bits: 64 },
            &[0x06, 0x90, 0x0f],
            &[(0x1000, "(bad)"), (0x1001, "nop"), (0x1002, "(bad)")],
        );
        check(Machine::Other(243), &[0; 8], &[]);
    }

    #[test]
    fn machines_have_numbers() {
        assert_eq!(Machine::of_number(62), Machine::X86 { bits: 64 });
        assert_eq!(Machine::of_number(183), Machine::Aarch64);
        assert_eq!(Machine::of_number(22), Machine::Other(22));
    }
}
