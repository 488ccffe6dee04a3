"""The page: a front door of its own, which shows a person what the memory holds and lets them tend it."""
