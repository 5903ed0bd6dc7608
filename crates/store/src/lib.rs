//! baremark-store
