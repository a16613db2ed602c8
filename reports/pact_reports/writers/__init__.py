"""Writers: one file per format that a table can be written in."""
