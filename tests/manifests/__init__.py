"""What the manifests hold that needs no kubectl: their rule tables."""
