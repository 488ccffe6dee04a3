"""What was done and what was: versions, actions, changes of lives and job runs, as the ledger keeps them."""
