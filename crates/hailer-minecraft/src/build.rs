//! Builds of the game, in the order of their release (spec/minecraft-12w.md#1).
//!
//! The build, not the protocol number, determines the packet layout: 12w18a and 12w19a both send
//! 32, 12w27a and 12w30a both send 38, and they are incompatible.

use std::fmt;
use std::str::FromStr;

macro_rules! builds {
    ($( $build:ident $name:literal $protocol:literal $day:literal )*) => {
        /// Published build. Later builds compare as greater.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Build {
            $( #[doc = concat!($name, ", protocol ", $protocol, ", released ", $day)] $build, )*
        }

        impl Build {
            /// All builds, in order.
            pub const ALL: &[Self] = &[$(Self::$build),*];

            /// Returns the name that the game shows, such as `12w30c`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$build => $name),* }
            }

            /// Returns the protocol number that the build sends at login.
            pub const fn protocol(self) -> i8 {
                match self { $(Self::$build => $protocol),* }
            }

            /// Returns the release date, such as `2012-07-25`.
            pub const fn released(self) -> &'static str {
                match self { $(Self::$build => $day),* }
            }
        }
    };
}

builds! {
    V1_2_4 "1.2.4"  29 "2012-03-22"
    V1_2_5 "1.2.5"  29 "2012-04-04"
    W15a   "12w15a" 29 "2012-04-12"
    W16a   "12w16a" 30 "2012-04-19"
    W17a   "12w17a" 31 "2012-04-26"
    W18a   "12w18a" 32 "2012-05-03"
    W19a   "12w19a" 32 "2012-05-10"
    W21a   "12w21a" 33 "2012-05-24"
    W21b   "12w21b" 33 "2012-05-25"
    W22a   "12w22a" 34 "2012-05-31"
    W23a   "12w23a" 35 "2012-06-07"
    W23b   "12w23b" 35 "2012-06-08"
    W24a   "12w24a" 36 "2012-06-14"
    W25a   "12w25a" 37 "2012-06-21"
    W26a   "12w26a" 37 "2012-06-28"
    W27a   "12w27a" 38 "2012-07-05"
    W30a   "12w30a" 38 "2012-07-23"
    W30b   "12w30b" 38 "2012-07-24"
    W30c   "12w30c" 39 "2012-07-25"
    W30d   "12w30d" 39 "2012-07-25"
    W30e   "12w30e" 39 "2012-07-26"
    V1_3   "1.3"    39 "2012-07-26"
    V1_3_1 "1.3.1"  39 "2012-08-01"
    V1_3_2 "1.3.2"  39 "2012-08-16"
}

impl Build {
    /// First build of each of the thirteen wire versions.
    pub const DIALECTS: &[Self] = &[
        Self::V1_2_4,
        Self::W16a,
        Self::W17a,
        Self::W18a,
        Self::W19a,
        Self::W21a,
        Self::W22a,
        Self::W23a,
        Self::W24a,
        Self::W25a,
        Self::W27a,
        Self::W30a,
        Self::W30c,
    ];

    /// Newest build. Most servers of this protocol use it.
    pub const LATEST: Self = Self::V1_3_2;

    /// Returns the first build with the same wire version. Two builds are compatible if this is
    /// equal.
    pub fn dialect(self) -> Self {
        Self::DIALECTS
            .iter()
            .copied()
            .rfind(|first| *first <= self)
            .unwrap_or(Self::V1_2_4)
    }

    /// Returns the newest build with the same wire version. Prefers a release to a snapshot.
    pub fn newest(self) -> Self {
        let alike = || {
            Self::ALL
                .iter()
                .copied()
                .filter(|build| build.dialect() == self.dialect())
        };
        alike()
            .rfind(|build| build.is_release())
            .or_else(|| alike().next_back())
            .unwrap_or(self)
    }

    /// Returns the newest build with this protocol number. 32 and 38 also have an older,
    /// incompatible one.
    pub fn of_protocol(protocol: i32) -> Option<Self> {
        Self::DIALECTS
            .iter()
            .rfind(|build| i32::from(build.protocol()) == protocol)
            .map(|build| build.newest())
    }

    /// Returns whether the build is a release, not a snapshot.
    pub fn is_release(self) -> bool {
        self.name().starts_with("1.")
    }
}

impl Default for Build {
    fn default() -> Self {
        Self::LATEST
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error for an unknown build name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBuild(String);

impl fmt::Display for UnknownBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Build::ALL.iter().map(|build| build.name()).collect();
        write!(
            f,
            "{:?} is no build of the game; known are {}, or a protocol number from 29 to 39",
            self.0,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownBuild {}

impl FromStr for Build {
    type Err = UnknownBuild;

    /// Parses a name in any case, or a protocol number, which selects its newest build.
    fn from_str(text: &str) -> Result<Self, UnknownBuild> {
        let by_name = Self::ALL
            .iter()
            .copied()
            .find(|build| build.name().eq_ignore_ascii_case(text));
        let by_number = || text.parse().ok().and_then(Self::of_protocol);
        by_name
            .or_else(by_number)
            .ok_or_else(|| UnknownBuild(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_numbers_and_days_agree() {
        assert!(Build::ALL.is_sorted_by(|a, b| a < b
            && a.protocol() <= b.protocol()
            && a.released() <= b.released()));
        assert!(Build::DIALECTS.is_sorted());
        let numbers: Vec<i8> = Build::DIALECTS
            .iter()
            .map(|build| build.protocol())
            .collect();
        assert_eq!(
            numbers,
            [29, 30, 31, 32, 32, 33, 34, 35, 36, 37, 38, 38, 39]
        );
    }

    #[test]
    fn names_and_numbers_are_read() {
        for &build in Build::ALL {
            assert_eq!(build.name().parse(), Ok(build));
            assert_eq!(build.dialect().protocol(), build.protocol());
        }
        assert_eq!("39".parse(), Ok(Build::V1_3_2));
        assert_eq!("38".parse(), Ok(Build::W30b));
        assert_eq!("29".parse(), Ok(Build::V1_2_5));
        assert_eq!("12W30C".parse(), Ok(Build::W30c));
        assert_eq!(Build::W26a.dialect(), Build::W25a);
        assert!(
            "12w28a"
                .parse::<Build>()
                .is_err_and(|error| error.to_string().contains("12w30e"))
        );
    }
}
