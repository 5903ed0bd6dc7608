//! Options of the command line, each `--name value`.

use std::collections::BTreeMap;

/// Options by name, of which those that were asked for are removed.
#[derive(Clone, Debug, Default)]
pub struct Arguments(BTreeMap<String, String>);

impl Arguments {
    /// Reads `--name value` pairs.
    ///
    /// # Errors
    /// A word that is none, or an option that is given twice.
    pub fn read(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let (mut words, mut options) = (words.into_iter(), BTreeMap::new());
        while let Some(word) = words.next() {
            let name =
                word.strip_prefix("--").ok_or_else(|| format!("'{word}' is not an option; write --name value"))?;
            let value = words.next().ok_or_else(|| format!("--{name} has no value; write one after it"))?;
            if options.insert(name.to_owned(), value).is_some() {
                return Err(format!("--{name} is given twice; write it once"));
            }
        }
        Ok(Arguments(options))
    }

    /// A whole number from `least` to `most`.
    ///
    /// # Errors
    /// A value that is none.
    pub fn number(&mut self, name: &str, default: u64, (least, most): (u64, u64)) -> Result<u64, String> {
        let Some(typed) = self.0.remove(name) else { return Ok(default) };
        let number = typed.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("--{name} {typed}: write a whole number from {least} to {most}"))
    }

    /// One of several words.
    ///
    /// # Errors
    /// Another word.
    pub fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<T, String> {
        let Some(typed) = self.0.remove(name) else { return Ok(words[0].1) };
        let found = words.iter().find(|(word, _)| *word == typed);
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        found.map(|(_, value)| *value).ok_or_else(|| format!("--{name} {typed}: write one of {}", all.join(", ")))
    }

    /// Refuses options that nothing asked for.
    ///
    /// # Errors
    /// The first of them.
    pub fn none_left(&self) -> Result<(), String> {
        match self.0.keys().next() {
            Some(name) => Err(format!("unknown option --{name}; `baremark-gpu help` lists them")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Arguments, String> {
        Arguments::read(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn what_is_typed_is_taken_or_refused() {
        let mut arguments = read(&["--frames", "12", "--device", "none", "--more", "1"]).expect("options");
        assert_eq!(arguments.number("frames", 5, (1, 100)), Ok(12));
        assert_eq!(arguments.number("epochs", 5, (1, 100)), Ok(5));
        assert_eq!(arguments.word("device", &[("vulkan", 1), ("none", 2)]), Ok(2));
        assert!(arguments.none_left().is_err_and(|why| why.contains("--more")));
        let mut few = read(&["--frames", "0"]).expect("an option");
        assert!(few.number("frames", 5, (1, 100)).is_err_and(|why| why.contains("from 1 to 100")));
        for (wrong, why) in
            [(vec!["12"], "not an option"), (vec!["--a"], "no value"), (vec!["--a", "1", "--a", "2"], "twice")]
        {
            assert!(read(&wrong).is_err_and(|said| said.contains(why)), "{wrong:?}");
        }
    }
}
