"""What was done and what was: versions, actions, shifts and runs, as the ledger keeps them."""
