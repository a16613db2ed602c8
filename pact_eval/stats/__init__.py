"""Statistics: intervals and tests that respect the family as the unit of sampling."""
