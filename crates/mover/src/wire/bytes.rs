//! Encoding of integers and byte strings, from which all fields are built.

use super::error::WireError;

/// Writes a number in 1 to 10 bytes of 7 bits, low bits first; all but the last have the high bit
/// set (LEB128, DWARF standard, section 7.6).
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes a signed number in zigzag encoding: 0, -1, 1, -2 become 0, 1, 2, 3.
pub fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Writes the length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a frame: kind, payload length and payload.
pub fn put_frame(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    out.push(kind);
    put_bytes(out, payload);
}

/// Reads fields from a complete buffer without copying, and without trusting any length.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns whether all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the number of unread bytes.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Reads a byte.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, WireError> {
        self.exactly::<1>(what).map(|[byte]| byte)
    }

    /// Reads exactly `N` bytes.
    pub fn exactly<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(WireError::Truncated(what))?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// Reads a number in its shortest encoding.
    pub fn number(&mut self, what: &'static str) -> Result<u64, WireError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(WireError::NotCanonical(what));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(WireError::NotCanonical(what))
    }

    /// Reads a number of at most 32 bits.
    pub fn number32(&mut self, what: &'static str) -> Result<u32, WireError> {
        let number = self.number(what)?;
        number.try_into().map_err(|_| WireError::TooLong { what, length: number, limit: u32::MAX.into() })
    }

    /// Reads a number written by [`put_signed`].
    pub fn signed(&mut self, what: &'static str) -> Result<i64, WireError> {
        let number = self.number(what)?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads a byte string of at most `limit` bytes.
    pub fn bytes(&mut self, what: &'static str, limit: usize) -> Result<&'a [u8], WireError> {
        let length = self.number(what)?;
        if length > limit as u64 {
            return Err(WireError::TooLong { what, length, limit: limit as u64 });
        }
        let (bytes, rest) = self.rest.split_at_checked(length as usize).ok_or(WireError::Truncated(what))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Checks that all bytes were read.
    pub fn end(&self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(WireError::Trailing)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    fn number(bytes: &[u8]) -> Result<u64, WireError> {
        Reader::new(bytes).number("n")
    }

    #[test]
    fn number_has_one_encoding() {
        assert_eq!(number(&[0]), Ok(0));
        assert_eq!(number(&[0x80, 1]), Ok(128));
        let limit = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(number(&limit), Ok(u64::MAX));
        for bad in [&[0x80, 0][..], &[0xff, 0x80, 0], &[&limit[..9], &[2]].concat(), &[0xff; 11]] {
            assert_eq!(number(bad), Err(WireError::NotCanonical("n")), "{bad:?}");
        }
        for short in [&[][..], &[0x80], &[0xff; 9]] {
            assert_eq!(number(short), Err(WireError::Truncated("n")), "{short:?}");
        }
    }

    #[test]
    fn rejects_excessive_length_before_reading() {
        let mut lie = Vec::new();
        put_number(&mut lie, 1 << 60);
        let refused = Reader::new(&lie).bytes("b", 10);
        assert_eq!(refused, Err(WireError::TooLong { what: "b", length: 1 << 60, limit: 10 }));
        assert_eq!(Reader::new(&[9, 1]).bytes("b", 10), Err(WireError::Truncated("b")));
    }

    proptest! {
        #![proptest_config(testing::config())]

        #[test]
        fn numbers_round_trip(n in any::<u64>(), shift in 0u32..64, signed in any::<i64>()) {
            let mut out = Vec::new();
            put_number(&mut out, n >> shift);
            put_signed(&mut out, signed >> shift);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.number("n"), Ok(n >> shift));
            prop_assert_eq!(reader.signed("s"), Ok(signed >> shift));
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn accepted_number_reencodes_identically(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let mut reader = Reader::new(&bytes);
            if let Ok(n) = reader.number("n") {
                let mut out = Vec::new();
                put_number(&mut out, n);
                prop_assert_eq!(&out[..], &bytes[..bytes.len() - reader.left()]);
            }
        }
    }
}
