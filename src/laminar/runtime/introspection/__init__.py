"""What the database says of itself; reads, never writes."""
