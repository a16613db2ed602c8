"""Results in words: notes, warnings and answers as English sentences."""
