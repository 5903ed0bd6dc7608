//! Keys of the sections that describe a program.

use crate::knob::{Default, Kind, Knob};
use crate::value::{Stdout, Take};

/// Keys of `[command]` that take one value.
pub const COMMAND: &[Knob] = &[
    Knob::new("argv", Kind::Words, Default::Required)
        .help("the program and its arguments, each a separate string; no shell is involved"),
    Knob::new("directory", Kind::Text, Default::Derived("a private folder")).help(
        "the folder in which it and its preparation run, an absolute path at the site; {folder} is private \
         all the same",
    ),
    Knob::new("stdin", Kind::Text, Default::Derived("nothing"))
        .help("the file that it reads as standard input, from the folder in which it runs"),
    Knob::new("stdout", Kind::Choice(Stdout::WORDS), Default::Typed("keep"))
        .help("keep: its standard output is read through a pipe and kept up to output_limit; drop: it is /dev/null"),
    Knob::new("repeat", Kind::Switch, Default::Typed("false")).help(
        "whether a phase runs it again and again until the phase has lasted long enough, in one private \
         folder; runs that end in the first quarter of a phase are a warm-up, and a metric is the mean of \
         the others, from five on without the largest and the smallest fifth",
    ),
    Knob::new("warmup_runs", Kind::Count { min: 0, max: 10_000 }, Default::Typed("0"))
        .help("runs before the first one that is measured: once on this machine itself, in every trial elsewhere"),
    Knob::new("output_limit", Kind::Size { min: 4096, max: 16 << 20 }, Default::Typed("1 MiB"))
        .help("the most that is kept of each output stream; of a longer one the beginning and the end"),
    Knob::new("inherit", Kind::Words, Default::Derived("none")).help(
        "environment variables that are passed on, as they are where the program runs (in a container, a guest or on another machine these are not this machine's: \
         write values in environment); PATH is always, and HOME is the folder; [\"*\"] for all",
    ),
    Knob::new("carry", Kind::Words, Default::Derived("none")).help(
        "files of this machine that the program needs at their own absolute paths: put there in a container \
         or guest that has no files but this program; elsewhere they must be there, but for the program \
         itself and files among its arguments, which are brought",
    ),
    Knob::new("instruction_set", Kind::Choice(&["baseline", "avx2", "avx512"]), Default::Derived("any"))
        .help("the instruction set without which the program cannot run"),
];

/// Keys of `[command.success]`.
pub const SUCCESS: &[Knob] = &[
    Knob::new("exit", Kind::Count { min: 0, max: 255 }, Default::Typed("0"))
        .help("the exit code that means success, or a list of them; an empty list for any"),
    Knob::new("present", Kind::Words, Default::Derived("none"))
        .help("regular expressions that must match; a placeholder in them is replaced by its text, taken literally"),
    Knob::new("absent", Kind::Words, Default::Derived("none"))
        .help("regular expressions that must not match, filled alike"),
    Knob::new("from", Kind::Text, Default::Typed("output"))
        .help("where they are looked for: output (both streams), stdout, stderr, or a file that the program writes"),
];

/// Keys of `[command.beside]`.
pub const BESIDE: &[Knob] = &[
    Knob::new("argv", Kind::Words, Default::Required)
        .help("a program that runs alongside the measured one, such as its server, and its arguments"),
    Knob::new("ready", Kind::Text, Default::Derived("ready at once"))
        .help("a regular expression in its output that says that it is ready"),
];

/// Keys of `[command.metrics.NAME]`; `[command.reading]` gives defaults for those from `from` on.
pub const READING: &[Knob] = &[
    Knob::new("unit", Kind::Text, Default::Required).help("the unit, as printed"),
    Knob::new("better", Kind::Choice(&["higher", "lower"]), Default::Required).help(
        "which direction is better; over copies that run together, higher-is-better metrics are summed and \
         the others averaged",
    ),
    Knob::new("help", Kind::Text, Default::Typed("")).help("description in one sentence"),
    Knob::new("from", Kind::Text, Default::Typed("stdout"))
        .help("where it stands: stdout, stderr, or a file that the program writes into its folder"),
    Knob::new("regex", Kind::Text, Default::Derived("json is given instead"))
        .help("a regular expression whose group (?<value>...) is the number; {key} in it is the metric's name"),
    Knob::new("json", Kind::Text, Default::Derived("regex is given instead"))
        .help("a JSON pointer to the number, such as /jobs/0/read/iops; * is every member"),
    Knob::new("take", Kind::Choice(Take::WORDS), Default::Typed("only")).help("which of several matches counts"),
    Knob::new("scale", Kind::Text, Default::Typed("1"))
        .help("factor that converts the number to the unit, such as \"1e-3\""),
    Knob::new("per", Kind::Text, Default::Typed(""))
        .help("divisor of the number: a number, or a parameter such as {steps}"),
    Knob::new("optional", Kind::Switch, Default::Typed("false")).help("whether a run counts that does not have it"),
];

/// The keys of [`READING`] that may be in `[command.reading]`.
pub const READING_DEFAULTS: &[&str] = &["from", "regex", "json", "take", "scale", "per", "optional"];
