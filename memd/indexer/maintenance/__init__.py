"""Maintenance of the stores: reconciling, rebuilding, backups, the doctor."""
