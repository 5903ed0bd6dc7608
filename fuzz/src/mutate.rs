//! Bytes that are nearly right: seeds with a few small changes, from a number alone, so that any case can be had again.

/// Words of study files and of frames, and characters that end or begin something in either.
const WORDS: &[&str] = &[
    "[study]",
    "[workload]",
    "[factors]",
    "[design]",
    "[report]",
    "[[",
    "title",
    "kind",
    "environment",
    "page",
    "host_backing",
    "ranks",
    "ratio_to",
    "precision",
    "delta",
    "budget",
    "least_blocks",
    "most_blocks",
    "seed",
    "metric",
    "rows",
    "columns",
    "table",
    "stream",
    "lookahead",
    "\"native\"",
    "\"microvm\"",
    "\"null\"",
    "\"4k\"",
    "\"2m\"",
    "\"1 GiB\"",
    "\"0.0001 %\"",
    "\"1 h\"",
    "= ",
    "{ ",
    " }",
    "[",
    "]",
    "\"",
    "'",
    "\"\"\"",
    ",",
    ".",
    "\n",
    "\r\n",
    "#",
    "0x",
    "-1",
    "1e400",
    "nan",
    "18446744073709551615",
    "18446744073709551616",
    "true",
    "null",
    "\u{feff}",
    "\u{e9}",
    "\\u0000",
    "{\"type\":\"",
    "hello",
    "run_trial",
    "phase",
    "trial_done",
    "failed",
    "goodbye",
    "\"value\":",
    ":",
    "-0.0",
    "4.9e-324",
];

/// SplitMix64 (Steele, Lea and Flood 2014): small, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, or 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.number() % (n.max(1) as u64)).unwrap_or(0)
    }
}

/// Case `case` of the series `seed`: one of `corpus` changed in one to eight places, or now and then plain noise.
#[must_use]
pub fn case(corpus: &[Vec<u8>], seed: u64, case: u64) -> Vec<u8> {
    let mut random = Random(seed ^ case.wrapping_mul(0xd134_2543_de82_ef95));
    random.number();
    if corpus.is_empty() || random.below(32) == 0 {
        return (0..random.below(200)).map(|_| random.number().to_le_bytes()[0]).collect();
    }
    let mut data = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(8) {
        change(&mut data, corpus, &mut random);
    }
    data
}

/// Makes the first length in `data` right again, so that a changed frame is still a frame.
pub fn mend_length(data: &mut [u8]) {
    if let Some((header, body)) = data.split_at_mut_checked(4) {
        header.copy_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    }
}

fn change(data: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(data.len() + 1);
    let end = (at + random.below(24)).min(data.len());
    match random.below(7) {
        0 => drop(data.drain(at..end)),
        1 => {
            let copy = data[at..end].to_vec();
            let to = random.below(data.len() + 1);
            data.splice(to..to, copy);
        }
        2 if at < data.len() => data[at] ^= 1 << random.below(8),
        3 if at < data.len() => data[at] = random.number().to_le_bytes()[0],
        4 => data.truncate(at),
        5 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len());
            let to = (from + random.below(64)).min(other.len());
            data.splice(at..end, other[from..to].iter().copied());
        }
        _ => drop(data.splice(at..end.min(at + 4), WORDS[random.below(WORDS.len())].bytes())),
    }
}
