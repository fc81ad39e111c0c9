//! Size of base pages.

/// Returns the size of a base page in bytes.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}
