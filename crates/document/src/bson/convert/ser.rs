//! From Rust values to BSON.

use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};
use serde::{Serialize, Serializer};

use super::super::buf::ValueBuf;
use super::super::builder::DocumentBuilder;
use super::super::view::Value;
use super::error::ConvertError;
use super::types::{AS_IS, from_bytes};

type Converted<T> = Result<T, ConvertError>;

/// Makes a value.
#[derive(Clone, Copy)]
pub(super) struct ValueSerializer;

/// Makes the values of an array; with a name, of the only field of a document.
pub(super) struct Sequence {
    values: Vec<ValueBuf>,
    variant: Option<&'static str>,
}

/// Makes the fields of a document; with a name, of a document that is the only field of another.
pub(super) struct Fields {
    builder: DocumentBuilder,
    name: Option<String>,
    variant: Option<&'static str>,
}

impl Fields {
    fn new(variant: Option<&'static str>) -> Self {
        Self { builder: DocumentBuilder::new(), name: None, variant }
    }

    fn append<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Converted<()> {
        if name.contains('\0') {
            return Err(ConvertError::new("a name of a field has no zero"));
        }
        let value = value.serialize(ValueSerializer).map_err(|error| error.within(name))?;
        self.builder.append(name, value.view());
        Ok(())
    }

    fn finish(self) -> ValueBuf {
        under(self.variant, self.builder.finish().into())
    }
}

impl Sequence {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Converted<()> {
        let position = self.values.len();
        self.values.push(value.serialize(ValueSerializer).map_err(|error| error.within(position))?);
        Ok(())
    }

    fn finish(self) -> ValueBuf {
        under(self.variant, ValueBuf::array(self.values.iter().map(ValueBuf::view)))
    }
}

/// The value, or a document of a variant's name and it.
fn under(variant: Option<&str>, value: ValueBuf) -> ValueBuf {
    let Some(name) = variant else { return value };
    let mut builder = DocumentBuilder::new();
    builder.append(name, value.view());
    builder.finish().into()
}

macro_rules! scalars {
    ($($method:ident $from:ty => $to:ident;)*) => {
        $(fn $method(self, value: $from) -> Converted<ValueBuf> {
            Ok(Value::$to(value.into()).into())
        })*
    };
}

impl Serializer for ValueSerializer {
    type Ok = ValueBuf;
    type Error = ConvertError;
    type SerializeSeq = Sequence;
    type SerializeTuple = Sequence;
    type SerializeTupleStruct = Sequence;
    type SerializeTupleVariant = Sequence;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    scalars! {
        serialize_bool bool => Bool;
        serialize_i8 i8 => Int32;
        serialize_i16 i16 => Int32;
        serialize_i32 i32 => Int32;
        serialize_i64 i64 => Int64;
        serialize_u8 u8 => Int32;
        serialize_u16 u16 => Int32;
        serialize_u32 u32 => Int64;
        serialize_f32 f32 => Double;
        serialize_f64 f64 => Double;
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_u64(self, value: u64) -> Converted<ValueBuf> {
        let value = i64::try_from(value).map_err(|_| ConvertError::new(format!("{value} does not fit an int64")))?;
        Ok(Value::Int64(value).into())
    }

    fn serialize_char(self, value: char) -> Converted<ValueBuf> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Converted<ValueBuf> {
        Ok(Value::from(value).into())
    }

    fn serialize_bytes(self, value: &[u8]) -> Converted<ValueBuf> {
        Ok(Value::Binary(0, value).into())
    }

    fn serialize_none(self) -> Converted<ValueBuf> {
        Ok(Value::Null.into())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Converted<ValueBuf> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Converted<ValueBuf> {
        Ok(Value::Null.into())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Converted<ValueBuf> {
        Ok(Value::Null.into())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Converted<ValueBuf> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Converted<ValueBuf> {
        let converted = value.serialize(self)?;
        if name != AS_IS {
            return Ok(converted);
        }
        // The value came as a binary value of its type and bytes.
        let Value::Binary(_, bytes) = converted.view() else {
            return Err(ConvertError::custom("a value has no bytes"));
        };
        from_bytes(bytes).ok_or_else(|| ConvertError::custom("a value has no type"))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Converted<ValueBuf> {
        Ok(under(Some(variant), value.serialize(self).map_err(|error| error.within(variant))?))
    }

    fn serialize_seq(self, len: Option<usize>) -> Converted<Sequence> {
        // A length that is announced is not believed beyond reason.
        Ok(Sequence { values: Vec::with_capacity(len.unwrap_or(0).min(1024)), variant: None })
    }

    fn serialize_tuple(self, len: usize) -> Converted<Sequence> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Converted<Sequence> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Converted<Sequence> {
        Ok(Sequence { values: Vec::new(), variant: Some(variant) })
    }

    fn serialize_map(self, _: Option<usize>) -> Converted<Fields> {
        Ok(Fields::new(None))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Converted<Fields> {
        Ok(Fields::new(None))
    }

    fn serialize_struct_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Converted<Fields> {
        Ok(Fields::new(Some(variant)))
    }
}

macro_rules! sequences {
    ($($kind:ident $method:ident;)*) => {
        $(impl $kind for Sequence {
            type Ok = ValueBuf;
            type Error = ConvertError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Converted<()> {
                self.push(value)
            }

            fn end(self) -> Converted<ValueBuf> {
                Ok(self.finish())
            }
        })*
    };
}

sequences! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! structs {
    ($($kind:ident)*) => {
        $(impl $kind for Fields {
            type Ok = ValueBuf;
            type Error = ConvertError;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Converted<()> {
                self.append(name, value)
            }

            fn end(self) -> Converted<ValueBuf> {
                Ok(self.finish())
            }
        })*
    };
}

structs! { SerializeStruct SerializeStructVariant }

impl SerializeMap for Fields {
    type Ok = ValueBuf;
    type Error = ConvertError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Converted<()> {
        let key = key.serialize(ValueSerializer)?;
        self.name = Some(match key.view() {
            Value::String(text) => text.to_str_lossy().into_owned(),
            Value::Int32(number) => number.to_string(),
            Value::Int64(number) => number.to_string(),
            Value::Bool(is) => is.to_string(),
            Value::ObjectId(id) => id.to_string(),
            other => {
                let what = format!("a key of a map is text, a number or a boolean, not {}", other.kind().name());
                return Err(ConvertError::new(what));
            }
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Converted<()> {
        let name = self.name.take().unwrap_or_default();
        self.append(&name, value)
    }

    fn end(self) -> Converted<ValueBuf> {
        Ok(self.finish())
    }
}
