//! baremark-model
