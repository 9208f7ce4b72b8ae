"""The settings of skate.data."""
