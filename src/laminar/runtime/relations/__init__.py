"""What a view's statement reads: a relation before, after, and the change between."""
