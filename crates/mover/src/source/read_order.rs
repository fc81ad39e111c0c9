//! In which order files are read, and how many at a time.

/// The order of reads within a window of requested files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadOrder {
    /// By inode number, which most file systems assign in the order on the disk.
    #[default]
    Inode,
    /// By the physical address of the first extent (FIEMAP); files without one by inode number.
    Physical,
    /// The same while reads are as slow as a rotational disk, else by inode number.
    PhysicalIfSlow,
    /// As the scan found them.
    Listed,
}

/// How threads share the files of a device (Li's dissertation, Stony Brook 2015, section 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// Blocks of the next files are read while threads are free: both of the others together.
    #[default]
    Auto,
    /// All threads read one file, or one bundle of small files, and then the next.
    Stripe,
    /// At most one block of each file is read at a time, so threads read different files.
    Pipeline,
}
