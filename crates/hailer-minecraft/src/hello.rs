//! Detects the possible builds of a client from its first bytes.

use crate::build::Build;

/// First bytes of a client (spec/minecraft-12w.md#6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientHello {
    /// A status request, which is the same in every build.
    Ping,
    /// A handshake of protocol 29 or 30. The number follows in the login request.
    Old,
    /// A handshake with this protocol number. 32 and 38 stand for two builds each.
    Number(i8),
}

impl ClientHello {
    /// Classifies the first bytes. Returns `None` if one more is needed, or if this is not a client
    /// of the game.
    pub fn of(first: &[u8]) -> Option<Self> {
        match first {
            [0xFE, ..] => Some(Self::Ping),
            // A text of at most 64 units: the high byte of its count.
            [0x02, 0, ..] => Some(Self::Old),
            [0x02, number, ..] => Some(Self::Number(number.cast_signed())),
            _ => None,
        }
    }

    /// Returns the possible builds, oldest first: the newest of each dialect. Empty if the number
    /// is unknown.
    pub fn builds(self) -> impl Iterator<Item = Build> {
        let fits = move |build: &Build| match self {
            Self::Ping => *build == Build::LATEST,
            Self::Old => build.protocol() <= 30,
            Self::Number(number) => build.protocol() == number && number > 30,
        };
        Build::DIALECTS
            .iter()
            .map(|speech| speech.newest())
            .filter(fits)
    }

    /// Returns the build to use: `preferred` if it is possible, else the newest.
    pub fn build(self, preferred: Option<Build>) -> Option<Build> {
        let preferred = preferred.filter(|preferred| {
            self.builds()
                .any(|build| build.dialect() == preferred.dialect())
        });
        preferred.or_else(|| self.builds().last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_name_the_builds() {
        let builds =
            |bytes: &[u8]| ClientHello::of(bytes).map(|hello| hello.builds().collect::<Vec<_>>());
        assert_eq!(builds(&[0xFE]), Some(vec![Build::V1_3_2]));
        assert_eq!(builds(&[0x02, 0]), Some(vec![Build::V1_2_5, Build::W16a]));
        assert_eq!(builds(&[0x02, 32]), Some(vec![Build::W18a, Build::W19a]));
        assert_eq!(builds(&[0x02, 38]), Some(vec![Build::W27a, Build::W30b]));
        assert_eq!(builds(&[0x02, 39, 0]), Some(vec![Build::V1_3_2]));
        assert_eq!(builds(&[0x02, 40]), Some(vec![]));
        assert_eq!(
            builds(&[0x02, 29]),
            Some(vec![]),
            "29 does not announce itself like this"
        );
        assert_eq!(
            (builds(&[]), builds(&[2]), builds(&[0x16, 3])),
            (None, None, None)
        );
        assert_eq!(
            ClientHello::Number(38).build(Some(Build::W27a)),
            Some(Build::W27a)
        );
        assert_eq!(
            ClientHello::Number(38).build(Some(Build::W19a)),
            Some(Build::W30b)
        );
        assert_eq!(ClientHello::Number(38).build(None), Some(Build::W30b));
    }
}
