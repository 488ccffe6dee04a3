"""The views of the page, a module each; every one asks the daemon and fills a template."""
