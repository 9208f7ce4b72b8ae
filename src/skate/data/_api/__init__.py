"""The methods of Dataset, by theme."""
