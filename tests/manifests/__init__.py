"""What the manifests hold that needs no Helm: their rule tables."""
