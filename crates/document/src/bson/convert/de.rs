//! From BSON to Rust values.

use serde::de::value::StringDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde::{Deserializer, forward_to_deserialize_any};

use super::super::view::{ArrayValues, Element, Elements, Value};
use super::error::ConvertError;
use super::types::{AS_IS, to_bytes};

type Converted<T> = Result<T, ConvertError>;

/// Reads a value.
#[derive(Clone, Copy)]
pub(super) struct ValueDeserializer<'b>(pub(super) Value<'b>);

/// The fields of a document, and the one whose value is next.
struct Fields<'b> {
    elements: Elements<'b>,
    next: Option<Element<'b>>,
}

/// The values of an array, and the position of the next.
struct Values<'b> {
    values: ArrayValues<'b>,
    position: usize,
}

/// A variant's name and its data.
struct Variant<'b> {
    name: String,
    data: Option<Value<'b>>,
}

impl<'de> Deserializer<'de> for ValueDeserializer<'_> {
    type Error = ConvertError;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        match self.0 {
            Value::Double(number) => visitor.visit_f64(number),
            Value::String(text) | Value::Symbol(text) | Value::Code(text) => visitor.visit_str(&text.to_str_lossy()),
            Value::Document(document) => visitor.visit_map(Fields { elements: document.elements(), next: None }),
            Value::Array(array) => visitor.visit_seq(Values { values: array.values(), position: 0 }),
            Value::Binary(_, bytes) => visitor.visit_bytes(bytes),
            Value::Undefined | Value::Null => visitor.visit_unit(),
            Value::ObjectId(id) => visitor.visit_string(id.to_string()),
            Value::Bool(is) => visitor.visit_bool(is),
            Value::DateTime(millis) => visitor.visit_i64(millis),
            Value::Int32(number) => visitor.visit_i32(number),
            Value::Int64(number) => visitor.visit_i64(number),
            Value::Decimal128(number) => visitor.visit_string(number.to_string()),
            other => visitor.visit_string(other.to_json()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        if self.0.is_nullish() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Converted<V::Value> {
        if name == AS_IS { visitor.visit_byte_buf(to_bytes(self.0)) } else { visitor.visit_newtype_struct(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Converted<V::Value> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(Variant { name: name.to_str_lossy().into_owned(), data: None }),
            Value::Document(document) => {
                let mut elements = document.elements();
                match (elements.next(), elements.next()) {
                    (Some(only), None) => {
                        let name = only.name.to_str_lossy().into_owned();
                        visitor.visit_enum(Variant { name, data: Some(only.value) })
                    }
                    _ => Err(ConvertError::new("an enum with data is a document of one field, the variant's name")),
                }
            }
            other => Err(ConvertError::invalid_type(
                Unexpected::Other(other.kind().name()),
                &"a string or a document of one field",
            )),
        }
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        self.whole(visitor)
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        self.whole(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        self.whole(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        self.whole(visitor)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        self.whole(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        self.whole(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        self.whole(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        self.whole(visitor)
    }

    forward_to_deserialize_any! {
        bool f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

impl ValueDeserializer<'_> {
    /// An integer, also from a number of another type that has its value.
    fn whole<'de, V: Visitor<'de>>(self, visitor: V) -> Converted<V::Value> {
        match self.0 {
            Value::Double(_) | Value::Decimal128(_) => match self.0.as_exact_i64() {
                Some(number) => visitor.visit_i64(number),
                None => Err(ConvertError::invalid_value(Unexpected::Other(&self.0.to_json()), &"an integer")),
            },
            _ => self.deserialize_any(visitor),
        }
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = ConvertError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Converted<Option<K::Value>> {
        self.next = self.elements.next();
        let Some(next) = &self.next else { return Ok(None) };
        let name: StringDeserializer<ConvertError> = next.name.to_str_lossy().into_owned().into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Converted<V::Value> {
        let next = self.next.take().ok_or_else(|| ConvertError::new("a value without a name"))?;
        seed.deserialize(ValueDeserializer(next.value)).map_err(|error| error.within(next.name))
    }
}

impl<'de> SeqAccess<'de> for Values<'_> {
    type Error = ConvertError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Converted<Option<T::Value>> {
        let Some(value) = self.values.next() else { return Ok(None) };
        let position = self.position;
        self.position += 1;
        seed.deserialize(ValueDeserializer(value)).map(Some).map_err(|error| error.within(position))
    }
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = ConvertError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Converted<(V::Value, Self)> {
        let name: StringDeserializer<ConvertError> = self.name.clone().into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = ConvertError;

    fn unit_variant(self) -> Converted<()> {
        match self.data {
            None => Ok(()),
            Some(data) => Deserialize::deserialize(ValueDeserializer(data)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Converted<T::Value> {
        let data = self.data.unwrap_or(Value::Null);
        seed.deserialize(ValueDeserializer(data)).map_err(|error| error.within(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Converted<V::Value> {
        ValueDeserializer(self.data.unwrap_or(Value::Null)).deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Converted<V::Value> {
        ValueDeserializer(self.data.unwrap_or(Value::Null)).deserialize_any(visitor)
    }
}
