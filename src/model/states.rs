//! One macro for every closed set of names.

/// Declares an enum whose variants each have one public name, with `ALL`, `as_str` and `describe`.
///
/// A label value, a JSON word and a document row all come from here, so a name is written once.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $( $(#[doc = $text:literal])+ $variant:ident = $word:literal, )+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[doc = $text])+ $variant, )+ }

        impl $name {
            /// Every member, in the order in which it is shown.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The public name: a label value, a word in JSON.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// One sentence for people.
            #[must_use]
            pub fn describe(self) -> &'static str {
                match self { $(Self::$variant => concat!($($text),+).trim_ascii()),+ }
            }
        }
    };
}
