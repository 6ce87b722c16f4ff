//! CRC-32C, the checksum of messages, by a table. Few clients ask for it.

/// The polynomial of Castagnoli, its bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut value, mut bit) = (0_u32, 0);
        value |= index;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[index as usize] = value;
        index += 1;
    }
    table
}

/// The checksum of the concatenation of `parts`.
#[must_use]
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().copied().flatten();
    !bytes.fold(u32::MAX, |sum, byte| {
        let [low, ..] = sum.to_le_bytes();
        sum >> 8 ^ TABLE[usize::from(low ^ byte)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the catalogue of parametrised CRC algorithms, and that of RFC 3720 for 32 zeros.
    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32c(&[b"1234", b"56789"]), 0xE306_9283);
        assert_eq!(crc32c(&[&[0; 32]]), 0x8A91_36AA);
        assert_eq!(crc32c(&[]), 0);
    }
}
