//! Programs of other people: what they print and how they end must be as natively.
//!
//! Where a program prints times, rates or numbers of processes, `varies` says so, and only what is declared is left out.

use crate::support::{command, has_kvm, inside, natively, same, skip};
use std::path::Path;

/// A program with its arguments, and what of its output may differ.
struct Case {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// Lines that contain one of these may differ.
    varies: &'static [&'static str],
}

const fn case(name: &'static str, program: &'static str, arguments: &'static [&'static str]) -> Case {
    Case { name, program, arguments, varies: &[] }
}

/// A dozen of the normal run.
const FEW: &[Case] = &[
    case("sh", "sh", &["-c", "for i in 1 2 3; do echo $i | tr 123 abc; done; (exit 7); echo $?"]),
    case(
        "bash",
        "bash",
        &["-c", "trap 'echo usr1' USR1; kill -USR1 $$; echo ${BASH##*/}; a=(1 2 3); echo ${a[@]}; exit 3"],
    ),
    case("ls", "ls", &["/etc/apt"]),
    case("sha256sum", "sha256sum", &["/bin/bash"]),
    case("gzip", "sh", &["-c", "gzip -nc /bin/bash | gzip -dc | cmp - /bin/bash && echo same"]),
    case("sort", "sh", &["-c", "seq 20000 | sort -r | tail -1"]),
    case("find", "find", &["/etc/apt", "-name", "*.list"]),
    case("awk", "awk", &["BEGIN { for (i = 0; i < 200000; i++) s += i; print s }"]),
    case(
        "perl",
        "perl",
        &[
            "-e",
            "print join(',', map { $_ * $_ } 1 .. 10), qq(\n); print `echo sub`; $SIG{ALRM} = sub { print qq(alarm\n) }; alarm 1; sleep 3;",
        ],
    ),
    case("python", "/usr/bin/python3", &["-c", PYTHON]),
    case("grep", "grep", &["-c", "root", "/etc/passwd"]),
    case("tar", "sh", &["-c", "tar cf - -C /etc apt 2>/dev/null | tar tf - | wc -l"]),
];

const PYTHON: &str = "import subprocess, threading, sys
print(subprocess.check_output(['echo', 'x']))
l = []
t = [threading.Thread(target=l.append, args=(i,)) for i in range(10)]
[x.start() for x in t]
[x.join() for x in t]
print(sorted(l))
try: subprocess.check_output(['/nonexistent'])
except FileNotFoundError as e: print(e)
sys.exit(5)";

fn is_there(program: &str) -> bool {
    program.contains('/') && Path::new(program).exists()
        || std::env::var("PATH")
            .is_ok_and(|path| path.split(':').any(|folder| Path::new(folder).join(program).exists()))
}

fn without(text: &str, varies: &[&str]) -> Vec<String> {
    let same = |line: &&str| !varies.iter().any(|word| line.contains(word));
    text.lines().filter(same).map(str::to_owned).collect()
}

fn run(case: &Case) {
    if !is_there(case.program) {
        return skip(&format!("no {}", case.program));
    }
    if case.varies.is_empty() {
        same(case.program, case.arguments);
        return;
    }
    let (found, _) = inside(command(case.program, case.arguments));
    let expected = natively(case.program, case.arguments);
    assert_eq!(found.status, expected.status, "{}", case.name);
    assert_eq!(without(&found.stdout, case.varies), without(&expected.stdout, case.varies), "{}", case.name);
}

#[test]
fn a_dozen_programs_print_and_end_as_natively() {
    if has_kvm() {
        FEW.iter().for_each(run);
    }
}
