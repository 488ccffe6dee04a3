"""Write actions: carried out, recovered after a kill, undone; versions restored; memories purged."""
