//! The header of a GGUF file: its shape, and the size of its tensors.

use crate::model::shape::{Attention, Latent, Layers, Mixer, Mlp, ModelFiles, Shape};
use crate::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

/// The most of a file that is read. Headers with a vocabulary of 262,144 words have about 15 MiB.
const MAX_READ: u64 = 128 * 1024 * 1024;
/// The most entries of a header; real ones have 30 to 80.
const MAX_ENTRIES: u64 = 4096;
/// The longest name of an entry or a tensor; the format itself says 65,535 and 64.
const MAX_NAME: u64 = 1024;
/// The longest text that is kept; longer ones (templates) are passed over.
const MAX_TEXT: u64 = 256;
/// The longest array that is looked into; one for each layer.
const MAX_ARRAY: u64 = 4096;
/// The least that a tensor takes in a header: length of its name, dimensions, type, offset.
const MIN_TENSOR: u64 = 8 + 4 + 4 + 8;
/// The least that an entry takes: length of its name, type, one byte.
const MIN_ENTRY: u64 = 8 + 4 + 1;
/// More than any vocabulary.
const MAX_VOCAB: u64 = 1 << 26;
/// Wider than any layer.
const MAX_WIDTH: u64 = 1 << 24;
/// More than any model has heads or experts.
const MAX_MANY: u64 = 1 << 16;
/// Where the data begins unless the header says otherwise.
const ALIGNMENT: u64 = 32;

/// Types of tensors: their number in a file, how many numbers a block has, and its bytes.
const TYPES: &[(u32, u64, u64, &str)] = &[
    (0, 1, 4, "F32"),
    (1, 1, 2, "F16"),
    (2, 32, 18, "Q4_0"),
    (3, 32, 20, "Q4_1"),
    (6, 32, 22, "Q5_0"),
    (7, 32, 24, "Q5_1"),
    (8, 32, 34, "Q8_0"),
    (9, 32, 36, "Q8_1"),
    (10, 256, 84, "Q2_K"),
    (11, 256, 110, "Q3_K"),
    (12, 256, 144, "Q4_K"),
    (13, 256, 176, "Q5_K"),
    (14, 256, 210, "Q6_K"),
    (15, 256, 292, "Q8_K"),
    (16, 256, 66, "IQ2_XXS"),
    (17, 256, 74, "IQ2_XS"),
    (18, 256, 98, "IQ3_XXS"),
    (19, 256, 50, "IQ1_S"),
    (20, 32, 18, "IQ4_NL"),
    (21, 256, 110, "IQ3_S"),
    (22, 256, 82, "IQ2_S"),
    (23, 256, 136, "IQ4_XS"),
    (24, 1, 1, "I8"),
    (25, 1, 2, "I16"),
    (26, 1, 4, "I32"),
    (27, 1, 8, "I64"),
    (28, 1, 8, "F64"),
    (29, 256, 56, "IQ1_M"),
    (30, 1, 2, "BF16"),
    (34, 256, 54, "TQ1_0"),
    (35, 256, 66, "TQ2_0"),
    (39, 32, 17, "MXFP4"),
];

/// What an entry holds, as far as it matters.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Number(u64),
    Text(String),
    /// An array: how long it is, and the largest of its numbers.
    Array(u64, Option<u64>),
    Other,
}

/// What a header tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    entries: BTreeMap<String, Entry>,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Numbers in all tensors.
    pub parameters: u64,
    /// What is concluded from the names of tensors.
    seen: BTreeSet<Seen>,
    /// Bytes by type.
    types: BTreeMap<&'static str, u64>,
}

/// What the names of tensors tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// A head beside the embedding.
    Head,
    /// Queries are normalised.
    QkNorm,
    /// Projections have biases.
    Bias,
    /// MLPs have gates.
    Gate,
}

/// A file that is read from its beginning, with what is left of it.
struct Input<R> {
    file: R,
    at: u64,
    /// The end of the file, or of what is read of it at most.
    end: u64,
    length: u64,
}

impl<R: Read> Input<R> {
    fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// Holds a length that the file claims against what is left.
    fn claim(&self, bytes: u64, what: &str) -> Result<(), String> {
        if bytes <= self.left() {
            return Ok(());
        }
        let why = if self.length > self.end && bytes <= self.length - self.at {
            format!("only {MAX_READ} bytes of a header are read")
        } else {
            "it is cut short, or no GGUF file".to_owned()
        };
        Err(format!(
            "{what} at byte {} takes {bytes} bytes and {} are left: {why}",
            self.at,
            self.left()
        ))
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], String> {
        self.claim(N as u64, what)?;
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(|e| format!("{what} cannot be read: {e}"))?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn u32(&mut self, what: &str) -> Result<u32, String> {
        self.bytes(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64, String> {
        self.bytes(what).map(u64::from_le_bytes)
    }

    fn skip(&mut self, bytes: u64, what: &str) -> Result<(), String> {
        self.claim(bytes, what)?;
        if bytes == 0 {
            return Ok(());
        }
        let passed = io::copy(&mut self.file.by_ref().take(bytes), &mut io::sink());
        match passed {
            Ok(passed) if passed == bytes => {
                self.at += bytes;
                Ok(())
            }
            _ => Err(format!("{what} at byte {} cannot be read", self.at)),
        }
    }

    /// Text; `None` when it is longer than is kept.
    fn text(&mut self, most: u64, what: &str) -> Result<Option<String>, String> {
        let length = self.u64(what)?;
        self.claim(length, what)?;
        if length > most {
            self.skip(length, what)?;
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = self.file.by_ref().take(length).read_to_end(&mut bytes);
        if read.map_err(|e| format!("{what} cannot be read: {e}"))? as u64 != length {
            return Err(format!("{what} at byte {} is cut short", self.at));
        }
        self.at += length;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn name(&mut self, what: &str) -> Result<String, String> {
        let at = self.at;
        let name = self.text(MAX_NAME, what)?;
        let name =
            name.ok_or_else(|| format!("{what} at byte {at} has more than {MAX_NAME} bytes"))?;
        // It is told in messages, and a terminal would obey it.
        if name.chars().any(char::is_control) {
            return Err(format!("{what} at byte {at} has control characters in it"));
        }
        Ok(name)
    }

    /// A value of one of the format's types.
    fn value(&mut self, kind: u32, key: &str) -> Result<Entry, String> {
        let number = |number: i128| u64::try_from(number).map_or(Entry::Other, Entry::Number);
        Ok(match kind {
            0 => number(i128::from(u8::from_le_bytes(self.bytes(key)?))),
            1 => number(i128::from(i8::from_le_bytes(self.bytes(key)?))),
            2 => number(i128::from(u16::from_le_bytes(self.bytes(key)?))),
            3 => number(i128::from(i16::from_le_bytes(self.bytes(key)?))),
            4 => number(i128::from(self.u32(key)?)),
            5 => number(i128::from(i32::from_le_bytes(self.bytes(key)?))),
            10 => number(i128::from(self.u64(key)?)),
            11 => number(i128::from(i64::from_le_bytes(self.bytes(key)?))),
            6 | 7 | 12 => {
                self.skip(width(kind).unwrap_or(1), key)?;
                Entry::Other
            }
            8 => self.text(MAX_TEXT, key)?.map_or(Entry::Other, Entry::Text),
            9 => self.array(key)?,
            other => return Err(format!("{key:?} is of the type {other}; expected 0 to 12")),
        })
    }

    fn array(&mut self, key: &str) -> Result<Entry, String> {
        let kind = self.u32(key)?;
        let count = self.u64(key)?;
        if let (Some(width), true) = (width(kind), count > MAX_ARRAY) {
            let bytes = count.saturating_mul(width);
            self.skip(bytes, key)?;
            return Ok(Entry::Array(count, None));
        }
        if kind == 9 {
            return Err(format!("{key:?} is an array of arrays, which no model has"));
        }
        // A text takes at least the 8 bytes of its length.
        self.claim(count.saturating_mul(width(kind).unwrap_or(8)), key)?;
        let mut largest = None;
        for _ in 0..count {
            if kind == 8 {
                let length = self.u64(key)?;
                self.skip(length, key)?;
            } else if let Entry::Number(number) = self.value(kind, key)? {
                largest = largest.max(Some(number));
            }
        }
        Ok(Entry::Array(count, largest))
    }
}

/// The bytes of a type of fixed size.
const fn width(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Reads a header. `length` is that of the whole file.
///
/// # Errors
/// What was expected and what was found.
pub fn parse(file: impl Read, length: u64) -> Result<Header, String> {
    let mut input = Input { file, at: 0, end: length.min(MAX_READ), length };
    let magic: [u8; 4] = input.bytes("the mark of a GGUF file")?;
    if &magic != b"GGUF" {
        return Err("does not begin with GGUF".to_owned());
    }
    let version = input.u32("the version")?;
    if !(2..=3).contains(&version) {
        return Err(format!("is GGUF of version {version}; expected 2 or 3"));
    }
    let tensors = input.u64("the number of tensors")?;
    let entries = input.u64("the number of entries")?;
    let room = |claimed: u64, each: u64, what: &str, left: u64| {
        let most = left / each;
        if claimed > most {
            return Err(format!("claims {claimed} {what}; there is room for {most} at most"));
        }
        Ok(())
    };
    room(tensors, MIN_TENSOR, "tensors", input.left())?;
    room(entries, MIN_ENTRY, "entries", input.left())?;
    if entries > MAX_ENTRIES {
        return Err(format!("claims {entries} entries; expected at most {MAX_ENTRIES}"));
    }
    let mut header = Header::default();
    for _ in 0..entries {
        let key = input.name("the name of an entry")?;
        let kind = input.u32(&key)?;
        let value = input.value(kind, &key)?;
        header.entries.insert(key, value);
    }
    let mut end = 0;
    for _ in 0..tensors {
        end = end.max(header.tensor(&mut input)?);
    }
    header.holds(input.at, end, length)?;
    Ok(header)
}

impl Header {
    /// Takes one tensor in, and says where it ends.
    fn tensor<R: Read>(&mut self, input: &mut Input<R>) -> Result<u64, String> {
        let name = input.name("the name of a tensor")?;
        let dimensions = input.u32(&name)?;
        if dimensions > 8 {
            return Err(format!("tensor {name:?} has {dimensions} dimensions; expected at most 8"));
        }
        let mut numbers: u64 = 1;
        for _ in 0..dimensions {
            let size = input.u64(&name)?;
            numbers = numbers
                .checked_mul(size)
                .ok_or_else(|| format!("tensor {name:?} has more numbers than can be counted"))?;
        }
        let kind = input.u32(&name)?;
        let offset = input.u64(&name)?;
        let Some((_, block, bytes, word)) = TYPES.iter().find(|(number, ..)| *number == kind)
        else {
            return Err(format!("tensor {name:?} is of the type {kind}, which is not known"));
        };
        let counted = (|| {
            let size = numbers.div_ceil(*block).checked_mul(*bytes)?;
            self.parameters = self.parameters.checked_add(numbers)?;
            self.bytes = self.bytes.checked_add(size)?;
            *self.types.entry(word).or_default() += size;
            offset.checked_add(size)
        })();
        self.seen.extend(
            [
                (Seen::Head, name == "output.weight"),
                (Seen::QkNorm, name.ends_with("attn_q_norm.weight")),
                (Seen::Bias, name.ends_with("attn_q.bias")),
                (Seen::Gate, name.contains("ffn_gate") && !name.contains("ffn_gate_inp")),
            ]
            .into_iter()
            .filter_map(|(seen, there)| there.then_some(seen)),
        );
        counted.ok_or_else(|| format!("tensor {name:?} has more bytes than can be counted"))
    }

    /// Whether the file is as long as its tensors.
    fn holds(&self, at: u64, end: u64, length: u64) -> Result<(), String> {
        let alignment = self.number("general.alignment").unwrap_or(ALIGNMENT);
        if !(1..=65_536).contains(&alignment) {
            return Err(format!("general.alignment: expected 1 to 65536, found {alignment}"));
        }
        let data = length.saturating_sub(at.next_multiple_of(alignment).min(length));
        if end > data || self.bytes > data {
            let most = end.max(self.bytes);
            return Err(format!("tells {most} bytes of tensors and has {data}: it is cut short"));
        }
        Ok(())
    }

    /// Takes the tensors of another part in.
    pub fn add(&mut self, part: &Self) {
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.parameters = self.parameters.saturating_add(part.parameters);
        self.seen.extend(&part.seen);
        for (word, bytes) in &part.types {
            *self.types.entry(word).or_default() += bytes;
        }
    }

    fn number(&self, key: &str) -> Option<u64> {
        match self.entries.get(key)? {
            Entry::Number(number) | Entry::Array(_, Some(number)) => Some(*number),
            _ => None,
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.entries.get(key)? {
            Entry::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The model of it.
    ///
    /// # Errors
    /// Which entry is missing or not to be used.
    pub fn model(&self) -> Result<ModelFiles, String> {
        let kind =
            self.text("general.architecture").ok_or("expected the entry general.architecture")?;
        let key = |name: &str| format!("{kind}.{name}");
        let maybe = |name: &str, most: u64| match self.number(&key(name)) {
            Some(number) if number > most => {
                Err(format!("{}: expected at most {most}, found {number}", key(name)))
            }
            other => Ok(other),
        };
        let need = |name: &str, most: u64| match maybe(name, most)? {
            Some(0) | None => Err(format!("expected the entry {} with 1 or more", key(name))),
            Some(number) => Ok(number),
        };
        if self.entries.keys().any(|name| name.starts_with(&key("ssm."))) {
            return Err(format!(
                "{kind} has layers with a state, of which GGUF does not tell enough: give a name of the table or the directory with config.json"
            ));
        }
        let hidden = need("embedding_length", MAX_WIDTH)?;
        let depth = need("block_count", 4096)?;
        let vocab = self.vocab(&key("vocab_size"))?;
        let mixer = self.mixer(&need, &maybe, hidden)?;
        let mlp = self.mlp(&need, &maybe)?;
        let name = self.text("general.name").unwrap_or(kind).to_owned();
        let stored = self.types.iter().max_by_key(|(_, bytes)| **bytes);
        let stored = stored.map_or("nothing", |(word, _)| word).to_owned();
        Ok(ModelFiles {
            shape: Shape {
                name,
                hidden,
                vocab,
                tied: !self.seen.contains(&Seen::Head),
                dropout: false,
                layers: layers(
                    mixer,
                    mlp,
                    depth,
                    maybe("leading_dense_block_count", depth)?,
                    &need,
                )?,
                parameters: Some(self.parameters),
            },
            weights: Some(Bytes(self.bytes)),
            largest: None,
            quantised: !matches!(stored.as_str(), "F32" | "F16" | "BF16"),
            stored,
            serves_only: true,
            notes: self.notes(kind),
        })
    }

    /// How many words there are, by its entry or by their list.
    fn vocab(&self, key: &str) -> Result<u64, String> {
        let words = match self.entries.get("tokenizer.ggml.tokens") {
            Some(Entry::Array(count, _)) => Some(*count),
            _ => None,
        };
        let vocab = self.number(key).or(words).filter(|vocab| (1..=MAX_VOCAB).contains(vocab));
        vocab.ok_or_else(|| {
            format!("expected {key} or tokenizer.ggml.tokens with 1 to {MAX_VOCAB} words")
        })
    }

    fn notes(&self, kind: &str) -> Vec<String> {
        let window = format!("{kind}.attention.sliding_window");
        match self.number(&window) {
            Some(window) if window > 0 => vec![format!(
                "some layers look back {window} tokens; GGUF does not tell which, so all are counted as if they saw everything"
            )],
            _ => Vec::new(),
        }
    }

    fn mixer(&self, need: &Number<'_>, maybe: &Maybe<'_>, hidden: u64) -> Result<Mixer, String> {
        let heads = need("attention.head_count", MAX_MANY)?;
        if let Some(kv_rank) = maybe("attention.kv_lora_rank", MAX_WIDTH)? {
            let rope = need("rope.dimension_count", MAX_WIDTH)?;
            let key = maybe("attention.key_length_mla", MAX_WIDTH)?
                .unwrap_or(need("attention.key_length", MAX_WIDTH)?);
            let value = maybe("attention.value_length_mla", MAX_WIDTH)?
                .unwrap_or(need("attention.value_length", MAX_WIDTH)?);
            let q_rank = maybe("attention.q_lora_rank", MAX_WIDTH)?.filter(|rank| *rank > 0);
            let nope = key.saturating_sub(rope);
            return Ok(Mixer::Latent(Latent { heads, q_rank, kv_rank, rope, nope, value }));
        }
        Ok(Mixer::Attention(Attention {
            heads,
            kv_heads: maybe("attention.head_count_kv", MAX_MANY)?.unwrap_or(heads),
            head_dim: maybe("attention.key_length", MAX_WIDTH)?.unwrap_or(hidden / heads),
            gated: false,
            qk_norm: self.seen.contains(&Seen::QkNorm),
            bias: self.seen.contains(&Seen::Bias),
            window: None,
        }))
    }

    fn mlp(&self, need: &Number<'_>, maybe: &Maybe<'_>) -> Result<Mlp, String> {
        let gated = self.seen.contains(&Seen::Gate);
        let Some(count) = maybe("expert_count", MAX_MANY)?.filter(|count| *count > 0) else {
            return Ok(Mlp::Dense { ffn: need("feed_forward_length", MAX_WIDTH)?, gated });
        };
        let ffn = match maybe("expert_feed_forward_length", MAX_WIDTH)? {
            Some(ffn) => ffn,
            None => need("feed_forward_length", MAX_WIDTH)?,
        };
        let shared = match maybe("expert_shared_feed_forward_length", MAX_WIDTH)? {
            Some(shared) => shared,
            None => ffn * maybe("expert_shared_count", MAX_MANY)?.unwrap_or(0),
        };
        Ok(Mlp::Experts { count, active: need("expert_used_count", MAX_MANY)?, ffn, shared, gated })
    }
}

type Number<'a> = dyn Fn(&str, u64) -> Result<u64, String> + 'a;
type Maybe<'a> = dyn Fn(&str, u64) -> Result<Option<u64>, String> + 'a;

fn layers(
    mixer: Mixer,
    mlp: Mlp,
    depth: u64,
    dense: Option<u64>,
    need: &Number<'_>,
) -> Result<Vec<Layers>, String> {
    let dense = dense.unwrap_or(0).min(depth);
    let mut out = vec![Layers { count: depth - dense, mixer, mlp }];
    if dense > 0 {
        let gated =
            matches!(mlp, Mlp::Experts { gated: true, .. } | Mlp::Dense { gated: true, .. });
        let mlp = Mlp::Dense { ffn: need("feed_forward_length", MAX_WIDTH)?, gated };
        out.push(Layers { count: dense, mixer, mlp });
    }
    out.retain(|layers| layers.count > 0);
    Ok(out)
}
