//! The keeper alone, for tests.

fn main() -> Result<(), baremark_programs::keeper::KeeperError> {
    baremark_programs::keeper::keep()
}
