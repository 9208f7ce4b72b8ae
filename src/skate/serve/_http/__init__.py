"""HTTP: replicas answer by themselves, on one port that they share.

     clients ───► one listening socket ◄─── accept ─── replica of the ingress of app A
                       ▲      ▲                             │ connection for app B: its descriptor
              opened by│      │accept                       ▼ (Unix socket), with what was read
                 door ─┘      └──────────── replica of the ingress of app B

`door` opens the socket and gives its descriptor to whoever asks on a Unix socket in a private
`folder`; `server` accepts and speaks HTTP (uvicorn's protocols on the replica's own event loop);
`connection` says when a request begins, its limits, and when its connection may move (`passing`);
`routes` says whose a path is; `front` is the ASGI application that all of them run; `answers`
turns values and errors into responses; `ingress` puts FastAPI applications into classes.
"""
