"""What the page shows, a module for each view; every one asks the daemon and fills a template."""
