"""The logical plan: its nodes, how it is optimised, what it says before it runs."""
