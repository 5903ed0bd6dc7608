//! What comes from files and programs reaches the terminal as text.

use crate::common::bench::{Bench, SMALL, text};
use crate::common::played::PLAYED;

#[test]
fn escape_sequences_of_a_study_file_and_of_programs_do_not_reach_the_terminal() {
    let bench = Bench::new();
    let odd = "\\u001b[2J\\u009b31m\\u202e";
    let shown = |arguments: &[&str]| {
        let output = bench.run(arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        let obeyed = said.chars().find(|&c| (c.is_control() && c != '\n') || c == '\u{202e}');
        assert_eq!(obeyed, None, "{arguments:?}: {said:?}");
        said
    };
    bench.write("key.toml", SMALL.replace("[design]", &format!("[design]\n\"{odd}\" = 1")));
    assert!(shown(&["plan", "key.toml"]).contains("unknown key '\\u{1b}[2J\\u{9b}31m\\u{202e}'"));
    bench.write("raw.toml", SMALL.replace("kind = \"random-access\"", "kind = \x1b[2J"));
    shown(&["run", "raw.toml"]);
    bench.write("title.toml", PLAYED.replace("a played study", &format!("a {odd} study")));
    for arguments in [&["plan", "title.toml"][..], &["run", "title.toml", "--quick"], &["report"], &["history"]] {
        shown(arguments);
    }
    let program = "[study]\ntitle = \"t\"\n[workload]\nkind = \"command\"\n[command]\n\
                   argv = [\"sh\", \"-c\", \"printf '\\\\033[2Jdeath\\\\033[31m' >&2; exit 1\"]\n";
    bench.write("program.toml", program);
    assert!(shown(&["run", "program.toml"]).contains("death"));
    shown(&["run", "\x1b[2J"]);
}
