use super::*;

#[test]
fn image_numbers_that_span_everything_are_named() {
    for (low, high) in [(0, u64::MAX), (u64::MAX - 2, u64::MAX)] {
        let mut file = DataFile::unusable(Path::new("a"), String::new());
        file.num_frames = 3;
        file.image_nr_low = Some(low);
        file.note_problems(Vec::new(), Some(high));
        let problem = file.problem.as_deref().unwrap_or_default();
        assert!(problem.contains(&format!("images {low} to {high}")), "{problem}");
        assert_eq!((file.image_nr_low, file.numbers_doubtful), (None, true));
    }
}
