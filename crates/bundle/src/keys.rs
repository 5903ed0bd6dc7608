//! The keys under which texts leave: one list, of everything else nothing does.

/// What is done about a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It is a word of baremark's own, or a digest, and stays.
    Word,
    /// It stays without names, addresses and paths.
    Text,
    /// It is replaced.
    Never,
}

/// The key whose value is a table of environment variables where it is a table; it is a factor's level where it is text.
pub(crate) const VARIABLES: &str = "environment";
/// The key below which the settings of environments are.
pub(crate) const ENVIRONMENTS: &str = "environments";
/// The key of the detailed document of a workload, whose keys are its own.
pub(crate) const DOCUMENT: &str = "document";
/// Keys that name machines, accounts and places, also in documents of workloads and in observations of other programs.
pub(crate) const NAMES: &[&str] = &[
    "address",
    "account",
    "client",
    "command_line",
    "config",
    "context",
    "device",
    "directory",
    "file",
    "filename",
    "folder",
    "host",
    "hostfile",
    "hostname",
    "hosts",
    "identity",
    "image",
    "machine",
    "namespace",
    "node",
    "partition",
    "password",
    "path",
    "secret",
    "server",
    "servers",
    "site",
    "sites",
    "socket",
    "token",
    "url",
    "user",
    "username",
];

/// Keys of words: the variants of types, and what is compared letter by letter.
const WORDS: &[&str] = &[
    "better",
    "choice",
    "code",
    "contrast",
    "distributions",
    "executor",
    "format",
    "frames",
    "grade",
    "guest_tables",
    "histogram",
    "host_backing",
    "id",
    "instruction_set",
    "isa",
    "memory",
    "outcome",
    "page",
    "placement",
    "status",
    "stdout",
    "step",
    "take",
    "together",
    "translation",
    "tsc_source",
];

/// Keys of texts.
const TEXTS: &[&str] = &[
    "absent",
    "against",
    "also",
    "argv",
    "bundled_by",
    "cleanup",
    "clocksource",
    "columns",
    "container_hints",
    "cpus",
    "decision",
    "detail",
    "distribution",
    "driver",
    "environment",
    "flags",
    "from",
    "governor",
    "help",
    "hypervisor_vendor",
    "instance",
    "instead_of",
    "json",
    "key",
    "kind",
    "lacks",
    "layers",
    "like",
    "metric",
    "microcode",
    "mmu",
    "model_name",
    "name",
    "observer",
    "over",
    "per",
    "place",
    "prepare",
    "present",
    "product",
    "program",
    "published",
    "quantity",
    "ready",
    "reason",
    "reasons",
    "regex",
    "release",
    "rows",
    "setup",
    "shared_cpus",
    "short",
    "size",
    "stop_reason",
    "thp_defrag",
    "thp_enabled",
    "title",
    "unit",
    "vendor",
    "version",
    "void",
    "what",
    "which",
    "why",
    "workload",
];

/// Keys of tables and lists whose own keys are names that a user or a kernel gave: their texts leave as texts.
pub(crate) const TABLES: &[&str] =
    &["also", "factors", "kvm_modules", "mitigations", "needs", "notes", "ratio_to", "treatment"];

/// Whether the texts under `key` leave.
pub(crate) fn may_leave(key: &str) -> Leave {
    if WORDS.contains(&key) {
        Leave::Word
    } else if TEXTS.contains(&key) || TABLES.contains(&key) {
        Leave::Text
    } else {
        Leave::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_in_two_lists_and_none_that_names_a_machine_leaves() {
        for key in WORDS {
            assert!(!TEXTS.contains(key) && !TABLES.contains(key), "{key}");
        }
        for key in NAMES {
            assert_eq!(may_leave(key), Leave::Never, "{key}");
        }
    }
}
