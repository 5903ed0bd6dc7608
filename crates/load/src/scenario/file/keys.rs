//! The keys of scenario files: one table that the parser and the reference page read.
//!
//! `docs/load-scenario.md` is [`reference`]; a test compares them and parses the page's examples.

use std::fmt::Write as _;

/// A key of a table.
pub(super) struct Key {
    pub(super) name: &'static str,
    /// What its value is.
    takes: &'static str,
    /// What holds without it.
    default: &'static str,
    meaning: &'static str,
}

/// A table of the file.
pub(super) struct Section {
    /// As it is in the file.
    heading: &'static str,
    meaning: &'static str,
    pub(super) keys: &'static [Key],
}

const fn key(name: &'static str, takes: &'static str, default: &'static str) -> Key {
    Key { name, takes, default, meaning: "" }
}

impl Key {
    const fn means(self, meaning: &'static str) -> Key {
        Key { meaning, ..self }
    }
}

const DURATION: &str = "duration, such as \"5 s\"";
const SHARE: &str = "percentage, such as \"25 %\"";
const STRING: &str = "string";
const TEMPLATE: &str = "string with placeholders";
const NUMBER: &str = "number";
const PATH: &str = "JSON path, such as \"items[*].id\"";
const NAMES: &str = "name or list of names";
const CONDITIONS: &str = "condition or list of conditions";

/// Tables at the top of a file.
pub(super) const TABLES: [&str; 6] = ["scenario", "origins", "variables", "operations", "choices", "follows"];

pub(super) const SCENARIO: Section = Section {
    heading: "[scenario]",
    meaning: "The scenario as a whole. Every key is optional, except that a base URL must be here or on the command line.",
    keys: &[
        key("title", STRING, "\"scenario\"").means("name in reports"),
        key("base", "URL, such as \"http://127.0.0.1:8080\"", "URL of the command line")
            .means("server of all requests without `origin`; a URL on the command line overrides it"),
        key("start", "operation", "the first one of the file")
            .means("first operation of every user, and the one after a failure"),
        key("cycle", DURATION, "none").means(
            "mean time from the intended start of a user's operation to that of the next; truncated normal \
             distribution",
        ),
        key("cycle_deviation", SHARE, "\"25 %\"").means("standard deviation of the cycle, as a share of its mean"),
        key("cycle_most", "percentage up to \"100 %\"", "\"50 %\"")
            .means("largest deviation of the cycle from its mean"),
        key("cookies", "true or false", "true")
            .means("whether users keep cookies (at most 50) and send them back to the server that set them"),
    ],
};

pub(super) const OPERATION: Section = Section {
    heading: "[operations.NAME]",
    meaning: "One thing that users do, measured as a whole: from its intended start to the last byte of its last request.",
    keys: &[
        key("requests", "list of tables `[[operations.NAME.requests]]`", "required")
            .means("requests of the operation, one after the other"),
        key("weight", NUMBER, "0: never").means("share among the operations that an open loop (`--rate`) starts"),
        key("limit", DURATION, "none")
            .means("99 % of the operations must not take longer; checked like `--limit 'NAME:p99<...'`"),
        key("think", DURATION, "the cycle")
            .means("time between the end of the operation and the next one, instead of the cycle"),
        key("next", "operation or choice", "the same operation").means("what a user does after success"),
        key("on_failure", "operation", "`start`").means("what a user does after a failure"),
        key("set", "table VARIABLE = string with placeholders", "none").means("variables set after success"),
        key("unset", NAMES, "none").means("variables unset after success"),
        key("add", "table VARIABLE = number", "none")
            .means("numbers added to variables after success; an unset variable counts as 0"),
        key("draw", "table VARIABLE = draw", "none")
            .means("variables set after success to another variable times a random factor"),
        key("begin", NAMES, "none").means("loops of `[follows]` started alongside the user after success"),
        key("end", NAMES, "none").means("loops of `[follows]` ended after success"),
    ],
};

pub(super) const METHODS: [&str; 7] = ["get", "post", "put", "delete", "patch", "head", "options"];

pub(super) const REQUEST: Section = Section {
    heading: "[[operations.NAME.requests]]",
    meaning: "One HTTP request: exactly one method, at most one of `body`, `form`, `json` and `multipart`. A response whose status is \
              400 or above, or not in `expect`, fails the operation.",
    keys: &[
        key("get", "path with placeholders", "").means("GET this path"),
        key("post", "path with placeholders", "").means("POST to this path"),
        key("put", "path with placeholders", "").means("PUT to this path"),
        key("delete", "path with placeholders", "").means("DELETE this path"),
        key("patch", "path with placeholders", "").means("PATCH this path"),
        key("head", "path with placeholders", "").means("HEAD of this path"),
        key("options", "path with placeholders", "").means("OPTIONS of this path"),
        key("origin", "name in `[origins]`", "the base URL").means("server of this request"),
        key("headers", "table NAME = string with placeholders", "none").means("request headers"),
        key("bearer", TEMPLATE, "none").means("token of the header `Authorization: Bearer`"),
        key("body", TEMPLATE, "none").means("text body"),
        key("form", "table FIELD = string with placeholders", "none").means("form body, percent-encoded"),
        key("json", "table, list or value", "none").means(
            "JSON body; strings have placeholders, `{ number = \"{variable}\" }` is a value without quotation \
             marks",
        ),
        key("multipart", "part or list of parts", "none").means("multipart/form-data body"),
        key("content_type", STRING, "by the kind of body").means("Content-Type of the body"),
        key("expect", "status or list of statuses", "below 400").means("statuses that count as success"),
        key("extract", "extract or list of extracts", "none").means("values taken from the response"),
        key("events", "whole number", "not a stream")
            .means("the response is a stream of server-sent events; read this many"),
        key("events_for", DURATION, "not a stream")
            .means("the response is a stream of server-sent events; read it for this long"),
        key("delay", "delay", "none").means("delay between a time in the response, or another user's request, and now"),
        key("tells", PATH, "none").means("values that other users wait for with `delay = { since = \"told\" }`"),
        key("timeout", DURATION, "`--timeout`").means("timeout of this request"),
        key("each", "variable", "once").means("repeat the request for each line of this variable, as `{each}`"),
        key("at_most", "whole number up to 10000", "10000").means("most repetitions by `each`"),
    ],
};

pub(super) const EXTRACT: Section = Section {
    heading: "extract = { ... }",
    meaning: "A value taken from the response into a variable. Exactly one of `json`, `regex` and `header` says where it is looked for. \
              Without a value the operation fails, unless `optional` is set. Responses of up to 16 MiB are kept for this; a value or \
              list longer than 1 MiB counts as not found.",
    keys: &[
        key("into", "variable", "required").means("where the value goes"),
        key("json", PATH, "").means("values at this path of the JSON body"),
        key("regex", "regular expression", "")
            .means("matches in the first 1 MiB of the body: the first group, or the whole match"),
        key("header", "header name", "").means("values of this response header"),
        key("pick", "\"first\", \"last\", \"random\", \"all\" or \"count\"", "\"first\"")
            .means("which of several values; `all` is a list with one value per line, `count` their number"),
        key("optional", "true or false", "false").means("unset the variable instead of failing when there is no value"),
    ],
};

pub(super) const DELAY: Section = Section {
    heading: "delay = { ... }",
    meaning: "Measures how late the response, or each event of a stream, reports what happened. The delay has percentiles of its own \
              in the result.",
    keys: &[
        key("json", PATH, "required")
            .means("the time in the response, or with `since = \"told\"` the value that another user's response had"),
        key("unit", "\"s\", \"ms\", \"us\" or \"ns\"", "\"ms\"").means("unit of the time, since 1970-01-01 UTC"),
        key("since", "\"told\"", "the time in the response").means(
            "count from the sending of the request whose response had this value (`tells`), by the generator's \
             own clock",
        ),
        key("limit", DURATION, "none").means("99 % of the delays must not be longer"),
    ],
};

pub(super) const PART: Section = Section {
    heading: "multipart = [{ ... }]",
    meaning: "A part of a multipart body: exactly one of `text`, `file` and `size`.",
    keys: &[
        key("name", STRING, "required").means("name of the field"),
        key("text", TEMPLATE, "").means("the part is this text"),
        key("file", "path relative to the scenario file", "").means("the part is this regular file of up to 64 MiB"),
        key("size", "size up to \"64 MiB\"", "").means("the part is this many random bytes"),
        key("filename", STRING, "none").means("file name sent with the part"),
        key("content_type", STRING, "none").means("Content-Type of the part"),
    ],
};

pub(super) const DRAW: Section = Section {
    heading: "draw = { VARIABLE = { ... } }",
    meaning: "Sets VARIABLE to another one times a factor from a truncated normal distribution; unset where the other is unset.",
    keys: &[
        key("from", "variable", "required").means("the variable that is multiplied"),
        key("mean", NUMBER, "1").means("mean of the factor"),
        key("deviation", NUMBER, "0").means("standard deviation of the factor"),
        key("least", NUMBER, "no limit").means("smallest factor"),
        key("most", NUMBER, "no limit").means("largest factor"),
        key("decimals", "whole number up to 9", "0").means("decimals of the result"),
    ],
};

pub(super) const CANDIDATE: Section = Section {
    heading: "[choices] NAME = [{ ... }]",
    meaning: "What a user does next, as a list of candidates. Candidates with `chance` are tried in order; of the others one is drawn by \
              weight. A candidate with only a condition is taken whenever the condition holds. A choice may lead to other choices, \
              but not back to itself.",
    keys: &[
        key("to", "operation or choice", "required").means("where it leads"),
        key("when", CONDITIONS, "always").means("conditions that must all hold"),
        key("chance", SHARE, "drawn by weight").means("probability of being taken when its turn comes"),
        key("weight", NUMBER, "1").means("weight among the candidates without `chance`"),
    ],
};

pub(super) const CONDITION: Section = Section {
    heading: "when = [{ ... }]",
    meaning: "A condition on a variable of the user. Several tests in one condition must all hold.",
    keys: &[
        key("variable", "variable", "required").means("the variable"),
        key("is", TEMPLATE, "").means("equals this text"),
        key("is_not", TEMPLATE, "").means("differs from this text"),
        key("below", NUMBER, "").means("is a number below this one; what is not a number counts as 0"),
        key("at_least", NUMBER, "").means("is a number of at least this one"),
        key("is_set", "true or false", "").means("is set, or is not"),
    ],
};

pub(super) const FOLLOW: Section = Section {
    heading: "[follows.NAME]",
    meaning: "A loop that runs alongside a user, such as a long poll or an event stream. It starts with a copy of the user's variables.",
    keys: &[
        key("operations", NAMES, "required").means("operations that are repeated, in this order"),
        key("until", CONDITIONS, "ended by `end`")
            .means("conditions on the loop's variables that end it after a round"),
        key("tell", NAMES, "none")
            .means("variables that are copied to the user after each operation, where they are set"),
        key("pause", DURATION, "none").means("pause after each round"),
    ],
};

/// All of them, in the order of the page.
const SECTIONS: [&Section; 10] =
    [&SCENARIO, &OPERATION, &REQUEST, &EXTRACT, &DELAY, &PART, &DRAW, &CANDIDATE, &CONDITION, &FOLLOW];

const HEAD: &str = "\
# Load scenarios

<!-- Generated from the parser's table of keys; edit that, not this page. -->

`baremark load --scenario FILE` lets users do what a scenario file says: operations of one or several requests, what is taken
from responses, and what comes next. A scenario is TOML. Durations, sizes and percentages are strings with a unit: `\"5 s\"`,
`\"20 KiB\"`, `\"10 %\"`. Unknown keys and names are refused before anything runs, each with its line. A file is at most 4 MiB.

A small one, for an open loop of two kinds of requests (`--rate 100`) or for users (`--users 20`):

```toml
[scenario]
base = \"http://127.0.0.1:8080\"
cycle = \"2 s\"

[operations.home]
weight = 3
limit = \"200 ms\"
next = \"search\"
[[operations.home.requests]]
get = \"/\"

[operations.search]
weight = 1
next = \"home\"
[[operations.search.requests]]
get = \"/search?q={random}\"
```

Limits of operations are checked after the load as `--limit` is (99 % within the limit, at most 0.5 % failures): exit 4 when one
is exceeded.

One with nearly everything:

```toml
";

const TEXTS: &str = "\
## Placeholders

Strings \"with placeholders\" may hold:

| placeholder | value |
|---|---|
| `{VARIABLE}` | the user's variable; while it is not set, the request fails |
| `{user}` | the user's number, from 0 |
| `{serial}` | a number that no other operation of this site has |
| `{random}` | 64 random bits as a decimal number |
| `{each}` | the current line of a request with `each` |
| `{{` `}}` | braces |

Values are encoded by where they stand: percent-encoded in paths and forms, escaped in JSON, without line breaks in headers.

A JSON path is keys with dots between, `[0]` for an element and `[*]` for all elements of a list: `items[*].id`.

## `[origins]`

`NAME = \"URL\"`: further servers, for requests with `origin = \"NAME\"`.

## `[variables]`

`NAME = string with placeholders`: variables that every user has from the start. Others exist as soon as something sets them:
`extract`, `set`, `add` or `draw`.
";

const EXAMPLE: &str = include_str!("example.toml");

/// The page `docs/load-scenario.md`.
#[must_use]
pub fn reference() -> String {
    let mut page = format!("{HEAD}{EXAMPLE}```\n\n{TEXTS}");
    for section in SECTIONS {
        let _ = write!(
            page,
            "\n## `{}`\n\n{}\n\n| key | takes | default | meaning |\n|---|---|---|---|\n",
            section.heading, section.meaning
        );
        for Key { name, takes, default, meaning } in section.keys {
            let _ = writeln!(page, "| `{name}` | {takes} | {default} | {meaning} |");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use std::path::{Path, PathBuf};

    fn page() -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/load-scenario.md");
        if std::env::var_os("UPDATE_PAGES").is_some() {
            std::fs::write(&path, reference()).expect("the page can be written");
        }
        std::fs::read_to_string(path).expect("the page")
    }

    #[test]
    fn the_page_is_written_from_the_table() {
        assert!(
            page() == reference(),
            "docs/load-scenario.md is not what the table says; UPDATE_PAGES=1 cargo test writes it"
        );
    }

    #[test]
    fn the_examples_of_the_page_are_scenarios() {
        let page = page();
        let examples: Vec<&str> =
            page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().expect("an end")).collect();
        assert_eq!(examples.len(), 2);
        for example in examples {
            if let Err(why) = parse("page.toml", example.as_bytes(), None, &folder()) {
                panic!("{why}");
            }
        }
    }

    /// Where the example is, and the file that it uploads.
    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scenario/file")
    }
}
