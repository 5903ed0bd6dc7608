//! Help: the first screen of `baremark --help`, `baremark help`, and one form for the help of every command.

use crate::exit::{Exit, Refusal};
use baremark_report::{Style, beside};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use std::fmt::Write as _;

/// Columns of help on a terminal that is wider.
const WIDTH: usize = 80;

/// The commands by what they are for; each is in one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Measure", &["run", "ab", "load", "auction", "guest", "resume", "nodes", "echo"]),
    ("Compare", &["compare", "check", "history"]),
    ("Explain", &["report", "explain", "predict", "top", "histograms"]),
    ("Data", &["import", "bundle", "verify", "site"]),
    ("Machine", &["doctor", "verify-host", "verify-scale", "setup"]),
    ("Other", &["list", "show", "plan", "init", "completions", "man", "help"]),
];

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark help all
  baremark help load                    # with the meaning of each value";

const QUESTION: &str = "\
How much of bare metal do I keep when my work runs in a VM, a container or a
cloud, why, and what should I change?
";

const EXAMPLES_OF_ALL: &str = "\
Examples:
  baremark                                       # the standard study: a minute
  baremark run --in native,container -- ./prog   # a program by environment
  baremark ab 'gzip -1 data' 'gzip -6 data'      # two commands
";

/// How much of it is shown.
#[derive(Clone, Copy)]
enum Form {
    /// `--help`: a line or two about each option.
    Options,
    /// `baremark help COMMAND`: what each possible value means, too.
    All,
}

/// The command line with the help that all of it has: examples first, then options in groups, at most 80 columns.
pub fn arranged(command: Command) -> Command {
    of_form(command, Form::Options)
}

/// A refusal of options that exclude each other, which names those that were typed: of a group of options, each is named.
pub fn of_typed(mut why: clap::Error, typed: &[String]) -> clap::Error {
    let all = match why.get(ContextKind::PriorArg) {
        Some(ContextValue::Strings(all)) if why.kind() == ErrorKind::ArgumentConflict => all.clone(),
        _ => return why,
    };
    let is_typed = |option: &String| {
        let name = option.split([' ', '[', '=']).next().unwrap_or_default();
        name.starts_with("--") && typed.iter().any(|word| word.split('=').next() == Some(name))
    };
    match all.into_iter().filter(is_typed).collect::<Vec<_>>() {
        mut one if one.len() == 1 => drop(why.insert(ContextKind::PriorArg, ContextValue::String(one.remove(0)))),
        none if none.is_empty() => {}
        several => drop(why.insert(ContextKind::PriorArg, ContextValue::Strings(several))),
    }
    why
}

fn of_form(command: Command, form: Form) -> Command {
    let command = command.disable_help_subcommand(true).override_help(overview());
    command.mut_subcommands(|command| each(command, "", form))
}

fn each(command: Command, of: &str, form: Form) -> Command {
    let name = format!("{of}{}", command.get_name());
    let examples = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    let end = "{usage-heading} {usage}\n\n{all-args}";
    let template = format!("{{about}}\n\n{{before-help}}{examples}{end}{}", exits(&name));
    let command = match form {
        Form::Options => {
            let long = command.get_long_about().map(ToString::to_string).unwrap_or_default();
            match long.split_once("\n\n") {
                Some((_, rest)) => command.before_help(rest.to_owned()),
                None => command,
            }
        }
        Form::All => command,
    };
    let below = format!("{name} ");
    let command = command.disable_help_subcommand(true).help_template(template).max_term_width(WIDTH);
    with_help_flag(command).mut_subcommands(|command| each(command, &below, form))
}

/// Both `-h` and `--help` print the same, but where the application reads its own arguments.
fn with_help_flag(command: Command) -> Command {
    if command.is_disable_help_flag_set() {
        return command;
    }
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    command.disable_help_flag(true).arg(help.help("Print help").help_heading("Common options"))
}

/// The exit codes that mean something special for a command, as lines of its help.
fn exits(name: &str) -> String {
    let mut text = String::new();
    for row in Exit::DOCUMENTED {
        let own = row
            .commands
            .iter()
            .filter(|(of, _)| *of == name || of.strip_prefix(name).is_some_and(|rest| rest.starts_with(" --")));
        for (of, when) in own {
            let option = of[name.len()..].trim_start();
            let option = if option.is_empty() { String::new() } else { format!("{option}: ") };
            text.push_str(&beside(
                &format!("  {:<4} ", row.exit.code()),
                &format!("{option}{when}"),
                &Style::default(),
            ));
        }
    }
    if text.is_empty() { text } else { format!("\n\nExit codes:\n{}", text.trim_end()) }
}

/// The first screen.
fn overview() -> String {
    let mut text = format!("{QUESTION}\nUsage: baremark [OPTIONS] [COMMAND]\n\n{EXAMPLES_OF_ALL}\n");
    for (group, commands) in GROUPS {
        let _ = writeln!(text, "{group:<9} {}", commands.join(", "));
    }
    text.push_str(
        "
Options of every command:
  --store FILE     All runs [default: ~/.local/share/baremark/baremark.db]
  --json           Print one JSON document instead of text
  --quiet, --wait  Show no progress; wait for other runs; see also --wait-quiet

`baremark help COMMAND` describes a command, `help all` every one; -V: version.
",
    );
    text
}

/// `baremark help`: the first screen, the help of a command, or with `all` a line about each command and the exit codes.
pub fn run(command: Command, of: &[String]) -> Result<(String, Exit), Refusal> {
    let mut command = of_form(command, Form::All);
    command.build();
    let text = match of {
        [] => overview(),
        [all] if all == "all" => everything(&command),
        path => {
            let unknown = |name: &str| {
                Refusal::bad_input(format!("help: unknown command '{name}'; `baremark help all` lists them"))
            };
            let find =
                |command: Command, name: &String| command.find_subcommand(name).cloned().ok_or_else(|| unknown(name));
            path.iter().try_fold(command, find)?.render_long_help().to_string()
        }
    };
    Ok((text, Exit::Success))
}

/// A line about each command, in its group, then the exit codes.
fn everything(command: &Command) -> String {
    let mut text = QUESTION.to_owned();
    for (group, names) in GROUPS {
        let _ = write!(text, "\n{group}\n");
        for of in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = of.get_about().map(ToString::to_string).unwrap_or_default();
            let line = format!("  {:<13} ", of.get_name());
            text.push_str(&beside(&line, &about, &crate::watch::style()));
        }
    }
    text + "\n" + &Exit::table() + "\n"
}

#[cfg(test)]
mod tests {
    use super::{GROUPS, WIDTH, arranged, everything, of_typed, overview};
    use crate::Cli;
    use crate::commands::ab::split;
    use crate::overrides::applied;
    use crate::source::shipped_by_name;
    use clap::{Command, CommandFactory, FromArgMatches};

    fn command() -> Command {
        let mut command = arranged(Cli::command());
        command.build();
        command
    }

    /// The command and all below it that are shown, with their full names.
    fn shown(command: &Command, of: &str) -> Vec<(String, Command)> {
        let own_help = |command: &&Command| command.get_arguments().any(|of| of.get_id() == "help");
        let below = command.get_subcommands().filter(|command| !command.is_hide_set()).filter(own_help);
        below
            .flat_map(|command| {
                let name = format!("{of}{}", command.get_name());
                let mut all = vec![(name.clone(), command.clone())];
                all.extend(shown(command, &format!("{name} ")));
                all
            })
            .collect()
    }

    fn widest(text: &str) -> &str {
        text.lines().max_by_key(|line| line.chars().count()).unwrap_or_default()
    }

    #[test]
    fn the_first_screen_has_24_lines_of_80_columns_and_names_each_command_once() {
        let text = overview();
        assert!(text.lines().count() <= 24, "{}\n{text}", text.lines().count());
        assert!(widest(&text).chars().count() <= WIDTH, "{}", widest(&text));
        let command = command();
        let mut commands: Vec<&str> =
            command.get_subcommands().filter(|of| !of.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        commands.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(commands, grouped);
    }

    #[test]
    fn each_command_has_examples_then_its_usage_then_options_in_80_columns() {
        for (name, mut command) in shown(&command(), "") {
            let text = command.render_help().to_string();
            assert!(widest(&text).chars().count() <= WIDTH, "{name}: {}", widest(&text));
            let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{name} has no '{what}':\n{text}"));
            assert!(place("Examples:\n") < place("Usage: "), "{name}:\n{text}");
            assert!(place("Usage: ") < place("Common options:\n"), "{name}:\n{text}");
            assert!(text.lines().count() <= 110, "{name}: {} lines", text.lines().count());
        }
    }

    /// 36 options of `load` were in one list.
    #[test]
    fn options_are_in_groups_that_can_be_overlooked_at_once() {
        const MOST: usize = 13;
        for (name, mut command) in shown(&command(), "") {
            let text = command.render_help().to_string();
            let heads = text.split("\n\n").filter(|group| group.lines().next().is_some_and(|head| head.ends_with(':')));
            for group in heads {
                let is_option = |line: &&str| line.trim_start().starts_with('-') && !line.starts_with("         ");
                let options = group.lines().skip(1).filter(is_option).count();
                assert!(options <= MOST, "{name}: {options} options in {group}");
            }
        }
    }

    /// Sixteen options were named for one that had been typed.
    #[test]
    fn options_that_exclude_each_other_are_those_that_were_typed() {
        let refused = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let read = arranged(Cli::command()).try_get_matches_from(&words);
            of_typed(read.expect_err("they exclude each other"), &words).to_string()
        };
        let one = refused(&["baremark", "run", "standard", "--image=a"]);
        assert!(one.contains("'[STUDY]' cannot be used with '--image <IMAGE>'"), "{one}");
        let two = refused(&["baremark", "run", "standard", "--timeout", "1s", "--setup", "true"]);
        assert!(two.contains("--timeout") && two.contains("--setup") && !two.contains("--shell"), "{two}");
    }

    #[test]
    fn each_example_is_a_command_line_that_is_read() {
        for (name, mut command) in shown(&command(), "") {
            let text = command.render_help().to_string();
            let examples =
                text.split("Examples:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
            for line in examples.lines() {
                let typed =
                    line.split(" # ").next().and_then(|rest| rest.split(" > ").next()).unwrap_or_default().trim();
                let words = split(typed).unwrap_or_else(|why| panic!("{name}: {why}"));
                assert_eq!(words[0], "baremark", "{name}: {line}");
                let read = arranged(Cli::command()).try_get_matches_from(words);
                let read = read.and_then(|read| Cli::from_arg_matches(&read));
                let read = read.unwrap_or_else(|why| panic!("{name}: {line}: {why}"));
                // Keys of a shipped study are those that it takes.
                let (study, changes, spending) = match read.command {
                    Some(crate::Command::Run(args)) => (args.study, args.changes, args.spending),
                    Some(crate::Command::Plan { study, changes, spending, .. }) => (Some(study), changes, spending),
                    _ => continue,
                };
                let Some(shipped) = study.and_then(|study| shipped_by_name(&study).ok()) else { continue };
                let changed = applied(shipped, &changes, &spending).map_err(|refusal| refusal.message);
                assert!(changed.is_ok(), "{name}: {line}: {:?}", changed.err());
            }
        }
    }

    #[test]
    fn the_page_of_commands_has_command_lines_that_are_read() {
        let page = include_str!("../../../docs/commands.md");
        let own = |line: &&str| line.starts_with("baremark");
        let lines: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    ")).filter(own).collect();
        assert!(lines.len() > 40, "{lines:#?}");
        for line in lines {
            let typed = line.split('#').next().unwrap_or_default().trim().replace("SHELL", "bash");
            let words = split(&typed).unwrap_or_else(|why| panic!("{line}: {why}"));
            let read = arranged(Cli::command()).try_get_matches_from(words);
            assert!(read.is_ok(), "{line}: {:?}", read.err());
        }
    }

    #[test]
    fn help_all_has_each_command_and_exit_code() {
        let text = everything(&command());
        for (_, names) in GROUPS {
            names.iter().for_each(|name| assert!(text.contains(&format!("\n  {name} ")), "{name}:\n{text}"));
        }
        assert!(text.contains("Exit codes:\n  0 "), "{text}");
    }
}
