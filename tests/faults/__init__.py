"""What memd promises when things go wrong, shown with real processes and real files: a few rounds, many in a soak."""
