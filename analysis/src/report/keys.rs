//! What rows are grouped by.

use memwide_decoder::local::Wanted;

macro_rules! keys {
    ($($variant:ident = $name:literal;)+) => {
        /// A sort key, by its name on the command line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Key { $(#[doc = concat!("`", $name, "`, as in perf.")] $variant,)+ }

        impl Key {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Name on the command line, in JSON and CSV.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

keys! {
    Symbol = "symbol";
    Mem = "mem";
    Dso = "dso";
    Comm = "comm";
    Pid = "pid";
    Tid = "tid";
    Cpu = "cpu";
    Node = "node";
    SymbolDaddr = "symbol_daddr";
    DsoDaddr = "dso_daddr";
    Member = "member";
    Snoop = "snoop";
    Tlb = "tlb";
    Locked = "locked";
    Blocked = "blocked";
    Dcacheline = "dcacheline";
    LocalWeight = "local_weight";
    Event = "event";
    Context = "context";
    Op = "op";
    Level = "level";
    Outcome = "outcome";
    Locality = "locality";
    Region = "region";
    Srcline = "srcline";
    Srcfile = "srcfile";
}

/// A key nobody knows, or not yet.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not a key.
    #[error("`{name}` is no sort key; there are {}", key_names())]
    Unknown {
        /// As given.
        name: String,
    },
}

fn key_names() -> String {
    let names: Vec<&str> = Key::ALL.iter().map(|key| key.name()).collect();
    names.join(", ")
}

impl Key {
    /// From their names; perf's short ones are taken too. A key given twice counts once.
    pub fn parse_all(names: &[String]) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for name in names
            .iter()
            .map(|name| name.trim())
            .filter(|name| !name.is_empty())
        {
            let known = match name {
                "sym" => "symbol",
                "weight" => "local_weight",
                name => name,
            };
            let key = Self::ALL.iter().find(|key| key.name() == known);
            let key = *key.ok_or_else(|| KeyError::Unknown {
                name: name.to_owned(),
            })?;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// What it asks of samples beyond their fields.
    pub fn wanted(self) -> Wanted {
        match self {
            Self::Symbol | Self::Dso => Wanted::CODE,
            Self::Srcline | Self::Srcfile => Wanted::CODE | Wanted::LINES,
            Self::Comm => Wanted::COMM,
            Self::SymbolDaddr | Self::DsoDaddr => Wanted::DATA,
            Self::Dcacheline | Self::Region => Wanted::DATA | Wanted::DERIVED,
            Self::Member => Wanted::DATA | Wanted::DERIVED | Wanted::MEMBERS,
            Self::Op | Self::Level | Self::Outcome | Self::Locality => Wanted::DERIVED,
            Self::Context => Wanted::CODE | Wanted::FRAMES | Wanted::DERIVED,
            Self::Mem
            | Self::Pid
            | Self::Tid
            | Self::Cpu
            | Self::Node
            | Self::Snoop
            | Self::Tlb
            | Self::Locked
            | Self::Blocked
            | Self::LocalWeight
            | Self::Event => Wanted::NOTHING,
        }
    }

    /// Whether a letter for kernel or user stands before its text.
    pub fn has_mode(self) -> bool {
        matches!(self, Self::Symbol | Self::SymbolDaddr | Self::Dcacheline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_name_and_once_each() {
        let keys = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            Key::parse_all(&names)
        };
        assert_eq!(
            keys(&["sym", " mem", "symbol", ""]),
            Ok(vec![Key::Symbol, Key::Mem])
        );
        assert_eq!(keys(&["srcline"]), Ok(vec![Key::Srcline]));
        let wrong = keys(&["cost"]).unwrap_err().to_string();
        assert!(
            wrong.contains("`cost`") && wrong.contains("symbol_daddr"),
            "{wrong}"
        );
        for key in Key::ALL {
            assert_eq!(keys(&[key.name()]), Ok(vec![*key]));
        }
    }
}
