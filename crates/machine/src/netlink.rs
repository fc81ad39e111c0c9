//! Messages and attributes of netlink(7), as the kernel aligns them.

/// Length of a message's header (`struct nlmsghdr`).
pub const HEADER: usize = 16;
/// Kind of a message that holds an error number.
pub const NLMSG_ERROR: u16 = 2;
/// Kind of the last message of a dump.
pub const NLMSG_DONE: u16 = 3;
/// Flag of each request.
pub const NLM_F_REQUEST: u16 = 1;
/// Flags of a request for all objects.
pub const NLM_F_DUMP: u16 = 0x300;

/// Family of IPv4 addresses in messages.
pub const AF_INET: u8 = 2;
/// Family of IPv6 addresses.
pub const AF_INET6: u8 = 10;

/// A message without its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetlinkMessage<'a> {
    /// Kind of the message.
    pub kind: u16,
    /// The rest.
    pub body: &'a [u8],
}

/// Encodes a message.
pub fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u32;
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], body].concat()
}

/// Iterates over the messages of a datagram; ends at a malformed one.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = NetlinkMessage<'_>> {
    std::iter::from_fn(move || {
        let length = number(bytes, 0)? as usize;
        let found = NetlinkMessage { kind: short(bytes, 4)?, body: bytes.get(HEADER..length)? };
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some(found)
    })
}

/// Iterates over attributes: length, kind and value, each padded to four bytes.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(short(bytes, 0)?);
        let value = bytes.get(4..length)?;
        let kind = short(bytes, 2)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Rounds a length up to the alignment of messages and attributes.
pub fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Returns the 32-bit number at an offset, in the machine's byte order.
pub fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Returns the 64-bit number at an offset, in the machine's byte order.
pub fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

/// Returns the 16-bit number at an offset, in the machine's byte order.
pub fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_ne_bytes)
}

/// Returns the error number of the body of an error or of the last message of a dump; `None` for
/// success or an invalid number (`MAX_ERRNO` of `include/linux/err.h`).
pub fn error_number(body: &[u8]) -> Option<i32> {
    let error = (number(body, 0)? as i32).wrapping_neg();
    (1..=4095).contains(&error).then_some(error)
}
