"""The care of the stores: comparing, building anew, backing up, and the doctor."""
