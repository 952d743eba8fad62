//! Checksums.

/// Returns the CRC-32 of ISO 3309, as in zlib.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let carry = if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            crc = crc >> 1 ^ carry;
        }
    }
    !crc
}
