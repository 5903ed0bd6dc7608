//! The kernel's own description of its types (BTF, Documentation/bpf/btf.rst), read for the offsets of fields.
//!
//! Programs read fields of the kernel's structures, whose places differ from kernel to kernel. They are looked up here when a program
//! is made, as a compiler's relocations would be. Only what that needs is kept: structures and enumerations by name.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Where the running kernel describes its types.
pub const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
const KIND_INT: u32 = 1;
const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_FUNC_PROTO: u32 = 13;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;
const KIND_DECL_TAG: u32 = 17;
const KIND_ENUM64: u32 = 19;
/// Structures in structures without a name of their own; real ones are two or three deep.
const MOST_DEPTH: u32 = 16;

/// Why a description cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {source}; the kernel needs CONFIG_DEBUG_INFO_BTF=y")]
    Read {
        /// Which file.
        path: String,
        /// What the system gave.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("type description is damaged: {0}")]
    Damaged(&'static str),
    /// The kernel has no such structure or field.
    #[error("this kernel has no field {0}")]
    NoField(String),
    /// The kernel has no such constant.
    #[error("this kernel has no constant {0}")]
    NoConstant(String),
}

/// One member of a structure.
#[derive(Clone, Copy, Debug)]
struct Member {
    name: u32,
    kind: u32,
    offset: u32,
    /// Whether it is some bits of a word.
    bits: bool,
}

/// Members of a structure or union: a range of all members.
type Members = std::ops::Range<usize>;

/// The types of a kernel.
#[derive(Debug, Default)]
pub struct Btf {
    strings: Vec<u8>,
    members: Vec<Member>,
    /// By type number.
    layouts: HashMap<u32, Members>,
    /// Structures with a name; the first of each name.
    structures: HashMap<Vec<u8>, u32>,
    /// Enumerators: offset of the name and value, in order.
    constants: Vec<(u32, u64)>,
    /// Enumerations with a name: their enumerators.
    enumerations: HashMap<Vec<u8>, std::ops::Range<usize>>,
}

/// A reader of little-endian words.
struct Words<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Words<'_> {
    fn word(&mut self) -> Result<u32, BtfError> {
        let word = self.bytes.get(self.at..self.at + 4).and_then(|bytes| bytes.try_into().ok());
        self.at += 4;
        word.map(u32::from_le_bytes).ok_or(BtfError::Damaged("it ends in the middle of a type"))
    }

    fn skip(&mut self, words: usize) -> Result<(), BtfError> {
        self.at = self.at.saturating_add(words.saturating_mul(4));
        if self.at > self.bytes.len() { Err(BtfError::Damaged("it ends in the middle of a type")) } else { Ok(()) }
    }
}

impl Btf {
    /// The running kernel's types.
    ///
    /// # Errors
    /// Where the kernel does not describe its types, or not as we know it.
    pub fn of_kernel() -> Result<Self, BtfError> {
        let read = fs::read(Path::new(KERNEL));
        let bytes = read.map_err(|source| BtfError::Read { path: KERNEL.to_owned(), source })?;
        Btf::parse(&bytes)
    }

    /// Reads a description.
    ///
    /// # Errors
    /// Where it is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Self, BtfError> {
        let mut header = Words { bytes, at: 0 };
        let magic = header.word()?;
        if magic & 0xffff != u32::from(MAGIC) {
            return Err(BtfError::Damaged("it does not begin with the mark of this byte order"));
        }
        let length = header.word()? as usize;
        let (types_at, types_bytes) = (header.word()? as usize, header.word()? as usize);
        let (strings_at, strings_bytes) = (header.word()? as usize, header.word()? as usize);
        let part = |at: usize, size: usize| {
            let from = length.checked_add(at)?;
            bytes.get(from..from.checked_add(size)?)
        };
        let outside = BtfError::Damaged("a section lies outside of it");
        let (Some(types), Some(strings)) = (part(types_at, types_bytes), part(strings_at, strings_bytes)) else {
            return Err(outside);
        };
        let mut btf = Btf { strings: strings.to_vec(), ..Btf::default() };
        let mut words = Words { bytes: types, at: 0 };
        let mut number = 1;
        while words.at < types.len() {
            btf.one(number, &mut words)?;
            number += 1;
        }
        Ok(btf)
    }

    /// Reads one type.
    fn one(&mut self, number: u32, words: &mut Words<'_>) -> Result<(), BtfError> {
        let (name, info, _size_or_type) = (words.word()?, words.word()?, words.word()?);
        let (kind, flag, count) = (info >> 24 & 0x1f, info >> 31 == 1, (info & 0xffff) as usize);
        match kind {
            KIND_STRUCT | KIND_UNION => {
                let from = self.members.len();
                for _ in 0..count {
                    let (name, kind, offset) = (words.word()?, words.word()?, words.word()?);
                    let (offset, bits) = if flag { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
                    let bits = bits != 0 || !offset.is_multiple_of(8);
                    self.members.push(Member { name, kind, offset: offset / 8, bits });
                }
                self.layouts.insert(number, from..self.members.len());
                let name = self.text(name).to_vec();
                if kind == KIND_STRUCT && !name.is_empty() {
                    self.structures.entry(name).or_insert(number);
                }
                Ok(())
            }
            KIND_ENUM | KIND_ENUM64 => {
                let from = self.constants.len();
                for _ in 0..count {
                    let (name, low) = (words.word()?, u64::from(words.word()?));
                    let high = if kind == KIND_ENUM64 { u64::from(words.word()?) << 32 } else { 0 };
                    self.constants.push((name, low | high));
                }
                let name = self.text(name).to_vec();
                if !name.is_empty() {
                    self.enumerations.entry(name).or_insert(from..self.constants.len());
                }
                Ok(())
            }
            KIND_INT | KIND_VAR | KIND_DECL_TAG => words.skip(1),
            KIND_ARRAY => words.skip(3),
            KIND_FUNC_PROTO => words.skip(2 * count),
            KIND_DATASEC => words.skip(3 * count),
            2 | 7..=12 | 16 | 18 => Ok(()),
            _ => Err(BtfError::Damaged("it has a kind of type that is not known")),
        }
    }

    fn text(&self, at: u32) -> &[u8] {
        let rest = self.strings.get(at as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Bytes from the beginning of a structure to its field, also to one in a part without a name.
    ///
    /// # Errors
    /// Where this kernel has no such structure or field, or the field is some bits of a word.
    pub fn offset(&self, structure: &str, field: &str) -> Result<u32, BtfError> {
        let none = || BtfError::NoField(format!("{structure}.{field}"));
        let number = self.structures.get(structure.as_bytes()).ok_or_else(none)?;
        self.offset_in(*number, field.as_bytes(), MOST_DEPTH).ok_or_else(none)
    }

    /// As [`Btf::offset`], as an instruction takes it.
    ///
    /// # Errors
    /// As [`Btf::offset`].
    pub fn place(&self, structure: &str, field: &str) -> Result<i32, BtfError> {
        let too_far = |_: std::num::TryFromIntError| BtfError::NoField(format!("{structure}.{field} within 2 GiB"));
        self.offset(structure, field).and_then(|offset| i32::try_from(offset).map_err(too_far))
    }

    fn offset_in(&self, number: u32, field: &[u8], depth: u32) -> Option<u32> {
        let members = self.members.get(self.layouts.get(&number)?.clone())?;
        let direct = members.iter().find(|member| !member.bits && self.text(member.name) == field);
        if let Some(member) = direct {
            return Some(member.offset);
        }
        let inner = |member: &Member| {
            let below = self.offset_in(member.kind, field, depth.checked_sub(1)?)?;
            below.checked_add(member.offset)
        };
        members.iter().filter(|member| self.text(member.name).is_empty()).find_map(inner)
    }

    /// The value of an enumerator.
    ///
    /// # Errors
    /// Where this kernel has none of that name.
    pub fn constant(&self, name: &str) -> Result<u64, BtfError> {
        let found = self.constants.iter().find(|(at, _)| self.text(*at) == name.as_bytes());
        found.map(|(_, value)| *value).ok_or_else(|| BtfError::NoConstant(name.to_owned()))
    }

    /// Names and values of an enumeration, in its order; none where this kernel has no such enumeration.
    pub fn enumeration<'b>(&'b self, name: &str) -> impl Iterator<Item = (String, u64)> + 'b {
        let range = self.enumerations.get(name.as_bytes()).cloned().unwrap_or_default();
        let named = |&(at, value): &(u32, u64)| (String::from_utf8_lossy(self.text(at)).into_owned(), value);
        self.constants[range].iter().map(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `struct s { int a; union { int b; struct { long c; }; }; }`, `enum e { X = 7, Y = 8 }`.
    fn small() -> Vec<u8> {
        let strings = b"\0s\0a\0b\0c\0e\0X\0Y\0";
        let words: &[u32] = &[
            0,
            KIND_INT << 24,
            4,
            32, // 1
            9,
            KIND_ENUM << 24 | 2,
            4,
            11,
            7,
            13,
            8, // 2
            0,
            KIND_STRUCT << 24 | 1,
            8,
            7,
            1,
            0, // 3: struct { c }
            0,
            KIND_UNION << 24 | 2,
            8,
            5,
            1,
            0,
            0,
            3,
            64, // 4: union { b, struct at byte 8 }
            1,
            KIND_STRUCT << 24 | 2,
            16,
            3,
            1,
            32,
            0,
            4,
            64, // 5: s { a at byte 4, union at byte 8 }
        ];
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let size = |bytes: usize| u32::try_from(bytes).expect("small");
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, size(types.len()), size(types.len()), size(strings.len())];
        header.iter().flat_map(|word| word.to_le_bytes()).chain(types).chain(*strings).collect()
    }

    #[test]
    fn fields_are_found_also_in_parts_without_a_name() {
        let btf = Btf::parse(&small()).expect("sound");
        assert_eq!(btf.offset("s", "a").expect("there"), 4);
        assert_eq!(btf.offset("s", "b").expect("there"), 8);
        assert_eq!(btf.offset("s", "c").expect("there"), 16);
        assert_eq!(btf.offset("s", "d").expect_err("not there").to_string(), "this kernel has no field s.d");
        assert_eq!(btf.constant("Y").expect("there"), 8);
        assert_eq!(btf.constant("Z").expect_err("not there").to_string(), "this kernel has no constant Z");
        let all: Vec<_> = btf.enumeration("e").collect();
        assert_eq!(all, [("X".to_owned(), 7), ("Y".to_owned(), 8)]);
        assert_eq!(btf.enumeration("f").count(), 0);
    }

    #[test]
    fn a_cut_description_is_refused() {
        let whole = small();
        for length in 0..whole.len() {
            assert!(Btf::parse(&whole[..length]).is_err(), "{length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_are_too_odd(position in 0_usize..200, byte: u8, rest in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut bytes = small();
            let position = position % bytes.len();
            bytes[position] = byte;
            if let Ok(btf) = Btf::parse(&bytes) {
                drop((btf.offset("s", "c"), btf.constant("X"), btf.enumeration("e").count()));
            }
            bytes.truncate(24);
            bytes.extend(rest);
            drop(Btf::parse(&bytes));
        }
    }
}
