//! A value that is never shown.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Shown instead of a secret.
const SHOWN: &str = "<secret>";

/// A password or token: read like a string, shown as `<secret>`.
///
/// The default is *not set*, which is the same as empty; a secret has no default value.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// A secret with this value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for the one place that sends it.
    pub fn expose(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0.as_str())
    }

    /// Whether `said` is it; it never is where none is set. How long that takes does not depend on how much is right.
    pub fn is(&self, said: &str) -> bool {
        let (own, said) = (self.0.as_bytes(), said.as_bytes());
        let differ = own
            .iter()
            .zip(said)
            .fold(0, |all, (own, said)| all | (own ^ said));
        !own.is_empty() && own.len() == said.len() && differ == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expose().map_or("<not set>", |_| SHOWN))
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose().map_or("", |_| SHOWN))
    }
}
