"""Where rows come from and go to: readers, paths, sinks, files."""
