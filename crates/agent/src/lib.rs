//! baremark-agent
