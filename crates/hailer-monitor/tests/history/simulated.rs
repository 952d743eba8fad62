//! Simulated game servers for measurements: the same samples for the same number. Players come and go
//! with the time of the day, latencies vary around a mean, replies are lost, and some servers are down at
//! times.

use super::{Millis, Sample, ServerId};

const DAY_MS: f64 = 86_400_000.0;

/// A simulated server.
pub(super) struct SimulatedServer {
    id: ServerId,
    random: u64,
    max: u32,
    /// Share of the places that are taken at the busiest hour.
    popularity: f64,
    busiest: f64,
    players: f64,
    latency: f64,
    deviation: f64,
    tells_players: bool,
    down_for: u32,
}

impl SimulatedServer {
    /// Creates a server. Its samples depend only on its number.
    pub(super) fn new(id: ServerId) -> Self {
        let mut server = Self {
            id,
            random: (id.0 as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            max: 0,
            popularity: 0.0,
            busiest: 0.0,
            players: 0.0,
            latency: 0.0,
            deviation: 0.0,
            tells_players: true,
            down_for: 0,
        };
        server.max = [20, 32, 50, 64, 100, 200, 1_000][(server.share() * 7.0) as usize];
        server.popularity = server.share().powi(3);
        server.busiest = server.share();
        server.latency = 5_000.0 * (server.share() * 3.7).exp();
        server.deviation = server.latency * (0.005 + 0.05 * server.share().powi(2)) + 150.0;
        server.tells_players = server.share() > 0.02;
        server
    }

    /// Returns a random number from 0 to 1.
    fn share(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random number with a normal distribution.
    fn normal(&mut self) -> f64 {
        let sum: f64 = (0..6).map(|_| self.share()).sum();
        (sum - 3.0) * std::f64::consts::SQRT_2
    }

    /// Returns the sample of a time. `interval_ms`: time since the last one.
    pub(super) fn sample(&mut self, at: Millis, interval_ms: u32) -> Sample {
        if self.down_for == 0 && self.share() < 0.000_05 {
            self.down_for = (self.share() * 60.0) as u32 + 1;
        }
        let mut sample = Sample {
            server: self.id,
            at,
            is_answered: false,
            players: None,
            max: None,
            latency: None,
            sent: 3,
            resent: 2,
            observed_ms: interval_ms,
        };
        // Players move towards the mean of the hour.
        let hour = (at as f64 / DAY_MS - self.busiest) * std::f64::consts::TAU;
        let mean = f64::from(self.max) * self.popularity * (0.55 + 0.45 * hour.cos());
        let step = self.normal() * (mean.max(0.0) / 12.0).sqrt();
        self.players += step + (mean - self.players) / 60.0;
        self.players = self.players.clamp(0.0, f64::from(self.max));
        if self.down_for > 0 {
            self.down_for -= 1;
            return sample;
        }
        let is_late = self.share() < 0.01;
        let tail = if is_late {
            self.share() * 50_000.0
        } else {
            0.0
        };
        let latency = self.latency + self.normal().abs() * self.deviation + tail;
        let is_lost = self.share() < 0.003;
        sample.is_answered = true;
        sample.players = self.tells_players.then_some(self.players as u32);
        sample.max = self.tells_players.then_some(self.max);
        sample.latency = Some(latency.max(100.0) as u32);
        sample.sent = if is_lost { 2 } else { 1 };
        sample.resent = is_lost.into();
        sample
    }
}
