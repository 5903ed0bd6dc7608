//! Settings typed as TOML: layers, mistakes and what is written.

use baremark_model::config::{self, Layer, Reader, Section};
use baremark_model::literal::{key, quoted, section};
use baremark_model::units::Bytes;

#[test]
fn all_mistakes_of_a_file_are_told_at_once_in_the_order_of_their_lines() {
    let text = "size = \"4 parsecs\"\n[a]\ncuont = 1\nlist = [1, 2000]\n[b.c]\non = 1\nwords = [\"x\", \"yy\"]\n";
    let told = config::read("it.toml", text, |reader, root| {
        let (b, a) = (reader.section(root, "b"), reader.section(root, "a"));
        let c = reader.section(&b, "c");
        reader.keys(&c, &["on", "words", "name"], &[]);
        assert_eq!((reader.switch(&c, "on"), reader.choices(&c, "words", &["x", "y"])), (None, vec![0]));
        reader.keys(&a, &[], &["count", "list"]);
        assert_eq!(reader.counts(&a, "list", (0, 9)), None);
        assert_eq!(reader.quantity::<Bytes>(root, "size"), None);
        reader.section(root, "size");
        Some(())
    });
    let expected = "it.toml:1: size: '4 parsecs' has the unknown unit 'parsecs'; the units are B, kB, MB, GB, TB, KiB, MiB, GiB and TiB; \
        write such as \"32 KiB\"\n\
        it.toml:1: 'size' is a string, no section; write [size] and keys below it\n\
        it.toml:3: unknown key 'cuont' in [a]; did you mean 'count'?\n\
        it.toml:4: invalid list = [1, 2000] in [a]; write a whole number from 0 to 9, or a list of such\n\
        it.toml:5: 'name' is missing in [b.c]; add it\n\
        it.toml:6: invalid on = 1 in [b.c]; write true or false\n\
        it.toml:7: words = 'yy' in [b.c] is not known; valid here: x, y";
    assert_eq!(told.map_err(|why| why.to_string()), Err(expected.to_owned()));
}

#[test]
fn the_first_layer_that_says_something_counts_and_has_the_mistake() {
    let over = Layer::level("a.count = 7").unwrap();
    let file = Layer::parse("file.toml", "a.count = \"many\"\na.name = \"own\"\n[b]\n").unwrap();
    let mut reader = Reader::default();
    let root = Section::root(&[&over, &file]);
    let a = reader.section(&root, "a");
    assert_eq!((reader.count(&a, "count", (1, 9)), reader.text(&a, "name")), (Some(7), Some("own")));
    assert!(a.has_over("file.toml", "count") && !a.has_over("file.toml", "name") && root.has("b"));
    assert_eq!(reader.mistakes(), 0);
    assert_eq!(reader.count(&a, "count", (8, 9)), None);
    assert_eq!(
        reader.finish().unwrap_err().to_string(),
        "'a.count = 7': invalid count = 7 in [a]; write a whole number from 8 to 9"
    );
}

#[test]
fn a_text_that_is_not_toml_is_refused_with_its_line() {
    let told = |text: &str| Layer::parse("it.toml", text).err().map(|why| why.to_string()).unwrap_or_default();
    assert!(told("a = 1\nb = [\n").starts_with("it.toml:"), "{}", told("a = 1\nb = [\n"));
    let twice = told("a = 1\na = 2\n");
    assert!(twice.starts_with("it.toml:2: ") && twice.ends_with("name each key and each section once"), "{twice}");
    let level = Layer::level("a = ").err().unwrap().to_string();
    assert!(level.starts_with("'a =': "), "{level}");
    let long = config::text("it.toml", b"abc", 2, "scenario").unwrap_err().to_string();
    assert_eq!(long, "it.toml: the file has 3 bytes, more than the 2 of any scenario; name a scenario file");
    let odd = config::text("it.toml", b"a\n\xff", 9, "study").unwrap_err().to_string();
    assert!(odd.starts_with("it.toml:2: not UTF-8 text"), "{odd}");
}

#[test]
fn what_is_written_is_read_again() {
    let odd = "two \"lines\"\n\\ and\ta tab\u{7f}";
    let text = format!("{} = {}\nbare-1 = 2\n", key("a b.c"), quoted(odd));
    let read: toml::Table = toml::from_str(&text).unwrap();
    assert_eq!((read["a b.c"].as_str(), read["bare-1"].as_integer()), (Some(odd), Some(2)));
    assert_eq!((key("bare-1"), text.lines().count()), ("bare-1".to_owned(), 2));
    let written = section([("z", 1.into()), ("a", odd.into())]).to_string();
    assert!(written.starts_with("z = 1\n"), "in the order given: {written}");
    assert_eq!(toml::from_str::<toml::Table>(&written).unwrap()["a"].as_str(), Some(odd));
}
