//! Header compression for HTTP/2 (HPACK, RFC 7541): all of decoding, and the part of encoding that keeps no state.
//!
//! Requests are written with the static table and literals only, so that a request that is the same for all is encoded once
//! and sent on any connection; the first of those is taught to the other side's table and only named afterwards. Answers may
//! use everything; their size is bounded before and after decompression. A server repeats the head of its answers until a
//! second has passed: the same bytes are then known to say the same, and what they do to the table is made up for later.

use crate::failure::Failure;
use std::collections::VecDeque;
use std::sync::LazyLock;

/// The most bytes of all names and values of one head, decompressed.
const MOST_DECODED: usize = 64 << 10;
/// The dynamic table that answers may use, as no setting of ours says otherwise (RFC 9113, 6.5.2).
const TABLE_SIZE: usize = 4096;
/// That of the other side, likewise.
pub(crate) const USUAL_TABLE: u32 = 4096;
/// What an entry takes in addition to its text (RFC 7541, 4.1).
const ENTRY: usize = 32;

/// A name and its value.
type Entry = (Box<[u8]>, Box<[u8]>);

/// The decoder of one connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: VecDeque<Entry>,
    size: usize,
    most: usize,
    name: Vec<u8>,
    value: Vec<u8>,
    /// The block before, where the same bytes say the same again; else empty.
    before: Vec<u8>,
    /// Whether it adds to the table.
    adds: bool,
    /// How often it came again and its additions have not been made.
    owed: usize,
}

/// How a block deals with the table.
#[derive(Default)]
struct Dealings {
    adds: bool,
    uses: bool,
    resizes: bool,
}

/// The longest block that is remembered.
const LONGEST_REMEMBERED: usize = 1024;
/// After so many repetitions a table holds nothing else: each adds at least one entry.
const MOST_OWED: usize = TABLE_SIZE / ENTRY + 1;

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            table: VecDeque::new(),
            size: 0,
            most: TABLE_SIZE,
            name: Vec::new(),
            value: Vec::new(),
            before: Vec::new(),
            adds: false,
            owed: 0,
        }
    }
}

impl Decoder {
    /// Decodes a header block; each field goes to `each`.
    pub(crate) fn decode(&mut self, block: &[u8], each: impl FnMut(&[u8], &[u8])) -> Result<(), Failure> {
        self.make_up()?;
        self.before.clear();
        let dealings = self.fields(block, each)?;
        // What neither looks into the table, or leaves it as it found it, says the same when it comes next.
        let repeatable = !(dealings.resizes || (dealings.adds && dealings.uses));
        if repeatable && block.len() <= LONGEST_REMEMBERED {
            self.before.extend_from_slice(block);
            self.adds = dealings.adds;
        }
        Ok(())
    }

    /// Whether this block says what the one before it said; it is then done with.
    #[inline]
    pub(crate) fn repeats(&mut self, block: &[u8]) -> bool {
        let repeats = !self.before.is_empty() && self.before == block;
        if repeats && self.adds {
            self.owed = (self.owed + 1).min(MOST_OWED);
        }
        repeats
    }

    /// Brings the table to where the repetitions would have brought it.
    fn make_up(&mut self) -> Result<(), Failure> {
        if self.owed > 0 {
            let before = std::mem::take(&mut self.before);
            for _ in 0..std::mem::take(&mut self.owed) {
                self.fields(&before, |_, _| {})?;
            }
            self.before = before;
        }
        Ok(())
    }

    fn fields(&mut self, block: &[u8], mut each: impl FnMut(&[u8], &[u8])) -> Result<Dealings, Failure> {
        let (mut rest, mut decoded) = (block, 0);
        let mut dealings = Dealings::default();
        while let Some(&first) = rest.first() {
            if first & 0xe0 == 0x20 {
                let (size, after) = integer(rest, 5)?;
                if size > TABLE_SIZE {
                    return Err(Failure::Malformed);
                }
                self.most = size;
                self.shrink(size);
                dealings.resizes = true;
                rest = after;
                continue;
            }
            let (indexed, prefix) = match first {
                0x80.. => (true, 7),
                0x40..=0x7f => (false, 6),
                _ => (false, 4),
            };
            let (index, after) = integer(rest, prefix)?;
            rest = after;
            dealings.uses |= index > STATIC.len();
            let (mut name, mut value) = (std::mem::take(&mut self.name), std::mem::take(&mut self.value));
            name.clear();
            value.clear();
            if index > 0 {
                let (known_name, known_value) = self.entry(index).ok_or(Failure::Malformed)?;
                name.extend_from_slice(known_name);
                if indexed {
                    value.extend_from_slice(known_value);
                }
            } else if indexed {
                return Err(Failure::Malformed);
            } else {
                rest = text(rest, &mut name)?;
            }
            if !indexed {
                rest = text(rest, &mut value)?;
            }
            decoded += name.len() + value.len() + ENTRY;
            if decoded > MOST_DECODED {
                return Err(Failure::HeadTooLarge);
            }
            each(&name, &value);
            if first & 0xc0 == 0x40 {
                self.insert(&name, &value);
                dealings.adds = true;
            }
            (self.name, self.value) = (name, value);
        }
        Ok(dealings)
    }

    fn entry(&self, index: usize) -> Option<(&[u8], &[u8])> {
        match index.checked_sub(STATIC.len() + 1) {
            None => STATIC.get(index.checked_sub(1)?).map(|(name, value)| (name.as_bytes(), value.as_bytes())),
            Some(dynamic) => self.table.get(dynamic).map(|(name, value)| (&**name, &**value)),
        }
    }

    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY;
        // An entry larger than the table empties it and is not kept (RFC 7541, 4.4).
        self.shrink(self.most.saturating_sub(size));
        if size <= self.most {
            self.size += size;
            self.table.push_front((name.into(), value.into()));
        }
    }

    fn shrink(&mut self, to: usize) {
        while self.size > to {
            let Some((name, value)) = self.table.pop_back() else { return };
            self.size -= name.len() + value.len() + ENTRY;
        }
    }
}

/// An integer with a prefix of so many bits (RFC 7541, 5.1), and what follows it.
fn integer(input: &[u8], prefix: u8) -> Result<(usize, &[u8]), Failure> {
    let most = (1_usize << prefix) - 1;
    let first = usize::from(*input.first().ok_or(Failure::Malformed)?) & most;
    if first < most {
        return Ok((first, &input[1..]));
    }
    let mut value = first;
    for (index, &byte) in input[1..].iter().enumerate().take(4) {
        value += usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, &input[index + 2..]));
        }
    }
    Err(Failure::Malformed)
}

/// A text, plain or by Huffman's code (RFC 7541, 5.2), and what follows it.
fn text<'i>(input: &'i [u8], out: &mut Vec<u8>) -> Result<&'i [u8], Failure> {
    let huffman = *input.first().ok_or(Failure::Malformed)? & 0x80 != 0;
    let (length, rest) = integer(input, 7)?;
    let (coded, rest) = rest.split_at_checked(length).ok_or(Failure::Malformed)?;
    if out.len() + coded.len() > MOST_DECODED {
        return Err(Failure::HeadTooLarge);
    }
    if huffman {
        CODE.decode(coded, out)?;
    } else {
        out.extend_from_slice(coded);
    }
    Ok(rest)
}

/// Huffman's code of RFC 7541, appendix B. It is canonical: the lengths of its words say all.
struct Code {
    /// By the next byte: the symbol and the length of its word, 0 for words longer than a byte.
    short: [(u8, u8); 256],
    /// By length: the first word, and where its symbol is in `symbols`.
    first: [(u32, usize); 32],
    /// Symbols by length, then value; 256 ends the text.
    symbols: Vec<u16>,
    /// By symbol: its word.
    words: Vec<(u32, u8)>,
}

static CODE: LazyLock<Code> = LazyLock::new(Code::new);

impl Code {
    fn new() -> Code {
        let length = |symbol: u16| LENGTHS.get(usize::from(symbol)).copied().unwrap_or(30);
        let mut symbols: Vec<u16> = (0..=256).collect();
        symbols.sort_by_key(|&symbol| (length(symbol), symbol));
        let (mut word, mut before) = (0_u32, length(symbols[0]));
        let mut code =
            Code { short: [(0, 0); 256], first: [(u32::MAX, 0); 32], symbols: Vec::new(), words: vec![(0, 0); 257] };
        for (place, &symbol) in symbols.iter().enumerate() {
            let bits = length(symbol);
            word = if place == 0 { 0 } else { (word + 1) << (bits - before) };
            before = bits;
            if code.first[usize::from(bits)].0 == u32::MAX {
                code.first[usize::from(bits)] = (word, place);
            }
            code.words[usize::from(symbol)] = (word, bits);
            if let (true, Ok(byte)) = (bits <= 8, u8::try_from(symbol)) {
                let begin = (word << (8 - bits)) as usize;
                code.short[begin..begin + (1 << (8 - bits))].fill((byte, bits));
            }
        }
        code.symbols = symbols;
        code
    }

    fn decode(&self, coded: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        let (mut bits, mut count, mut input) = (0_u64, 0_u32, coded.iter());
        loop {
            while count <= 48 {
                let Some(byte) = input.next() else { break };
                bits = bits << 8 | u64::from(*byte);
                count += 8;
            }
            // What is left at the end is at most 7 ones (RFC 7541, 5.2); filled with ones it looks like a word's beginning.
            if count == 0 {
                return Ok(());
            }
            let top = if count >= 8 { bits >> (count - 8) } else { bits << (8 - count) | 0xff >> count };
            let (symbol, length) = self.short[(top & 0xff) as usize];
            if length > 0 && u32::from(length) <= count {
                out.push(symbol);
                count -= u32::from(length);
                continue;
            }
            if count < 8 && bits & ((1 << count) - 1) == (1 << count) - 1 {
                return Ok(());
            }
            let length = self.long(bits, count, out)?;
            count -= length;
        }
    }

    /// A word longer than a byte.
    fn long(&self, bits: u64, count: u32, out: &mut Vec<u8>) -> Result<u32, Failure> {
        for length in 9..=30.min(count) {
            let (first, place) = self.first[length as usize];
            #[expect(clippy::cast_possible_truncation, reason = "at most 30 bits")]
            let word = (bits >> (count - length) & ((1 << length) - 1)) as u32;
            if first == u32::MAX || word < first {
                continue;
            }
            let Some(&symbol) = self.symbols.get(place + (word - first) as usize) else { continue };
            if u32::from(self.words[usize::from(symbol)].1) != length {
                continue;
            }
            out.push(u8::try_from(symbol).or(Err(Failure::Malformed))?);
            return Ok(length);
        }
        Err(Failure::Malformed)
    }
}

/// Writes a field without leaving a trace in the other side's table (RFC 7541, 6.2.2), or as a whole from the static table.
pub(crate) fn encode(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match in_static(name, value) {
        Some(at) => put_integer(at, 7, 0x80, out),
        None => put_literal(name, value, (4, 0), out),
    }
}

/// The index of a whole field in the static table.
fn in_static(name: &[u8], value: &[u8]) -> Option<usize> {
    let found = STATIC.iter().position(|(known, text)| known.as_bytes() == name && text.as_bytes() == value);
    found.map(|at| at + 1)
}

/// A field with its value, its name from the static table where that has it; prefix and flags say what becomes of it.
fn put_literal(name: &[u8], value: &[u8], (prefix, flags): (u8, u8), out: &mut Vec<u8>) {
    match STATIC.iter().position(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name)) {
        Some(at) => put_integer(at + 1, prefix, flags, out),
        None => {
            out.push(flags);
            put_text(&name.to_ascii_lowercase(), out);
        }
    }
    put_text(value, out);
}

/// A header block that is sent again and again.
#[derive(Debug)]
pub(crate) struct Fixed {
    /// As it stands, on any connection at any time.
    pub(crate) plain: Vec<u8>,
    /// As it teaches its fields to a table that holds nothing, and as it names them afterwards, when nobody else has added any.
    pub(crate) taught: Option<(Vec<u8>, Vec<u8>)>,
}

impl Fixed {
    /// Of a block that leaves no trace.
    pub(crate) fn new(plain: Vec<u8>) -> Fixed {
        let mut fields = Vec::new();
        let sound = Decoder::default().decode(&plain, |name, value| fields.push((name.to_vec(), value.to_vec())));
        let taught = sound.ok().and_then(|()| teach(&fields));
        Fixed { plain, taught }
    }
}

/// A block that adds to the other side's table what is not in the static one, and one that names it there; `None` for more
/// than the table holds.
fn teach(fields: &[(Vec<u8>, Vec<u8>)]) -> Option<(Vec<u8>, Vec<u8>)> {
    let added = || fields.iter().filter(|(name, value)| in_static(name, value).is_none());
    if added().map(|(name, value)| name.len() + value.len() + ENTRY).sum::<usize>() > TABLE_SIZE {
        return None;
    }
    let (mut first, mut again) = (Vec::new(), Vec::new());
    // The entry added last is the first after the static table.
    let mut index = STATIC.len() + added().count();
    for (name, value) in fields {
        if let Some(at) = in_static(name, value) {
            put_integer(at, 7, 0x80, &mut first);
            put_integer(at, 7, 0x80, &mut again);
        } else {
            put_literal(name, value, (6, 0x40), &mut first);
            put_integer(index, 7, 0x80, &mut again);
            index -= 1;
        }
    }
    Some((first, again))
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    if bits.div_ceil(8) >= text.len() {
        put_integer(text.len(), 7, 0, out);
        return out.extend_from_slice(text);
    }
    put_integer(bits.div_ceil(8), 7, 0x80, out);
    let (mut word, mut count) = (0_u64, 0);
    for byte in text {
        let (code, length) = CODE.words[usize::from(*byte)];
        word = word << length | u64::from(code);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((word >> count & 0xff) as u8);
        }
    }
    if count > 0 {
        out.push((word << (8 - count) & 0xff) as u8 | 0xff >> count);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "masked to a byte")]
fn put_integer(value: usize, prefix: u8, flags: u8, out: &mut Vec<u8>) {
    let most = (1_usize << prefix) - 1;
    if value < most {
        return out.push(flags | (value & 0xff) as u8);
    }
    out.push(flags | (most & 0xff) as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push((rest & 0x7f) as u8);
}

/// The lengths of the words of Huffman's code by symbol (RFC 7541, appendix B).
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// RFC 7541, appendix A.
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""), ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""), ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""), ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(decoder: &mut Decoder, hex: &str) -> Result<Vec<String>, Failure> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let block: Vec<u8> = digits
            .chunks(2)
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).expect("ASCII"), 16).expect("hex"))
            .collect();
        let mut fields = Vec::new();
        decoder.decode(&block, |name, value| {
            fields.push(format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
        })?;
        Ok(fields)
    }

    /// RFC 7541, appendix C.6: three answers with Huffman's code on one connection. The table there holds 256 bytes, here
    /// 4,096, which changes no field but where the second answer would find what was evicted.
    #[test]
    fn the_examples_of_the_rfc_are_decoded() {
        let mut decoder = Decoder::default();
        let first = decoded(
            &mut decoder,
            "3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 \
             63c7 8f0b 97c8 e9ae 82ae 43d3",
        );
        let date = "date: Mon, 21 Oct 2013 20:13:21 GMT";
        let same = ["cache-control: private", date, "location: https://www.example.com"];
        let of = |status: &str| [&[status][..], &same].concat().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(first, Ok(of(":status: 302")));
        assert_eq!(decoder.size, 222);
        assert_eq!(decoded(&mut decoder, "4883 640e ff c1 c0 bf"), Ok(of(":status: 307")));
        let third = decoded(
            &mut decoder,
            "88 c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c0 5a83 9bd9 ab 77ad 94e7 821d d7f2 e6c7 b335 \
             dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        );
        let third = third.expect("the third");
        assert_eq!(third[0], ":status: 200");
        assert_eq!(third[4], "content-encoding: gzip");
        assert_eq!(third[5], "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
    }

    #[test]
    fn what_breaks_the_rules_is_malformed() {
        for hex in ["80", "ff00", "bf", "40", "4001", "3fe21f", "00 81ff", "ff ff ff ff ff ff", "0084 ffffffff 00"] {
            assert_eq!(decoded(&mut Decoder::default(), hex), Err(Failure::Malformed), "{hex}");
        }
        // A short block that decompresses to much: one long entry, named again and again.
        let mut bomb = vec![0x40, 1, b'a'];
        put_text(&[b'!'; 3900], &mut bomb);
        bomb.extend([0xbe; 40]);
        assert_eq!(Decoder::default().decode(&bomb, |_, _| {}), Err(Failure::HeadTooLarge));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_encoded_is_decoded(
            fields in proptest::collection::vec(("[a-z-]{0,20}", proptest::collection::vec(any::<u8>(), 0..60)), 0..20),
        ) {
            let mut block = Vec::new();
            fields.iter().for_each(|(name, value)| encode(name.as_bytes(), value, &mut block));
            let mut found = Vec::new();
            let mut decoder = Decoder::default();
            decoder.decode(&block, |name, value| {
                found.push((String::from_utf8_lossy(name).into_owned(), value.to_vec()));
            }).expect("as encoded");
            prop_assert_eq!(found, fields);
            prop_assert_eq!(decoder.size, 0, "no trace is left");
        }

        /// A block that is taught says the same as it stands, as it teaches and as it names, however often.
        #[test]
        fn what_is_taught_is_named(
            fields in proptest::collection::vec(("[a-z-]{1,20}", proptest::collection::vec(any::<u8>(), 0..60)), 0..20),
        ) {
            let mut block = Vec::new();
            fields.iter().for_each(|(name, value)| encode(name.as_bytes(), value, &mut block));
            let fixed = Fixed::new(block);
            let (first, again) = fixed.taught.expect("it fits");
            let mut decoder = Decoder::default();
            for block in [&first, &again, &fixed.plain, &again] {
                let mut found = Vec::new();
                decoder.decode(block, |name, value| {
                    found.push((String::from_utf8_lossy(name).into_owned(), value.to_vec()));
                }).expect("as encoded");
                prop_assert_eq!(&found, &fields);
            }
            prop_assert!(again.len() <= 2 * fields.len());
        }

        /// Blocks that come again are passed over, and the table is the same as if all had been decoded.
        #[test]
        fn repetitions_change_the_table_as_decoding_does(
            blocks in proptest::collection::vec(proptest::collection::vec(
                prop_oneof![Just(0x88_u8), Just(0xbe), Just(0xbf), Just(0x61), Just(0x62), Just(0x3f)], 0..4), 1..4),
            order in proptest::collection::vec((0..4_usize, 1..200_usize), 1..20),
        ) {
            // Indices stand for themselves; the others begin a literal that is added, or a change of the table's size.
            let blocks: Vec<Vec<u8>> = blocks.iter().map(|kinds| kinds.iter().flat_map(|kind| match kind {
                0x61 => vec![0x61, 3, b'a', b'b', b'c'],
                0x62 => [&[0x62, 0x7f, 0x41][..], &[b'x'; 192]].concat(),
                0x3f => vec![0x3f, 0x61],
                index => vec![*index],
            }).collect()).collect();
            let (mut quick, mut slow) = (Decoder::default(), Decoder::default());
            for (at, times) in order {
                let block = &blocks[at % blocks.len()];
                for _ in 0..times {
                    let outcome = if quick.repeats(block) { Ok(()) } else { quick.decode(block, |_, _| {}) };
                    let expected = slow.decode(block, |_, _| {});
                    prop_assert_eq!(outcome, expected);
                    if expected.is_err() {
                        return Ok(());
                    }
                }
            }
            quick.make_up().expect("decoded before");
            prop_assert_eq!((&quick.table, quick.size), (&slow.table, slow.size));
        }

        #[test]
        fn strange_blocks_never_panic(block in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = Decoder::default();
            let _ = decoder.decode(&block, |_, _| {});
            prop_assert!(decoder.size <= TABLE_SIZE);
        }
    }
}
