//! Values that go into and come out of a database.

use super::Fault;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Value::Null, Value::Int)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::Text(value)
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Value::Bytes(value.to_vec())
    }
}

/// One row of an answer; columns are taken from the left.
#[derive(Debug)]
pub(crate) struct Row(std::vec::IntoIter<Value>);

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Row(values.into_iter())
    }

    fn next(&mut self) -> Result<Value, Fault> {
        self.0.next().ok_or_else(|| Fault::Unexpected("a row with fewer columns than asked for".to_owned()))
    }

    /// The next column, a number.
    pub(crate) fn int(&mut self) -> Result<i64, Fault> {
        self.maybe_int()?.ok_or_else(|| Fault::Unexpected("NULL where a number belongs".to_owned()))
    }

    /// The next column, a number or NULL.
    pub(crate) fn maybe_int(&mut self) -> Result<Option<i64>, Fault> {
        match self.next()? {
            Value::Int(value) => Ok(Some(value)),
            Value::Null => Ok(None),
            other => Err(Fault::Unexpected(format!("{other:?} where a number belongs"))),
        }
    }

    /// The next column, text.
    pub(crate) fn text(&mut self) -> Result<String, Fault> {
        self.maybe_text()?.ok_or_else(|| Fault::Unexpected("NULL where text belongs".to_owned()))
    }

    /// The next column, text or NULL.
    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, Fault> {
        match self.next()? {
            Value::Text(value) => Ok(Some(value)),
            Value::Null => Ok(None),
            Value::Bytes(value) => String::from_utf8(value).map(Some).map_err(|why| Fault::Unexpected(why.to_string())),
            Value::Int(value) => Ok(Some(value.to_string())),
        }
    }

    /// The next column, bytes.
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Fault> {
        match self.next()? {
            Value::Bytes(value) => Ok(value),
            Value::Text(value) => Ok(value.into_bytes()),
            other => Err(Fault::Unexpected(format!("{other:?} where bytes belong"))),
        }
    }
}
