"""Where rows come from: one file per format beside a small base."""
