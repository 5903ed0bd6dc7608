//! Figures, printed on request: `cargo test --release -p baremark-microvm -- --ignored --nocapture figures`.
