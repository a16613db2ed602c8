"""What a result says in words: notes, warnings and answers as English sentences."""
