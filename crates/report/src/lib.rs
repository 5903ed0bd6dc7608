//! baremark-report
