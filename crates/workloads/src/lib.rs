//! baremark-workloads
