"""`python -m skate` is the command `skate`."""

from skate.cli import main

main()
