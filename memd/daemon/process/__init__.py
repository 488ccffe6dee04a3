"""The process itself: its lock, its log, its health, and the system it runs on."""
