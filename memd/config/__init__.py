"""Settings and places: what the user decided, and where memd keeps things."""
