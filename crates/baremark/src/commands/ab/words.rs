//! A command line as words, as a POSIX shell reads them, without a shell.
//!
//! What a shell would expand or carry out is refused: passed on as it is, it would mean something else than it looks like.

/// The words of `text`.
///
/// # Errors
/// What cannot be read, and what would be right.
pub fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => quoted(&mut rest, word.get_or_insert_default())
                .ok_or_else(|| format!("'{text}': a quotation mark ' is not closed; close it"))?,
            '"' => double_quoted(text, &mut rest, word.get_or_insert_default())?,
            '\\' => match rest.next() {
                Some('\n') => {}
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(format!("'{text}': nothing follows the last \\; drop it")),
            },
            c if "|&;<>()$`*?".contains(c) || (word.is_none() && "~#".contains(c)) => return Err(unread(text, c)),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.is_empty() { Err("a command is empty; name a program".to_owned()) } else { Ok(words) }
}

fn unread(text: &str, c: char) -> String {
    format!("'{text}': '{c}' is for a shell; add --shell, or put it in quotation marks to pass it on")
}

fn quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match rest.next()? {
            '\'' => return Some(()),
            c => word.push(c),
        }
    }
}

fn double_quoted(text: &str, rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    let open = || format!("'{text}': a quotation mark \" is not closed; close it");
    loop {
        match rest.next().ok_or_else(open)? {
            '"' => return Ok(()),
            '\\' => match rest.next().ok_or_else(open)? {
                '\n' => {}
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c @ ('$' | '`') => return Err(unread(text, c)),
            c => word.push(c),
        }
    }
}

/// A word as a shell would have to read it.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:=@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_a_shell_reads_them() {
        let words = |text: &str| split(text).map(|words| words.join("|"));
        assert_eq!(words("gzip -1  -c data"), Ok("gzip|-1|-c|data".to_owned()));
        assert_eq!(words(r#"a 'b  c'"d e"\ f '' "\"\n""#), Ok(r#"a|b  cd e f||"\n"#.to_owned()));
        assert_eq!(words("awk '{print $1}' x{n}"), Ok("awk|{print $1}|x{n}".to_owned()));
        for text in ["a | b", "a > b", "a; b", "echo $HOME", "echo \"$HOME\"", "ls *.c", "ls ~", "a `b`", "a && b"] {
            let why = split(text).expect_err("a shell would not pass it on");
            assert!(why.contains("add --shell"), "{why}");
        }
        for text in ["", "  ", "a 'b", "a \"b", "a \\"] {
            split(text).expect_err("not a command");
        }
    }

    #[test]
    fn what_is_quoted_reads_back() {
        for word in ["plain", "two words", "it's", "", "$x", "a|b"] {
            assert_eq!(split(&quote(word)), Ok(vec![word.to_owned()]));
        }
    }
}
