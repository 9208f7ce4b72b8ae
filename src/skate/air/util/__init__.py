"""Conversions and checks, under Ray AIR's path."""
