"""How a session is looked at from outside: `skate status`, `list`, `stack`, `memory`, `logs`.

    skate stack ── Unix socket in the session's folder ──► driver, and each worker: `questions`
                   a question and an answer, in JSON            │
                ── SIGURG, if it does not answer ──────► `dumps`, by C code, without the GIL

Every process of a session answers for itself, also while its main thread computes. Nothing is
kept for those who may ask: answers are made from what the engine has anyway. The side that asks
is `skate.engine.sessions`.
"""
