"""The driver's side of the local engine: who runs what, where, with which resources.

Tables (`state`), state machines without input or output (`resources`, `scheduler`, `actors`,
`groups`, …), components that work on them (`tasks`, `lifecycle`, `values`, …), and `hub`, which
makes these and routes the messages of workers. `ports` is what they need of the engine.
"""
