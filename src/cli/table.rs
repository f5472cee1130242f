//! Tables as helm prints them.

/// Columns padded with blanks to the widest cell, a tab between them, as helm prints tables.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    cut_table(rows, usize::MAX)
}

/// A table in which a cell of more than `most` characters is cut.
pub(crate) fn cut_table<const N: usize>(rows: &[[String; N]], most: usize) -> String {
    let cut = |text: &String| match text.chars().count() <= most {
        true => text.clone(),
        false => text
            .chars()
            .take(most.saturating_sub(3))
            .chain("...".chars())
            .collect(),
    };
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(cut)).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("\t") + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_padded_and_long_cells_are_cut() {
        let rows = [["A", "LONG"], ["bcd", "e"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "A  \tLONG\nbcd\te   \n");
        let rows = [["änger".to_owned()], ["länger".to_owned()]];
        assert_eq!(cut_table(&rows, 5), "änger\nlä...\n");
    }
}
