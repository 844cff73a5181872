//! Places labels so that they do not cover one another.

/// A rectangle in picture coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    /// Of a text of `chars` characters at `size` with its baseline from (x, y).
    pub fn of_text(x: f64, y: f64, chars: usize, size: f64) -> Area {
        Area { left: x, top: y - 0.8 * size, right: x + text_width(chars, size), bottom: y + 0.25 * size }
    }

    /// Around a point.
    pub fn around(x: f64, y: f64, radius: f64) -> Area {
        Area { left: x - radius, top: y - radius, right: x + radius, bottom: y + radius }
    }

    /// Area of the common part, 0 if there is none.
    pub fn overlap(&self, other: &Area) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        if width > 0.0 && height > 0.0 { width * height } else { 0.0 }
    }

    /// Whether it lies within `outer`.
    pub fn within(&self, outer: &Area) -> bool {
        self.left >= outer.left && self.right <= outer.right && self.top >= outer.top && self.bottom <= outer.bottom
    }
}

/// Width of a sans-serif text, on the safe side.
pub fn text_width(chars: usize, size: f64) -> f64 {
    0.58 * size * chars as f64
}

/// The occupied parts of the drawing area.
#[derive(Debug, Clone)]
pub struct Taken {
    page: Area,
    hard: Vec<Area>,
    lines: Vec<Area>,
    soft: Vec<Area>,
}

impl Taken {
    /// Nothing yet on `page`.
    pub fn new(page: Area) -> Taken {
        Taken { page, hard: Vec::new(), lines: Vec::new(), soft: Vec::new() }
    }

    /// Takes `area`: no label may cover it.
    pub fn take(&mut self, area: Area) {
        self.hard.push(area);
    }

    /// Takes `area` for something that a label may cover if there is no other place (lines).
    pub fn prefer_free(&mut self, area: Area) {
        self.soft.push(area);
    }

    /// Takes `area` for a line that no upright label crosses, if there is any other place.
    pub fn keep_off(&mut self, area: Area) {
        self.lines.push(area);
    }

    /// The areas that nothing may cover: those of labels among them.
    #[cfg(test)]
    pub fn hard(&self) -> &[Area] {
        &self.hard
    }

    /// Whether `area` lies on the page and covers nothing that must stay visible.
    pub fn is_free(&self, area: &Area) -> bool {
        area.within(&self.page) && self.hard.iter().all(|taken| area.overlap(taken) == 0.0)
    }

    /// Whether `area` crosses a line that upright labels keep off.
    pub fn is_crossed(&self, area: &Area) -> bool {
        self.lines.iter().any(|line| area.overlap(line) > 0.0)
    }

    /// How many parts of lines it covers.
    pub fn covered(&self, area: &Area) -> usize {
        self.soft.iter().filter(|line| area.overlap(line) > 0.0).count()
    }

    /// Of the candidates that lie on the page and cover nothing that must stay visible, the one with the least cost: earlier
    /// ones are better, covered lines are worse. `None` if there is none. Marks the chosen area as taken.
    pub fn place(&mut self, candidates: &[Area]) -> Option<usize> {
        let cover = |a: &Area, all: &[Area]| all.iter().map(|b| a.overlap(b)).sum::<f64>();
        let best = (0..candidates.len())
            .filter(|i| self.is_free(&candidates[*i]))
            .map(|i| {
                let crossed = if self.is_crossed(&candidates[i]) { CROSSED } else { 0.0 };
                (i, crossed + 0.3 * cover(&candidates[i], &self.soft) + 3.0 * i as f64)
            })
            .min_by(|a, b| a.1.total_cmp(&b.1))?
            .0;
        self.take(candidates[best]);
        Some(best)
    }
}

/// More than any other cost of a place.
const CROSSED: f64 = 1e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placed_labels_never_cover_one_another() {
        let page = Area { left: 0.0, top: 0.0, right: 200.0, bottom: 100.0 };
        let mut taken = Taken::new(page);
        let mut placed = Vec::new();
        for _ in 0..30 {
            let candidates: Vec<Area> =
                (0..20).map(|i| Area::of_text(10.0 + 5.0 * f64::from(i), 20.0 + 4.0 * f64::from(i), 6, 10.0)).collect();
            if let Some(i) = taken.place(&candidates) {
                placed.push(candidates[i]);
            }
        }
        assert!(placed.len() > 2);
        for (i, a) in placed.iter().enumerate() {
            assert!(a.within(&page) && placed[i + 1..].iter().all(|b| a.overlap(b) == 0.0));
        }
    }
}
