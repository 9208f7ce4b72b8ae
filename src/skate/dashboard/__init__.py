"""A page that shows what runs: `skate dashboard [PID|PATH]`, `init(dashboard=True)`.

    driver ── listening socket ──► launch: starts the process below when somebody connects
       ▲
       │ questions on the session's own socket, as of the commands      run folders
       │                                                                    ▲
    process of the page: session_source ──────── run_folders ───────────────┘
                              ▲
                         app (Starlette; token, host, headers) ◄── browser: static/

The page only reads. It asks the session while somebody looks, and is told what is new; nothing is
collected for it. When the driver ends, the page shows the last state for as long as somebody
looks.
"""
