//! baremark-sys
