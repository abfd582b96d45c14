//! `/proc/modules`: what is loaded, where, how large.

use crate::ModulesError;

/// One loaded kernel module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedModule {
    /// Name, without brackets, underscores for dashes.
    pub name: String,
    /// First kernel virtual address of its code.
    pub base: u64,
    /// Bytes of the module in memory.
    pub size: u64,
}

impl LoadedModule {
    /// First address behind the module.
    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.size)
    }
}

/// Reads the text of `/proc/modules`, in the order of addresses.
pub fn parse_modules(text: &[u8]) -> Result<Vec<LoadedModule>, ModulesError> {
    let mut modules = Vec::new();
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let module = std::str::from_utf8(line).ok().and_then(parse_line);
        modules.push(module.ok_or(ModulesError::Line { line: at + 1 })?);
    }
    if !modules.is_empty() && modules.iter().all(|module| module.base == 0) {
        return Err(ModulesError::Restricted {
            modules: modules.len(),
        });
    }
    modules.sort_by_key(|module| module.base);
    Ok(modules)
}

/// `name size uses by state address [taint]`
fn parse_line(line: &str) -> Option<LoadedModule> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next()?.to_owned();
    let size = words.next()?.parse().ok()?;
    let address = words.nth(3)?.strip_prefix("0x")?;
    Some(LoadedModule {
        name,
        base: u64::from_str_radix(address, 16).ok()?,
        size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_give_name_base_and_size_in_order_of_addresses() {
        let text = b"xfs 1970176 1 - Live 0xffffffffc0a00000\nnf_tables 372736 12 nft_ct,nft_chain_nat, Live 0xffffffffc0900000 (OE)\n";
        let modules = parse_modules(text).unwrap();
        assert_eq!(modules[0].name, "nf_tables");
        assert_eq!(
            (modules[1].base, modules[1].size),
            (0xffff_ffff_c0a0_0000, 1_970_176)
        );
        assert_eq!(modules[1].end(), 0xffff_ffff_c0be_1000);
    }

    #[test]
    fn hidden_addresses_are_named() {
        let text = b"xfs 1970176 1 - Live 0x0000000000000000\n";
        assert_eq!(
            parse_modules(text),
            Err(ModulesError::Restricted { modules: 1 })
        );
    }

    #[test]
    fn a_broken_line_is_named() {
        let text = b"a 1 1 - Live 0x10\nb 1 1\n";
        assert_eq!(parse_modules(text), Err(ModulesError::Line { line: 2 }));
    }

    #[test]
    fn a_kernel_without_modules_is_no_error() {
        assert_eq!(parse_modules(b""), Ok(vec![]));
    }
}
