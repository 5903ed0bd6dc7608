//! XML documents of strangers: looked through before a tree is made of them.
//!
//! The tree's parser compares each attribute of an element with all others of it, and makes a node of 4 bytes of text. Elements of
//! results have hardly any attributes.

use crate::result::{Damage, Place};
use roxmltree::{Document, ParsingOptions};

/// Attributes of one element.
const MOST_ATTRIBUTES: usize = 64;
/// Elements that are open at once.
const MOST_DEPTH: usize = 64;
/// Elements, texts and comments.
const MOST_NODES: u32 = 1_000_000;

/// The tree of a document.
pub(crate) fn parsed(text: &str) -> Result<Document<'_>, Damage> {
    if let Err((what, at)) = look_through(text) {
        let line = 1 + text[..at].bytes().filter(|byte| *byte == b'\n').count() as u64;
        return Err(Damage::at(Place::Line(line), what));
    }
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|why| {
        let at = why.pos();
        let what = match why {
            roxmltree::Error::NodesLimitReached => format!("the file has more than {MOST_NODES} elements and texts"),
            why => why.to_string(),
        };
        Damage::at(Place::Column(u64::from(at.row), u64::from(at.col)), what)
    })
}

/// Whether no element has too many attributes or lies too deep; what is wrong, and the byte. Whether it is XML is for the parser.
fn look_through(text: &str) -> Result<(), (String, usize)> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(open) = text[at..].find('<') {
        at += open;
        let rest = &text[at..];
        let skipped = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">")];
        if let Some((begin, end)) = skipped.into_iter().find(|(begin, _)| rest.starts_with(begin)) {
            let Some(length) = rest[begin.len()..].find(end) else { return Ok(()) };
            at += begin.len() + length + end.len();
            continue;
        }
        let (length, attributes) = tag(rest);
        if attributes > MOST_ATTRIBUTES {
            return Err((format!("an element has more than {MOST_ATTRIBUTES} attributes"), at));
        }
        match (rest.starts_with("</"), rest[..length].ends_with("/>")) {
            (true, _) => depth = depth.saturating_sub(1),
            (false, true) => {}
            (false, false) => depth += 1,
        }
        if depth > MOST_DEPTH {
            return Err((format!("more than {MOST_DEPTH} elements are open at once"), at));
        }
        at += length;
    }
    Ok(())
}

/// The length of a tag up to its end, and its attributes: equals signs outside quotes. Stops behind too many.
fn tag(text: &str) -> (usize, usize) {
    let (mut quote, mut attributes) = (None, 0);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'>') => return (at + 1, attributes),
            (None, b'=') => attributes += 1,
            (None, _) => {}
        }
        if attributes > MOST_ATTRIBUTES {
            return (at + 1, attributes);
        }
    }
    (text.len(), attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parsed(text).expect_err("refused").to_string()
    }

    #[test]
    fn attributes_depth_and_nodes_are_limited() {
        let attributes = |count: usize| (0..count).map(|at| format!(" a{at}='=>'")).collect::<String>();
        assert!(parsed(&format!("<r{}><!-- = <x> --><![CDATA[<y>]]></r>", attributes(MOST_ATTRIBUTES))).is_ok());
        let many = format!("<r>\n<x{}/></r>", attributes(300_000));
        assert_eq!(refused(&many), "line 2: an element has more than 64 attributes");
        let deep = |depth: usize| format!("{}{}", "<d>".repeat(depth), "</d>".repeat(depth));
        assert!(parsed(&deep(MOST_DEPTH)).is_ok());
        assert_eq!(refused(&deep(100_000)), "line 1: more than 64 elements are open at once");
        let wide = format!("<r>{}</r>", "<e/>".repeat(1_000_001));
        assert!(refused(&wide).ends_with("the file has more than 1000000 elements and texts"), "{}", refused(&wide));
        assert!(refused("<!DOCTYPE r [<!ENTITY a 'b'>]><r>&a;</r>").contains("DTD"));
        for cut in ["<r", "<r a='", "<r><!-- ", "<r><![CDATA[", "<r></r"] {
            assert!(parsed(cut).is_err(), "{cut}");
        }
    }
}
