"""The driver's side of the local engine: who runs what, where, with which resources.

Plain data and state machines without input or output (`resources`, `scheduler`, `actors`,
`groups`), and one class that connects them to processes (`hub`).
"""
