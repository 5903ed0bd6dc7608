//! baremark
fn main() {}
