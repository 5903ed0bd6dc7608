//! baremark-microvm
