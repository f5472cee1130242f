//! What go-yaml takes for a timestamp: what Go's `time.Parse` reads with one of four layouts.

/// Whether a text is a timestamp: `2006-1-2`, `2006-1-2 15:4:5.9`, or `2006-1-2T15:4:5.9Z`.
pub(crate) fn is_timestamp(text: &[u8]) -> bool {
    let [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'-', ..] = text else {
        return false;
    };
    let mut rest = Rest(text);
    parse(&mut rest).is_some() && rest.0.is_empty()
}

fn parse(rest: &mut Rest<'_>) -> Option<()> {
    let year = rest.year()?;
    rest.literal(b'-')?;
    let month = rest.number()?;
    rest.literal(b'-')?;
    let day = rest.number()?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    match rest.0.first() {
        None => Some(()),
        Some(b'T' | b't') => {
            rest.0 = rest.0.get(1..)?;
            rest.clock()?;
            rest.zone()
        }
        Some(b' ') => {
            let blanks = rest.0.iter().take_while(|&&byte| byte == b' ').count();
            rest.0 = rest.0.get(blanks..)?;
            rest.clock()
        }
        Some(_) => None,
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn digit(&mut self) -> Option<u32> {
        match self.0 {
            [digit @ b'0'..=b'9', rest @ ..] => {
                self.0 = rest;
                Some(u32::from(digit - b'0'))
            }
            _ => None,
        }
    }

    fn year(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |year, _| Some(year * 10 + self.digit()?))
    }

    /// One digit, or two.
    fn number(&mut self) -> Option<u32> {
        let first = self.digit()?;
        Some(match self.digit() {
            Some(second) => first * 10 + second,
            None => first,
        })
    }

    fn literal(&mut self, wanted: u8) -> Option<()> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        (first == wanted).then_some(())
    }

    /// `15:4:5`, and a fraction of any length.
    fn clock(&mut self) -> Option<()> {
        let hour = self.number()?;
        self.literal(b':')?;
        let minute = self.number()?;
        self.literal(b':')?;
        let second = self.number()?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        if let [b'.' | b',', b'0'..=b'9', ..] = self.0 {
            self.0 = self.0.get(1..)?;
            while self.digit().is_some() {}
        }
        Some(())
    }

    /// `Z`, or an offset such as `+02:00`.
    fn zone(&mut self) -> Option<()> {
        if let Some(b'Z') = self.0.first() {
            return self.literal(b'Z');
        }
        let (&sign, rest) = self.0.split_first()?;
        self.0 = rest;
        if !matches!(sign, b'+' | b'-') {
            return None;
        }
        let hours = self.digit()? * 10 + self.digit()?;
        self.literal(b':')?;
        let minutes = self.digit()? * 10 + self.digit()?;
        (hours <= 24 && minutes <= 60).then_some(())
    }
}
