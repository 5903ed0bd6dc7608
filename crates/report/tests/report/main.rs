//! Reports as golden files: what people read is looked at by people, and stays as it was approved.

mod answer;
mod around;
mod check_document;
mod comparison;
mod documents;
mod html;
mod maximum;
mod progress;
mod scale;
mod terminal;
mod timeline;
