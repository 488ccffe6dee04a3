"""The commands, a module for each subject; each has an `app` in which they are registered."""
