"""What operators do with quarantine and parking."""
