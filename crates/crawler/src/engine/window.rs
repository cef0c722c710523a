//! How much may be outstanding now: additive increase, multiplicative decrease on loss. Pure.
//!
//! A decrease takes a share that depends on the class. Performance MADs travel on data lanes with flow control:
//! what is lost there is mostly an agent that dropped, or a bad link, so a loss takes an eighth, and the window
//! stays near its limit at 1 % of random loss (at a loss rate p it settles at about sqrt(7.5 / p): 27). SMPs
//! travel on VL15, which drops what it can't hold: a loss halves.

use super::settings::{MIN_SMP_WINDOW, YIELD_SMP_WINDOW};
use crate::transport::Class;

/// The adaptive window of one engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    limit: f64,
    least: f64,
    kept: f64,
    present: f64,
    /// Losses of what was sent before this serial number belong to a decrease that was made.
    decreased_at: u64,
    has_backpressure: bool,
}

impl Window {
    /// At its beginning. Performance MADs begin with the whole window, SMPs with half of it.
    #[allow(clippy::cast_precision_loss)] // At most 128.
    pub fn new(limit: usize, class: Class) -> Window {
        let limit = limit.max(1) as f64;
        let (least, kept, present) = match class {
            Class::Management => ((MIN_SMP_WINDOW as f64).min(limit), 0.5, (limit / 2.0).max(1.0)),
            _ => (1.0, 0.875, limit),
        };
        Window { limit, least, kept, present: present.max(least), decreased_at: 0, has_backpressure: false }
    }

    /// Requests that may be outstanding.
    pub fn present(&self) -> usize {
        // Between 1 and the limit, so the conversion is exact but for the fraction.
        let present = self.present as usize;
        if self.has_backpressure { present.min(YIELD_SMP_WINDOW) } else { present }
    }

    /// An answer came: one more for each window of answers.
    pub fn answered(&mut self) {
        self.present = (self.present + 1.0 / self.present).min(self.limit);
    }

    /// The attempt with this serial number was lost, or its agent was busy; `next` is the next serial number.
    /// All losses of one window count once.
    pub fn lost(&mut self, serial: u64, next: u64) {
        if serial >= self.decreased_at {
            self.present = (self.present * self.kept).max(self.least);
            self.decreased_at = next;
        }
    }

    /// Whether the subnet manager needs the agents.
    pub fn backpressure(&mut self, has_backpressure: bool) {
        self.has_backpressure = has_backpressure;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_one_window_count_once_and_it_grows_back() {
        let mut window = Window::new(32, Class::Performance);
        assert_eq!(window.present(), 32);
        for serial in 0..32 {
            window.lost(serial, 32);
        }
        assert_eq!(window.present(), 28);
        (0..200).for_each(|_| window.answered());
        assert_eq!(window.present(), 32);
        (0..2000).for_each(|round| window.lost(round * 100 + 32, round * 100 + 132));
        assert_eq!(window.present(), 1);
    }

    #[test]
    fn one_percent_of_loss_costs_little() {
        let mut window = Window::new(32, Class::Performance);
        let mut sum = 0;
        for serial in 0..100_000u64 {
            if serial % 100 == 99 {
                window.lost(serial, serial + 32)
            } else {
                window.answered()
            }
            sum += window.present();
        }
        assert!(sum / 100_000 >= 25, "{}", sum / 100_000);
    }

    #[test]
    fn subnet_management_is_more_careful() {
        let mut window = Window::new(16, Class::Management);
        assert_eq!(window.present(), 8);
        (0..200).for_each(|_| window.answered());
        assert_eq!(window.present(), 16);
        window.lost(0, 16);
        assert_eq!(window.present(), 8);
        (1..100).for_each(|round| window.lost(round * 16, round * 16 + 16));
        assert_eq!(window.present(), MIN_SMP_WINDOW);
        window.backpressure(true);
        assert_eq!(window.present(), YIELD_SMP_WINDOW);
        window.backpressure(false);
        assert_eq!(window.present(), MIN_SMP_WINDOW);
        assert_eq!(Window::new(1, Class::Management).present(), 1);
    }
}
