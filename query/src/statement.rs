//! A statement and its bound values: nothing that a person typed ever becomes part of the text.

/// SQL with named parameters (`{p0:String}`) and their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statement {
    /// The text.
    pub sql: String,
    /// Names and values, as they are: whoever sends them escapes them.
    pub params: Vec<(String, String)>,
}

impl Statement {
    /// Binds texts; the answer is the list of placeholders to write between parentheses or brackets.
    pub(crate) fn texts(&mut self, values: &[String]) -> String {
        let places: Vec<String> = values
            .iter()
            .map(|value| self.bind("String", value))
            .collect();
        places.join(", ")
    }

    /// Binds a whole number; the answer is its placeholder.
    pub(crate) fn number(&mut self, value: u64) -> String {
        self.bind("UInt64", &value.to_string())
    }

    fn bind(&mut self, kind: &str, value: &str) -> String {
        let known = self.params.iter().position(|(_, known)| known == value);
        let at = known.unwrap_or(self.params.len());
        if known.is_none() {
            self.params.push((format!("p{at}"), value.to_owned()));
        }
        format!("{{p{at}:{kind}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_never_stand_in_the_text() {
        let mut statement = Statement::default();
        let hostile = ["a' OR 1=1 --".to_owned(), "{p0:String}".to_owned()];
        assert_eq!(statement.texts(&hostile), "{p0:String}, {p1:String}");
        assert_eq!(statement.params[0].1, hostile[0]);
        assert_eq!(statement.params[1].1, hostile[1]);
    }

    #[test]
    fn equal_values_share_one_parameter() {
        let mut statement = Statement::default();
        assert_eq!(statement.number(7), "{p0:UInt64}");
        assert_eq!(statement.number(8), "{p1:UInt64}");
        assert_eq!(statement.number(7), "{p0:UInt64}");
    }
}
