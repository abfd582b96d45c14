//! Enums whose variants are codes on the wire and in the store.

/// A code that this build has no name for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("code {code} is no {kind}")]
pub struct UnknownCode {
    /// The enum.
    pub kind: &'static str,
    /// The code.
    pub code: u8,
}

/// Declares an enum with `code`, `from_code`, `name`, `from_name`, `ALL` and `Display`.
macro_rules! coded {
    (
        $(#[$meta:meta])*
        $kind:ident { $($(#[$vmeta:meta])* $variant:ident = $code:literal, $name:literal;)+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $kind { $($(#[$vmeta])* $variant = $code,)+ }

        impl $kind {
            /// Every variant, by code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Code on the wire and in the store.
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The variant of a code.
            pub const fn from_code(code: u8) -> Result<Self, $crate::code::UnknownCode> {
                match code {
                    $($code => Ok(Self::$variant),)+
                    _ => Err($crate::code::UnknownCode { kind: stringify!($kind), code }),
                }
            }

            /// Name as displayed, filtered by and stored.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The variant of a name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(self.name())
            }
        }
    };
}

pub(crate) use coded;
