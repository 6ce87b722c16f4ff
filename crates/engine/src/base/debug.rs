//! `Debug` of types that show little of what they have.

/// Implements `Debug` by some values: `debug_by!(Run, self => path: self.file.path(), meta: self.meta);`.
macro_rules! debug_by {
    ($type:ty, $self:ident => $($name:ident: $value:expr),*) => {
        impl ::std::fmt::Debug for $type {
            fn fmt(&$self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let name = stringify!($type);
                f.debug_struct(name)$(.field(stringify!($name), &$value))*.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug_by;
