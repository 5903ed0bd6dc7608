//! Runs that were imported: how their study is called in the store.

/// The study file of imported runs is this with their name.
pub const STUDY_FILE: &str = "import ";

/// The name by which the run of this study file was imported; `None` of any other run.
pub fn imported_name(study_file: &str) -> Option<&str> {
    study_file.strip_prefix(STUDY_FILE)
}
