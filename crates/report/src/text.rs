//! Text in columns: display width, wrapping, padding, colour, and the removal of what a terminal would obey.

use std::borrow::Cow;

/// Whether escape sequences may be written. Whoever prints decides: this crate does not look at the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// Plain text, as for a pipe.
    Never,
    /// Bold, dim and colours.
    Always,
}

/// What the place can show to which text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// Whether to colour.
    pub color: Color,
    /// Whether characters beyond ASCII can be shown.
    pub unicode: bool,
}

impl Default for Style {
    /// As for a pipe: 80 columns, no colour.
    fn default() -> Self {
        Style { width: 80, color: Color::Never, unicode: true }
    }
}

/// What a piece of text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Strong,
    Faint,
    Good,
    Caution,
}

impl Style {
    /// `text` in the colour of its purpose. Applied to whole lines or padded cells, after widths are settled.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Plain => return text.to_owned(),
            Paint::Strong => "1",
            Paint::Faint => "2",
            Paint::Good => "32",
            Paint::Caution => "33",
        };
        if self.color == Color::Never || text.trim().is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// `text` in ASCII where nothing else can be shown. What has no ASCII form stands as `?`.
    #[must_use]
    pub fn plain(&self, text: &str) -> String {
        if self.unicode {
            return text.to_owned();
        }
        text.chars().fold(String::new(), |mut out, c| {
            match c {
                '±' => out.push_str("+-"),
                '–' | '·' => out.push('-'),
                '…' => out.push_str("..."),
                '×' => out.push('x'),
                c if c.is_ascii() => out.push(c),
                _ => out.push('?'),
            }
            out
        })
    }
}

/// `text` without control characters: what others wrote (titles, reasons, flags) must not move a cursor.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_bidi(c) { ' ' } else { c }).collect()
}

/// `text` as it may go to a terminal: control characters that others wrote are shown, as `\u{1b}`, and not obeyed. Lines,
/// tabs and the colours of [`Style`] stay.
#[must_use]
pub fn printable(text: &str, color: Color) -> Cow<'_, str> {
    let plain = |c: char| matches!(c, '\n' | '\t') || !(c.is_control() || is_bidi(c));
    if text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let own = COLORS.iter().find(|own| color == Color::Always && rest.starts_with(**own));
        let kept = match own {
            Some(own) => own.len(),
            None if rest.starts_with("\r\n") => 2,
            None if plain(c) => c.len_utf8(),
            None => 0,
        };
        out.push_str(&rest[..kept]);
        if kept == 0 {
            out.extend(c.escape_unicode());
        }
        rest = &rest[kept.max(c.len_utf8())..];
    }
    Cow::Owned(out)
}

/// `text` as a part of a line: a name that others chose, such as that of a process, with every control character shown, those that end
/// or indent a line included.
#[must_use]
pub fn one_line(text: &str) -> String {
    let ends = |c: char| matches!(c, '\u{2028}' | '\u{2029}');
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c.is_control() || is_bidi(c) || ends(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
        out
    })
}

/// Every sequence that [`Style::paint`] writes.
const COLORS: [&str; 5] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m"];

/// Characters that reorder what stands around them.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Columns that `text` takes (an approximation of UAX #11: wide and combining characters; no emoji sequences).
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(c: char) -> usize {
    match u32::from(c) {
        0x20..0x300 => 1,
        0x300..=0x36f | 0x200b..=0x200f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f => 2,
        0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Whether `text` takes more than `columns`, of which no more than that is looked at: others' titles are long.
fn is_wider(text: &str, columns: usize) -> bool {
    let mut taken = 0;
    text.chars().any(|c| {
        taken += self::columns(c);
        taken > columns
    })
}

/// `text` filled up to `columns` on the right.
pub(crate) fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// `text` filled up to `columns` on the left.
pub(crate) fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// `text` cut to `columns`, with `…` where something was lost.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut taken = 0;
    let kept: String = text
        .chars()
        .take_while(|&c| {
            taken += self::columns(c);
            taken < columns
        })
        .collect();
    format!("{}…", kept.trim_end())
}

/// `says` alongside `head`, in lines that fit the style; those that follow begin where the first does, but for a command that fits only
/// where it begins further left, below the head.
#[must_use]
pub fn beside(head: &str, says: &str, style: &Style) -> String {
    let (head, says) = (style.plain(head), style.plain(says));
    let column = width(&head);
    let room = style.width.saturating_sub(column).max(16);
    let mut text = String::new();
    for (at, line) in wrap(&says, room).iter().enumerate() {
        let fits = width(line) <= room;
        let indent = if fits { column } else { column.min(style.width.saturating_sub(width(line))) };
        let before = " ".repeat(indent);
        let lines = match (at, fits) {
            (0, true) => vec![format!("{head}{line}")],
            (0, false) => vec![head.clone(), format!("{before}{line}")],
            _ => vec![format!("{before}{line}")],
        };
        let shown = lines.iter().map(|line| line.trim_end()).filter(|line| fits || !line.is_empty());
        shown.for_each(|line| text.extend([line, "\n"]));
    }
    text
}

/// `text` broken at spaces into lines of at most `columns`; a word that is longer is broken where it must be. A number
/// stays with its `%` and its `±`. A command is never broken, so that it can be copied: one that is longer has a line of its own, which is longer.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for Word { text, is_command } in words(text) {
        if !line.is_empty() && width(&line) + 1 + width(&text) <= columns {
            line.push(' ');
            line.push_str(&text);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        let mut rest = text.as_str();
        while !is_command && is_wider(rest, columns) && rest.chars().nth(1).is_some() {
            let (head, tail) = rest.split_at(break_at(rest, columns));
            lines.push(head.trim_end().to_owned());
            rest = tail;
        }
        rest.clone_into(&mut line);
    }
    lines.push(line);
    lines
}

/// What stands on one line.
struct Word {
    text: String,
    is_command: bool,
}

/// Words, where a unit or sign that must not begin a line clings to the word before it, and those of a command to each other.
fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let all: Vec<&str> = text.split_whitespace().collect();
    let mut of_command = 0_usize;
    for (at, word) in all.iter().enumerate() {
        let unit = word.starts_with('%') || *word == "±" || words.last().is_some_and(|last| last.text.ends_with('±'));
        match words.last_mut() {
            Some(last) if of_command > 0 || unit => {
                last.text.push(' ');
                last.text.push_str(word);
                of_command = of_command.saturating_sub(1);
            }
            _ => {
                of_command = rest_of_command(&all, at);
                words.push(Word { text: (*word).to_owned(), is_command: of_command > 0 });
            }
        }
    }
    words
}

/// How many words after that at `at` belong to the command that begins with it: what stands between backticks, or what begins with this
/// program's name, at the text's begin or after a colon, up to the end of the sentence or to what may be written instead of its
/// last word; options that may be written instead of each other are part of it.
fn rest_of_command(words: &[&str], at: usize) -> usize {
    let (word, rest) = (words[at], &words[at + 1..]);
    let ticks = |word: &str| word.matches('`').count();
    if ticks(word) == 1 && word.trim_start_matches('(').starts_with('`') {
        // Messages of other programs end with ' what begins with `: their next backtick begins a word.
        let end = rest.iter().position(|word| ticks(word) > 0).filter(|end| !rest[*end].starts_with('`'));
        return end.map_or(0, |end| end + 1);
    }
    let after = at.checked_sub(1).map(|before| words[before]);
    if word == "baremark" && after.is_none_or(|before| before.ends_with(':')) {
        let is_choice = |at: usize| rest[at] == "|" && rest.get(at + 1).is_some_and(|word| !word.starts_with('-'));
        let ends = |at: &usize| is_choice(*at) || rest[*at].ends_with(['.', ';', ',']);
        return (0..rest.len()).find(ends).map_or(rest.len(), |end| end + usize::from(!is_choice(end)));
    }
    0
}

/// Where to break a word that is too long: after the last separator that fits, else where the line ends.
fn break_at(word: &str, columns: usize) -> usize {
    let mut taken = 0;
    let mut hard = word.chars().next().map_or(0, char::len_utf8);
    let mut soft = None;
    for (at, c) in word.char_indices() {
        taken += self::columns(c);
        if taken > columns {
            break;
        }
        hard = at + c.len_utf8();
        if matches!(c, '/' | '-' | '_' | ',' | ' ') {
            soft = Some(hard);
        }
    }
    soft.unwrap_or(hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_numbers_keep_their_units() {
        assert_eq!(wrap("it keeps 96.2 % of it", 11), ["it keeps", "96.2 % of", "it"]);
        assert_eq!(wrap("0.1 ± 0.2 GUP/s", 9), ["0.1 ± 0.2", "GUP/s"]);
        assert_eq!(wrap("/a/very/long/path", 8), ["/a/very/", "long/", "path"].to_vec());
        assert_eq!(wrap("", 8), [""]);
        for columns in 1..20 {
            assert!(wrap("日本語 and abcdefghijkl ± 3 %", columns).iter().all(|line| width(line) <= columns.max(2)));
        }
    }

    #[test]
    fn a_command_is_never_broken() {
        let next = "about 6 more blocks would decide it: baremark resume 1-2 --budget +1min";
        assert_eq!(
            wrap(next, 40),
            ["about 6 more blocks would decide it:", "baremark resume 1-2 --budget +1min"],
            "whole where it fits on a line"
        );
        assert_eq!(wrap(next, 80), [next]);
        let quoted = "see (`baremark list keys`), or `a b c` and `d`";
        assert_eq!(wrap(quoted, 12), ["see", "(`baremark list keys`),", "or `a b c`", "and `d`"]);
        assert_eq!(wrap("first: baremark a b. Then baremark c", 13), ["first:", "baremark a b.", "Then baremark", "c"]);
        assert_eq!(wrap("baremark run x.toml --quick", 9), ["baremark run x.toml --quick"]);
        assert_eq!(wrap("baremark run a | b | c", 14), ["baremark run a", "| b | c"], "choices are no command");
        assert_eq!(wrap("More: baremark a --b | --c", 20), ["More:", "baremark a --b | --c"], "but for options");
        // Signs of other programs are no pairs: they hold no text together.
        assert_eq!(wrap("no file `a b' nor `c d'", 9), ["no file", "`a b' nor", "`c d'"]);
        assert_eq!(wrap("one ` alone", 5), ["one `", "alone"]);
    }

    #[test]
    fn a_command_begins_where_it_fits() {
        let style = Style { width: 24, ..Style::default() };
        assert_eq!(beside("granted by: ", "`mount -t x none`", &style), "granted by:\n       `mount -t x none`\n");
        assert_eq!(beside("by: ", "`mount -t x none`", &style), "by: `mount -t x none`\n");
        let long = "`mount -t debugfs debugfs x`";
        assert_eq!(beside("by: ", &format!("root, {long}, or so"), &style), format!("by: root,\n{long},\n    or so\n"));
        assert_eq!(beside("  ", long, &style), format!("{long}\n"));
    }

    #[test]
    fn what_is_said_stands_beside_its_head() {
        let style = Style { width: 24, ..Style::default() };
        assert_eq!(beside("ksm   ", "off, and nothing else", &style), "ksm   off, and nothing\n      else\n");
        assert_eq!(beside("x ", "", &style), "x\n");
    }

    #[test]
    fn width_is_what_a_terminal_shows() {
        assert_eq!(width("0.1 ± 0.2"), 9);
        assert_eq!(width("日本"), 4);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("short", 5), "short");
        assert_eq!(right("±1", 4), "  ±1");
    }

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        assert_eq!(clean("a\x1b[2Jb\nc\u{202e}d"), "a [2Jb c d");
    }

    #[test]
    fn what_is_printed_shows_control_characters_and_keeps_lines_and_colours() {
        let shown = |text: &str, color| printable(text, color).into_owned();
        assert_eq!(
            shown("a\x1b[2Jb\u{9b}c\rd\u{202e}\x07", Color::Never),
            "a\\u{1b}[2Jb\\u{9b}c\\u{d}d\\u{202e}\\u{7}"
        );
        assert_eq!(shown("a\tb\r\nc\n", Color::Never), "a\tb\r\nc\n");
        let painted = ["1", "2", "32", "33"].map(|code| format!("\x1b[{code}mx\x1b[0m")).concat();
        assert_eq!(shown(&painted, Color::Always), painted);
        let style = Style { color: Color::Always, ..Style::default() };
        for paint in [Paint::Strong, Paint::Faint, Paint::Good, Paint::Caution] {
            let painted = style.paint(paint, "é");
            assert_eq!(shown(&painted, Color::Always), painted);
        }
        assert_eq!(shown("\x1b[1mx", Color::Never), "\\u{1b}[1mx");
        assert_eq!(shown("\x1b[31mx", Color::Always), "\\u{1b}[31mx", "not one of ours");
    }

    #[test]
    fn a_name_breaks_no_line() {
        assert_eq!(
            one_line("a\nb\tc\r\nd\u{85}\u{2028}e\x1b[2J"),
            "a\\u{a}b\\u{9}c\\u{d}\\u{a}d\\u{85}\\u{2028}e\\u{1b}[2J"
        );
        assert_eq!(one_line("kworker/0:1é"), "kworker/0:1é");
    }

    #[test]
    fn ascii_only_where_nothing_else_can_be_shown() {
        let style = Style { unicode: false, ..Style::default() };
        assert_eq!(style.plain("1 ± 2 – é"), "1 +- 2 - ?");
    }
}
