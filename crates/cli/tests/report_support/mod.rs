pub mod browser;
pub mod documents;
